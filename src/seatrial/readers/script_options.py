"""The options of a script, as its ``add_argument`` calls and its argument dataclasses tell them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.readers.config_values import number_or_text
from seatrial.readers.static_values import UNKNOWN, StaticValues, dotted

_PARSERS = ("HfArgumentParser", "TrlParser")


@dataclass(frozen=True)
class Option:
    """One option of the command line.

    Attributes:
        flags: ``("-n", "--number")``; empty for a positional argument.
        name: the attribute that it becomes.
        default: its default, ``UNKNOWN`` where the text does not tell.
        required: whether the script refuses to start without it.
        line: where it is declared.
        switch: it stands alone (``store_true``).
        choices: the texts it may be, where the script lists them.
    """

    flags: tuple[str, ...]
    name: str
    default: Any
    required: bool
    line: int
    switch: bool = False
    choices: tuple[str, ...] = ()


def options_of(tree: ast.Module, values: StaticValues) -> tuple[Option, ...]:
    """All options that the script declares itself."""
    found = [
        option
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
        for option in _argument(node, values)
    ]
    return (*found, *_dataclass_options(tree, values))


def _argument(node: ast.Call, values: StaticValues) -> list[Option]:
    flags = [values.of(argument) for argument in node.args]
    if not flags or not all(isinstance(flag, str) and flag for flag in flags):
        return []
    words = {word.arg: values.of(word.value) for word in node.keywords if word.arg}
    optional = flags[0].startswith("-")
    name = words.get("dest")
    if not isinstance(name, str):
        long = next((flag for flag in flags if flag.startswith("--")), flags[0])
        name = long.lstrip("-").replace("-", "_") if optional else flags[0]
    action = words.get("action")
    switch = action in ("store_true", "store_false", "store_const", "count", "help", "version")
    default = words.get("default")
    if action in ("store_true", "store_false") and default is None:
        default = action == "store_false"
    choices = words.get("choices")
    return [
        Option(
            flags=tuple(flags) if optional else (),
            name=name,
            default=default,
            required=words.get("required") is True
            if optional
            else words.get("nargs") not in ("?", "*") and default is None,
            line=node.lineno,
            switch=switch,
            choices=tuple(map(str, choices)) if isinstance(choices, list) else (),
        )
    ]


def _dataclass_options(tree: ast.Module, values: StaticValues) -> list[Option]:
    """Fields of the dataclasses of the script that it hands to an argument parser."""
    handed = {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in _PARSERS
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name not in handed:
            continue
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                default, required = _field(part.value, values)
                name = part.target.id
                found.append(Option((f"--{name}",), name, default, required, part.lineno))
    return found


def _field(node: ast.expr | None, values: StaticValues) -> tuple[Any, bool]:
    """Default of a dataclass field, and whether it has none."""
    if node is None:
        return None, True
    if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "field":
        words = {word.arg: word.value for word in node.keywords}
        if "default" in words:
            return values.of(words["default"]), False
        return UNKNOWN, "default_factory" not in words
    return values.of(node), False


def given_values(options: Sequence[Option], words: Sequence[str]) -> dict[str, Any]:
    """What these words of a command line say, by name; an option that is not there is left out.

    Numbers are numbers. Words that no option takes are left out as well.
    """
    by_flag = {flag: option for option in options for flag in option.flags}
    plain = [option for option in options if not option.flags]
    found: dict[str, Any] = {}
    index = 0
    while index < len(words):
        flag, equals, rest = words[index].partition("=")
        option = by_flag.get(flag) or by_flag.get(flag.replace("-", "_").replace("__", "--", 1))
        if option is None:
            if not flag.startswith("-") and plain:
                found[plain.pop(0).name] = number_or_text(words[index])
        elif option.switch:
            found[option.name] = not option.default
        elif equals:
            found[option.name] = number_or_text(rest)
        elif index + 1 < len(words):
            index += 1
            found[option.name] = number_or_text(words[index])
        index += 1
    return found


def loose_values(words: Sequence[str]) -> dict[str, Any]:
    """``--name value`` and ``--name=value`` among words whose options nobody declared."""
    found: dict[str, Any] = {}
    for index, word in enumerate(words):
        flag, equals, rest = word.partition("=")
        if not flag.startswith("--") or len(flag) < 3:
            continue
        name = flag[2:].replace("-", "_")
        following = words[index + 1] if index + 1 < len(words) else "--"
        if equals:
            found[name] = number_or_text(rest)
        elif not following.startswith("--"):
            found[name] = number_or_text(following)
    return found
