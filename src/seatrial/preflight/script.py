"""A training script as parsed: its bytes once, its tree, its calls with their origins and values.

Nothing of the script is executed or imported.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import stat
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from seatrial.core.errors import UsageError
from seatrial.preflight.argv import parse
from seatrial.preflight.evaluate import Evaluator, Namespace
from seatrial.preflight.parser_model import Parsed, ParserModel, default_values
from seatrial.preflight.parsers import parser_of
from seatrial.preflight.scopes import Index, index_of
from seatrial.preflight.values import NOWHERE, UNKNOWN, UNSURE, Value, value_of

MAX_SOURCE_BYTES = 4 * 2**20


@dataclass(frozen=True)
class SourceFault:
    """Why a source text is no Python that this interpreter reads."""

    message: str
    line: int | None = None


@dataclass(frozen=True)
class Content:
    """The bytes of a file, read once, and the hash of exactly these bytes."""

    path: str
    data: bytes
    sha256: str


class Call:
    """One call in a script.

    Attributes:
        node: the call.
        dotted: where the called thing comes from: ``transformers.TrainingArguments``,
            ``transformers.Trainer().train``, ``__main__.main``, ``builtins.print``; empty when that
            is unknown.
        line: where it stands.
    """

    def __init__(self, node: ast.Call, script: Script) -> None:
        self.node = node
        self.line = node.lineno
        self._script = script

    @cached_property
    def dotted(self) -> str:
        """See the class."""
        return self._script.evaluator.dotted(self.node.func)

    @property
    def name(self) -> str:
        """The last part of what is called, also when its origin is unknown."""
        func = self.node.func
        if self.dotted:
            return self.dotted.rpartition(".")[2]
        if isinstance(func, ast.Attribute):
            return func.attr
        return func.id if isinstance(func, ast.Name) else ""

    def comes_from(self, *packages: str) -> bool:
        """Whether the called thing comes from one of these packages."""
        return self.dotted.partition(".")[0] in packages

    def argument(self, name: str, position: int | None = None) -> Value:
        """The value of an argument by keyword, out of ``**`` of a known dict, or by position."""
        node = self.argument_node(name, position)
        if node is not None:
            return value_of(self._script.evaluator.value(node), node.lineno)
        unsure = any(isinstance(word, ast.Starred) for word in self.node.args) and (
            position is not None
        )
        for keyword in self.node.keywords:
            if keyword.arg is None:
                spread = self._script.evaluator.value(keyword.value)
                if not isinstance(spread, dict):
                    unsure = True
                elif name in spread:
                    return value_of(spread[name], keyword.value.lineno)
        return Value(UNSURE, line=self.line) if unsure else NOWHERE

    def argument_node(self, name: str, position: int | None = None) -> ast.expr | None:
        """The expression of an argument that is written at the call itself."""
        for keyword in self.node.keywords:
            if keyword.arg == name:
                return keyword.value
        if position is None or position >= len(self.node.args):
            return None
        before = self.node.args[: position + 1]
        return None if any(isinstance(word, ast.Starred) for word in before) else before[position]


class Script:
    """A parsed script. ``argv`` are the words behind it in the exact command; None: not known.

    Attributes:
        path: as it was given.
        text: decoded source; empty when it is no Python.
        sha256: of exactly the bytes that were read.
        tree: the tree, of an empty module when the source has an error.
        error: why the source is no Python, or None.
    """

    def __init__(
        self,
        content: Content,
        text: str,
        tree: ast.Module,
        error: SourceFault | None = None,
        argv: Sequence[str] | None = None,
    ) -> None:
        self.path = content.path
        self.sha256 = content.sha256
        self.text = text
        self.tree = tree
        self.error = error
        self.argv = None if argv is None else tuple(argv)
        self._parsed: dict[int, Parsed | None] = {}
        # What other modules worked out about this script, by their own keys.
        self.memo: dict[str, Any] = {}

    @cached_property
    def index(self) -> Index:
        """Names, parents and calls of the tree."""
        return index_of(self.tree)

    @cached_property
    def evaluator(self) -> Evaluator:
        """Resolves expressions of this script."""
        evaluator = Evaluator(self.index, self.path)
        evaluator.arguments = self._argument
        return evaluator

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Every call, in the order of the source."""
        return tuple(Call(node, self) for node in self.index.calls)

    def calls_named(self, *names: str) -> Iterator[Call]:
        """Calls of things with one of these last names, wherever they come from."""
        for call in self.calls:
            func = call.node.func
            written = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if written in names or call.name in names:
                yield call

    def value(self, node: ast.AST | None) -> Value:
        """The value of any expression."""
        found = self.evaluator.value(node)
        return value_of(found, getattr(node, "lineno", None))

    @cached_property
    def imported(self) -> frozenset[str]:
        """Top names of everything that is imported anywhere in the script."""
        found = set()
        for node in self.index.nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
        return frozenset(found)

    # Arguments

    @cached_property
    def namespaces(self) -> tuple[tuple[Namespace, ParserModel | None], ...]:
        """Every place that parses arguments, with its parser (None: it cannot be followed)."""
        found = []
        for node in self.index.calls:
            value = self.evaluator.value(node) if isinstance(node.func, ast.Attribute) else None
            if isinstance(value, Namespace) and value.call is node:
                found.append((value, parser_of(value, self.evaluator)))
        return tuple(found)

    def parser(self, namespace: Namespace) -> ParserModel | None:
        """The parser of one namespace."""
        for known, model in self.namespaces:
            if known.call is namespace.call:
                return model
        return None

    def words_for(self, model: ParserModel) -> tuple[str, ...] | None:
        """The words that a parser gets; None when they are not known."""
        if model.given is UNKNOWN:
            return None
        return self.argv if model.given is None else tuple(model.given)

    def parsed(self, model: ParserModel) -> Parsed | None:
        """What a parser makes of its words; None when the words or the parser are not known."""
        if id(model) not in self._parsed:
            words = self.words_for(model)
            unread = words is None or is_file_of_arguments(model, words)
            self._parsed[id(model)] = None if unread else parse(model, words or ())
        return self._parsed[id(model)]

    def _argument(self, namespace: Namespace, name: str) -> Any:
        model = self.parser(namespace)
        if model is None or model.given is UNKNOWN:
            return UNKNOWN
        option = model.option(name)
        if option is None:
            return UNKNOWN
        words = self.words_for(model)
        if words is None:
            return default_values(model.options).get(name, UNKNOWN)
        parsed = self.parsed(model)
        return UNKNOWN if parsed is None else parsed.values.get(name, UNKNOWN)


def is_file_of_arguments(model: ParserModel, words: Sequence[str]) -> bool:
    """Whether the arguments are in a file that the parser of dataclasses would read."""
    if not model.classes:
        return False
    alone = len(words) == 1 and words[0].endswith((".json", ".yaml", ".yml"))
    return alone or any(word.partition("=")[0] == "--config" for word in words)


def read_bytes(path: str, max_bytes: int = MAX_SOURCE_BYTES) -> Content:
    """Read a file once, with its hash.

    Raises:
        UsageError: it is missing, no regular file, unreadable or larger than ``max_bytes``.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "the name holds a NUL byte"
        raise UsageError(
            f"{path!r} cannot be read: {reason}",
            remedy=f"ls -l {os.path.dirname(path) or '.'}",
        ) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UsageError(f"{path!r} is no regular file", remedy="name the script itself")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
    if len(data) > max_bytes:
        raise UsageError(
            f"{path!r} has more than {max_bytes // 2**20} MiB; no training script is that long",
            remedy="name the script itself",
        )
    return Content(path, data, hashlib.sha256(data).hexdigest())


def read_script(path: str, argv: Sequence[str] | None = None) -> Script:
    """Read and parse a Python script; a syntax error is a value of the result.

    Args:
        path: the file.
        argv: the words behind the script in its exact command; None when there is no command.

    Raises:
        UsageError: missing, no regular file, over 4 MiB, binary, or no text in its encoding.
    """
    return parse_script(read_bytes(path), argv)


def parse_script(content: Content, argv: Sequence[str] | None = None) -> Script:
    """As ``read_script``, of bytes that were read before."""
    if b"\0" in content.data:
        raise UsageError(
            f"{content.path!r} is binary (a NUL byte at {content.data.index(0)}), no script",
            remedy="name the script itself",
        )
    text = decoded(content)
    empty = ast.Module(body=[], type_ignores=[])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the script's own strings: not ours to print
            tree = ast.parse(text, content.path)
    except SyntaxError as error:
        return Script(content, text, empty, SourceFault(error.msg or "no Python", error.lineno))
    except (RecursionError, MemoryError):
        return Script(content, text, empty, SourceFault("nested too deeply for Python's parser"))
    except ValueError as error:
        return Script(content, text, empty, SourceFault(str(error)))
    return Script(content, text, tree, argv=argv)


def decoded(content: Content) -> str:
    """The text of a source file by its coding line (PEP 263), UTF-8 without one.

    Raises:
        UsageError: it is not in its encoding, or that is unknown.
    """
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content.data).readline)
        return io.TextIOWrapper(io.BytesIO(content.data), encoding).read()
    except SyntaxError as error:
        raise UsageError(f"{content.path!r} is no text that Python reads: {error.msg}") from None
    except (UnicodeDecodeError, LookupError) as error:
        raise UsageError(
            f"{content.path!r} is no text that Python reads: {error}",
            remedy="save it as UTF-8, or declare its coding in the first line",
        ) from None
