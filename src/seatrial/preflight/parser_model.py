"""The argument parser of a script, as its source declares it. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.preflight.values import UNKNOWN

# How a parser came about.
ARGPARSE = "argparse"
DATACLASSES = "dataclasses"  # HfArgumentParser, TrlParser


@dataclass(frozen=True)
class Option:
    """One argument of a parser.

    Attributes:
        flags: ``--lr``, ``-l``; empty for a positional one.
        dest: the attribute that it sets.
        type_name: ``int``, ``float``, ``str``, ``bool``, ``path``, ``flag`` (takes no value) or
            ``other`` (a function: what it makes of a text is unknown).
        action: as for argparse; ``store`` if none was given.
        nargs: as for argparse, or None.
        default: its value, or ``UNKNOWN``.
        const: value of ``store_const`` and ``nargs="?"``.
        choices: known choices, or None for none; ``UNKNOWN`` when they are computed.
        required: whether it must be given; None when that is computed.
        group: index of the mutually exclusive group it is in.
        line: where it is declared.
    """

    flags: tuple[str, ...]
    dest: str
    type_name: str = "str"
    action: str = "store"
    nargs: str | int | None = None
    default: Any = None
    const: Any = None
    choices: Any = None
    required: bool | None = False
    group: int | None = None
    line: int | None = None


@dataclass(frozen=True)
class ParserModel:
    """A whole parser.

    Attributes:
        kind: ``argparse`` or ``dataclasses``.
        options: its arguments in the order of their declaration.
        incomplete: why there may be more arguments than these; empty when all are known.
        foreign: dataclasses from elsewhere whose fields are arguments, too
            (``TrainingArguments``).
        allow_abbrev: whether a unique beginning of a flag is taken for it.
        required_groups: indices of exclusive groups of which one must be given.
        method: ``parse_args``, ``parse_known_args``, ``parse_args_into_dataclasses``, ...
        rest_is_used: whether words that a ``parse_known_args`` did not know are looked at.
        given: the words that the script itself hands to its parser; None for the command's own;
            ``UNKNOWN`` when they are computed.
        classes: for dataclasses: dotted names in the order in which their objects are returned;
            of a class of the script that is built on one from elsewhere, that one's name.
        line: where the command is parsed.
    """

    kind: str
    options: tuple[Option, ...]
    incomplete: str = ""
    foreign: tuple[str, ...] = ()
    allow_abbrev: bool = True
    add_help: bool = True
    required_groups: tuple[int, ...] = ()
    method: str = "parse_args"
    rest_is_used: bool = False
    lenient: bool = False
    given: Any = None
    classes: tuple[str, ...] = ()
    line: int | None = None

    def option(self, dest: str) -> Option | None:
        """The argument that sets an attribute; of several, the last one that is declared."""
        return next((option for option in reversed(self.options) if option.dest == dest), None)


@dataclass(frozen=True)
class Parsed:
    """What a parser makes of the words of a command.

    Attributes:
        values: attribute to value; ``UNKNOWN`` where only a run knows.
        errors: why the parser would leave; empty when it takes the words.
        error_kind: ``unknown_flag``, ``missing``, ``value``, ``help`` or empty.
        unknown_words: words that it does not know.
        abbreviated: pairs of what was typed and the flag it stands for.
        bool_texts: flags of ``type=bool`` with a text that reads false and becomes True.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    error_kind: str = ""
    unknown_words: tuple[str, ...] = ()
    abbreviated: tuple[tuple[str, str], ...] = ()
    bool_texts: tuple[tuple[str, str], ...] = ()


def default_values(options: Sequence[Option]) -> dict[str, Any]:
    """Every attribute with the value it has when nothing is typed."""
    values: dict[str, Any] = {}
    for option in options:
        if option.action in ("help", "version"):
            continue
        default = option.default
        if option.required is not False and default is None:
            default = UNKNOWN
        values.setdefault(option.dest, default)
    return values
