"""Configuration files that a command or a script names and that are there.

A script also names files that it writes. A lock that held one of these would drift with every
healthy run, so a name that stands in a call which writes is left out.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from seatrial.readers.config_values import SUFFIXES, read_config
from seatrial.readers.script_options import options_of
from seatrial.readers.static_values import UNKNOWN, StaticValues, dotted

CONFIG_SUFFIXES = (*SUFFIXES, ".cfg", ".ini", ".txt")
MAX_CONFIGS = 200
_MAX_TEXT = 1000
# Parts of the names of functions and options that write what they are given the name of.
_WRITING = frozenset(
    """
    write writer writes writelines save saves saved dump dumps export store append log logs logger
    report reports touch unlink remove rename replace mkdir makedirs rmtree copy copyfile move
    savefig savetxt handler emit record out output outputs outfile result results metrics summary
    """.split()  # noqa: SIM905 - reads better as text than as a list
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OWNERS = ("args", "opt", "opts", "options", "cfg", "config")
_OPENERS = ("open", "io.open", "os.fdopen", "codecs.open", "gzip.open")


def named_by_words(words: Sequence[str], bases: Sequence[str]) -> list[str]:
    """Configuration files among the words of a command: ``cfg.yaml``, ``--config=cfg.yaml``.

    What stands behind an option such as ``--metrics-out`` is written, and left out.
    """
    texts = []
    option = ""
    for word in words:
        name, _, value = word.partition("=")
        if word.startswith("-"):
            option = name
            texts += [] if writes_by_name(option) else [value]
            continue
        if not writes_by_name(option):
            texts += [word, word.lstrip("@"), value]
        option = ""
    return _existing(texts, bases)


def writes_by_name(name: str) -> bool:
    """Whether a function or option of this name is one that writes."""
    if name.startswith("to_"):
        return True
    return any(part.lower() in _WRITING for part in _PART.findall(name))


def named_by_script(tree: ast.Module, source: bytes, path: str, bases: Sequence[str]) -> list[str]:
    """Configuration files in the constants of a script, but those that it writes.

    Args:
        tree: the parsed script.
        source: its text.
        path: its path.
        bases: folders from which its relative paths are seen, the likelier first.
    """
    lower = source.lower()
    if not any(suffix.encode() in lower for suffix in CONFIG_SUFFIXES):
        return []
    values = StaticValues(tree, path)
    options = options_of(tree, values)
    known = {option.name: option.default for option in options if option.default is not UNKNOWN}
    for owner in _OWNERS:
        values.give(owner, known)
    written = {
        os.path.basename(option.default)
        for option in options
        if isinstance(option.default, str) and writes_by_name(option.name)
    }
    written |= set(_written(tree, values))
    texts: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.BinOp, ast.JoinedStr, ast.Call)):
            text = values.of(node)
            if isinstance(text, str) and os.path.basename(text) not in written:
                texts.append(text)
    return _existing(texts, bases)


def named_by_config(path: str, bases: Sequence[str]) -> list[str]:
    """Configuration files that the values of a configuration file name."""
    if not path.lower().endswith(SUFFIXES):
        return []
    texts = [
        value
        for name, value in read_config(path).items()
        if isinstance(value, str) and not writes_by_name(name)
    ]
    return _existing(texts, [os.path.dirname(path), *bases])


def _existing(texts: Iterable[str], bases: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for text in texts:
        if len(found) >= MAX_CONFIGS:
            break
        if not text.lower().endswith(CONFIG_SUFFIXES) or len(text) > _MAX_TEXT:
            continue
        if "\0" in text or "\n" in text or "://" in text:
            continue
        for base in bases:
            path = os.path.normpath(os.path.join(base, os.path.expanduser(text)))
            if os.path.isfile(path):
                found.setdefault(path)
                break
    return list(found)


def _written(tree: ast.Module, values: StaticValues) -> Iterator[str]:
    """Base names that stand in a call which writes, or under a name such as ``log_file``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _writes(node, values):
            parts: list[ast.AST] = list(ast.walk(node))
        else:
            parts = list(_named_to_be_written(node))
        for part in parts:
            text = values.of(part) if isinstance(part, ast.expr) else None
            if isinstance(text, str) and len(text) <= _MAX_TEXT:
                yield os.path.basename(text)


def _named_to_be_written(node: ast.AST) -> Iterator[ast.expr]:
    """Values that are given to a name, a keyword or a key that says what is written."""
    if isinstance(node, ast.keyword) and node.arg and writes_by_name(node.arg):
        yield node.value
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [dotted(target).rpartition(".")[2] for target in targets]
        if any(writes_by_name(name) for name in names):
            yield node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            said = key.value if isinstance(key, ast.Constant) else None
            if isinstance(said, str) and writes_by_name(said):
                yield value


def _writes(node: ast.Call, values: StaticValues) -> bool:
    name = dotted(node.func)
    last = node.func.attr if isinstance(node.func, ast.Attribute) else name
    if name in _OPENERS or last == "open":
        at = 1 if name in _OPENERS else 0
        mode = node.args[at] if len(node.args) > at else None
        mode = next((word.value for word in node.keywords if word.arg == "mode"), mode)
        if mode is None:
            return False
        text = values.of(mode)
        return not isinstance(text, str) or bool(set("wax+") & set(text))
    return writes_by_name(last)
