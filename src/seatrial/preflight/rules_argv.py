"""Rules on the exact command: does the script take these very words."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.preflight.parser_model import Parsed, ParserModel
from seatrial.preflight.rule import SEEN, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.script import Script

_CANNOT_FOLLOW = "the argument parser of the script cannot be followed by reading it"


def _parsers(script: Script) -> Iterator[tuple[ParserModel, Parsed] | Open]:
    """Each parser that takes the command's words, with what it makes of them."""
    if script.argv is None:
        return
    models = [model for _, model in script.namespaces]
    taking = [m for m in models if m is not None and m.given is None and not _reads_files(m)]
    if None in models:
        yield Open(_CANNOT_FOLLOW)
    for model in taking:
        parsed = script.parsed(model)
        if parsed is None:
            yield Open(f"{_CANNOT_FOLLOW}: {model.incomplete or 'it is not literal'}")
        elif len(taking) > 1 and (parsed.errors or parsed.unknown_words):
            yield Open("several places of the script parse arguments; which one runs is unknown")
        else:
            yield model, parsed
    if not script.namespaces and _parses_somehow(script):
        yield Open(_CANNOT_FOLLOW)


def _reads_files(model: ParserModel) -> bool:
    return model.method in ("parse_json_file", "parse_yaml_file", "parse_dict")


def _parses_somehow(script: Script) -> bool:
    names = {"parse_args", "parse_known_args", "parse_args_into_dataclasses"}
    return bool(script.imported & {"click", "typer", "fire", "hydra", "tyro", "absl"}) or any(
        call.name in names for call in script.calls
    )


def _may_know_more(model: ParserModel) -> str:
    """Why words that are not known here may still be arguments."""
    if model.incomplete:
        return model.incomplete
    if model.foreign:
        names = ", ".join(name.rpartition(".")[2] for name in model.foreign)
        return f"the fields of {names} are arguments, too, and belong to the installed library"
    return ""


@rule(
    "environment.script_syntax",
    severity="error",
    ad_hoc="warning",
    title="the script is no Python",
)
def script_syntax(subject: Subject) -> Iterator[Answer]:
    """The source cannot be parsed, so the run would end before its first line.

    Why it costs: on a paid machine the start, the image and the downloads before it are paid.

    What it cannot see: seatrial parses with its own Python; a script for a newer one may use
    syntax that this one does not know.

    Remedy: `python -m py_compile train.py` with the interpreter of the runner.

    Example: `def train(:`
    """
    script = subject.script
    if script is not None and script.error is not None:
        where = f" (line {script.error.line})" if script.error.line else ""
        yield Hit(
            f"the script is no Python: {script.error.message}{where}",
            line=script.error.line,
            remedy=f"python -m py_compile {script.path}",
        )
    elif script is not None:
        yield SEEN


@rule(
    "environment.argv_unknown_flag",
    severity="error",
    ad_hoc="warning",
    title="the command has words that the script's parser does not know",
    detects="launch",
)
def argv_unknown_flag(subject: Subject) -> Iterator[Answer]:
    """The parser is rebuilt from the script's `add_argument` calls and given the exact words.

    Why it costs: the script leaves with exit code 2 at its start.

    What it cannot see: arguments that are added in loops, under conditions or by a library. Then
    it says that it does not know. Fields of TrainingArguments belong to the installed library.

    Remedy: spell the flag as the script declares it, or add it to the parser.

    Example: `--learning-rte 3e-4` where the parser has `--learning-rate`.
    """
    for found in _parsers(subject.script) if subject.script is not None else ():
        if isinstance(found, Open):
            yield found
            continue
        model, parsed = found
        unknown = parsed.unknown_words
        if parsed.error_kind == "unknown_flag":
            yield Hit(
                f"the script's parser refuses the command: {parsed.errors[0]}",
                line=model.line,
                remedy="type the flag as the script declares it",
            )
        elif not unknown or model.lenient:
            yield SEEN
        elif _may_know_more(model):
            yield Open(f"{_shown(unknown)} may be unknown: {_may_know_more(model)}")
        else:
            yield Hit(
                f"the script's parser does not know {_shown(unknown)}: it leaves with exit code 2",
                line=model.line,
                observed=list(unknown[:8]),
                expected=[flag for option in model.options for flag in option.flags][:60],
                remedy=_nearest(unknown, model),
            )


def _shown(words: tuple[str, ...]) -> str:
    more = f" and {len(words) - 4} more words" if len(words) > 4 else ""
    return " ".join(words[:4]) + more


def _nearest(words: tuple[str, ...], model: ParserModel) -> str:
    import difflib

    flags = [flag for option in model.options for flag in option.flags]
    for word in words:
        close = difflib.get_close_matches(word.partition("=")[0], flags, n=1)
        if word.startswith("-") and close:
            return f"did you mean {close[0]}? The script declares it"
    return f"the script declares: {' '.join(flags[:12]) or 'no flags'}"


@rule(
    "environment.argv_rejected",
    severity="error",
    ad_hoc="warning",
    title="a value in the command is refused, or a required argument is missing",
    detects="launch",
)
def argv_rejected(subject: Subject) -> Iterator[Answer]:
    """The words go through the rebuilt parser: types, choices, counts, required arguments, groups.

    Why it costs: the script leaves at its start, or prints its help and ends with exit code 0.

    What it cannot see: what a function given as `type=` accepts, and checks that the script makes
    after parsing.

    Remedy: give what the message of the parser asks for.

    Example: `--steps 1e3` where the parser has `type=int`.
    """
    for found in _parsers(subject.script) if subject.script is not None else ():
        if isinstance(found, Open):
            yield found
        elif found[1].error_kind in ("missing", "value", "help"):
            yield Hit(
                f"the script's parser refuses the command: {found[1].errors[0]}",
                line=found[0].line,
                observed=list(subject.command[:40]),
                remedy="give what its parser asks for; `seatrial preflight` tells again",
            )
        else:
            yield SEEN


@rule(
    "environment.argv_abbreviated",
    severity="warning",
    ad_hoc="warning",
    title="a flag in the command is only the beginning of one",
    detects="launch",
)
def argv_abbreviated(subject: Subject) -> Iterator[Answer]:
    """`argparse` takes a unique beginning for the whole flag.

    Why it costs: a typo sets another flag, and the day somebody adds a flag with the same
    beginning the command stops working.

    What it cannot see: beginnings of flags that a library adds.

    Remedy: type the whole flag; `ArgumentParser(allow_abbrev=False)` refuses beginnings.

    Example: `--max 100` where the parser has `--max-steps`.
    """
    for found in _parsers(subject.script) if subject.script is not None else ():
        if isinstance(found, Open):
            yield found
            continue
        model, parsed = found
        for typed, meant in parsed.abbreviated:
            yield Hit(
                f"the parser takes {typed} for {meant}",
                line=model.line,
                observed=typed,
                expected=meant,
                remedy=f"type {meant}",
            )
        if parsed.unknown_words and _may_know_more(model):
            yield Open(f"{_shown(parsed.unknown_words)}: {_may_know_more(model)}")
        elif not parsed.abbreviated:
            yield SEEN


@rule(
    "environment.argv_swallowed",
    severity="warning",
    ad_hoc="warning",
    title="words of the command are dropped without a word",
    detects="launch",
)
def argv_swallowed(subject: Subject) -> Iterator[Answer]:
    """`parse_known_args`, or `fail_with_unknown_args=False`, lets every typo pass.

    Why it costs: the run goes on with a default instead of the value that was typed, and the whole
    of it is paid.

    What it cannot see: what a script does with the remaining words when it reads them.

    Remedy: `parse_args()`, or refuse what remains.

    Example: `--learning-rte 3e-4` in front of `parser.parse_known_args()`.
    """
    for found in _parsers(subject.script) if subject.script is not None else ():
        if isinstance(found, Open):
            yield found
            continue
        model, parsed = found
        unknown = parsed.unknown_words
        if not unknown or not model.lenient:
            yield SEEN
        elif model.rest_is_used or _may_know_more(model):
            reason = _may_know_more(model) or "the script reads the words that remain"
            yield Open(f"{_shown(unknown)} may be dropped: {reason}")
        else:
            yield Hit(
                f"the script drops {_shown(unknown)}: its parser does not know it and lets it pass",
                line=model.line,
                observed=list(unknown[:8]),
                remedy=_nearest(unknown, model),
            )


@rule(
    "environment.argv_bool_text",
    severity="warning",
    ad_hoc="warning",
    title="a flag of type=bool is given a text that reads false and becomes True",
    detects="launch",
)
def argv_bool_text(subject: Subject) -> Iterator[Answer]:
    """With `type=bool` every text but the empty one is True, also `False`.

    Why it costs: the run has the switch on that was meant to be off.

    What it cannot see: switches that a configuration file sets.

    Remedy: `action=argparse.BooleanOptionalAction`, then `--flag` and `--no-flag`.

    Example: `--packing False` with `add_argument("--packing", type=bool)`.
    """
    for found in _parsers(subject.script) if subject.script is not None else ():
        if isinstance(found, Open):
            yield found
            continue
        for flag, text in found[1].bool_texts:
            yield Hit(
                f"{flag} {text} becomes True: type=bool takes every text for true",
                line=found[0].line,
                observed=text,
                remedy="declare it with action=argparse.BooleanOptionalAction",
            )
        if not found[1].bool_texts:
            yield SEEN


RULES: tuple[Rule, ...] = (
    script_syntax,
    argv_unknown_flag,
    argv_rejected,
    argv_abbreviated,
    argv_swallowed,
    argv_bool_text,
)
