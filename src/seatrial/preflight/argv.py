"""The exact words of a command against the rebuilt parser of a script.

The words go through a real ``argparse`` parser that has the same arguments; no code of the script
takes part.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from seatrial.preflight.parser_model import DATACLASSES, Option, Parsed, ParserModel, default_values
from seatrial.preflight.values import UNKNOWN

_FALSE_TEXTS = frozenset({"false", "0", "no", "off", "n", "f"})
_SIMPLE_ACTIONS = frozenset(
    {"store_true", "store_false", "store_const", "append", "append_const", "count", "extend"}
)


class _Refused(Exception):  # noqa: N818 - a way out of argparse, no fault
    """The parser would leave the process."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


class _Rebuilt(argparse.ArgumentParser):
    """An argparse parser that prints nothing and leaves nothing."""

    def error(self, message: str) -> Any:
        kind = "value"
        if "required" in message:
            kind = "missing"
        elif "unrecognized" in message or "ambiguous" in message:
            kind = "unknown_flag"
        raise _Refused(message, kind)

    def exit(self, status: int = 0, message: str | None = None) -> Any:  # noqa: ARG002 - as argparse calls it
        raise _Refused("the script prints its help or version and ends", "help")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Nothing is printed."""


def _bool_text(text: str) -> bool:
    """The parser of booleans that ``HfArgumentParser`` uses."""
    lowered = text.lower()
    if lowered in ("yes", "true", "t", "y", "1"):
        return True
    if lowered in ("no", "false", "f", "n", "0"):
        return False
    raise argparse.ArgumentTypeError(f"truthy value expected, got {text!r}")


def _other(_text: str) -> Any:
    return UNKNOWN


_TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "path": PurePosixPath,
    "bool_text": _bool_text,
    "other": _other,
}


def _rebuild(model: ParserModel, *, allow_abbrev: bool) -> argparse.ArgumentParser:
    parser = _Rebuilt(
        prog="script",
        add_help=model.add_help,
        allow_abbrev=allow_abbrev,
        conflict_handler="resolve",
    )
    groups: dict[int, Any] = {}
    for option in model.options:
        holder: Any = parser
        if option.group is not None:
            if option.group not in groups:
                groups[option.group] = parser.add_mutually_exclusive_group(
                    required=option.group in model.required_groups
                )
            holder = groups[option.group]
        _add(holder, option)
    return parser


def _add(holder: Any, option: Option) -> None:
    words: dict[str, Any] = {"default": option.default}
    if option.flags:
        words["dest"] = option.dest
        words["required"] = bool(option.required)
    names = option.flags or (option.dest,)
    if option.action in ("version", "help"):
        holder.add_argument(*option.flags, action="version", version="")
        return
    if option.action == "boolean":
        holder.add_argument(*names, action=argparse.BooleanOptionalAction, **words)
        return
    if option.action in _SIMPLE_ACTIONS:
        words["action"] = option.action
    if option.action in ("store_const", "append_const") or option.nargs == "?":
        words["const"] = option.const
    if option.action in ("store", "append", "extend"):
        words["type"] = _TYPES.get(option.type_name, _other)
        if option.nargs is not None:
            words["nargs"] = option.nargs
        if isinstance(option.choices, (list, tuple)) and option.type_name != "other":
            words["choices"] = list(option.choices)
    holder.add_argument(*names, **words)


def parse(model: ParserModel, words: Sequence[str]) -> Parsed | None:
    """What the parser makes of these words; None when that cannot be known.

    Words that are refused leave the values at their defaults.
    """
    known_kind = model.kind == DATACLASSES and model.foreign
    try:
        strict = _rebuild(model, allow_abbrev=False)
        usual = _rebuild(model, allow_abbrev=model.allow_abbrev)
    except (ValueError, TypeError, argparse.ArgumentError, AssertionError):
        return None  # a declaration that argparse itself refuses, or that we misread
    try:
        found, unknown = usual.parse_known_args(list(words))
    except _Refused as refused:
        if (model.incomplete or known_kind) and refused.kind != "value":
            return None
        return Parsed(
            values=default_values(model.options),
            errors=(refused.message,),
            error_kind=refused.kind,
        )
    except (ValueError, TypeError, argparse.ArgumentError):
        return None
    return Parsed(
        values=_values(model, found),
        unknown_words=tuple(unknown),
        abbreviated=_abbreviated(strict, model, words),
        bool_texts=_bool_texts(model, words),
    )


def _values(model: ParserModel, found: argparse.Namespace) -> dict[str, Any]:
    values = dict(vars(found))
    for option in model.options:
        value = values.get(option.dest)
        if isinstance(value, list) and UNKNOWN in value:
            values[option.dest] = UNKNOWN
        if option.required is None and value is None:
            values[option.dest] = UNKNOWN
    return values


def _long_flags(model: ParserModel) -> list[str]:
    flags = [flag for option in model.options for flag in option.flags if flag.startswith("--")]
    flags += [
        "--no-" + flag[2:]
        for option in model.options
        if option.action == "boolean"
        for flag in option.flags
        if flag.startswith("--")
    ]
    return flags


def _abbreviated(
    strict: argparse.ArgumentParser, model: ParserModel, words: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Words that only abbreviation makes known flags: parse without it and compare."""
    if not model.allow_abbrev:
        return ()
    try:
        _, unknown = strict.parse_known_args(list(words))
    except (_Refused, ValueError, TypeError, argparse.ArgumentError):
        unknown = list(words)
    flags = _long_flags(model)
    pairs = []
    for word in words:
        name = word.partition("=")[0]
        if word not in unknown or not name.startswith("--") or name in flags or name == "--":
            continue
        meant = [flag for flag in flags if flag.startswith(name)]
        if len(meant) == 1:
            pairs.append((name, meant[0]))
    return tuple(pairs)


def _bool_texts(model: ParserModel, words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """``--flag False`` of a ``type=bool``: any text but the empty one is true."""
    found = []
    for option in model.options:
        if option.type_name != "bool" or option.action != "store":
            continue
        for at, word in enumerate(words):
            name, equals, value = word.partition("=")
            if name in option.flags:
                text = value if equals else (words[at + 1] if at + 1 < len(words) else "")
                if text.lower() in _FALSE_TEXTS:
                    found.append((name, text))
    return tuple(found)
