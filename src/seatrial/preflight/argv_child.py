"""The exact command line, parsed by the script's own parser, which is all of it that runs."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Mapping
from typing import Any

from seatrial.core.child import MEMORY, TIMEOUT, Ask
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.redaction import Redactor
from seatrial.preflight.ask_child import Asked, ask_child
from seatrial.preflight.runner_words import RunnerWords

FAMILY = "environment"
RULE = "environment.arguments"
MAX_SOURCE_BYTES = 4 * 2**20
_PARSERS = (b"ArgumentParser", b"HfArgumentParser", b"TrlParser", b"parse_args")
_PARSE_METHODS = {"parse_known_args", "parse_args_into_dataclasses", "parse_args_and_config"}


def parsed_arguments(
    words: RunnerWords, source: bytes, ask: Ask, how: Asked, redactor: Redactor
) -> tuple[list[Finding], list[NotJudged], dict[str, Any]]:
    """Run the script up to its parser, and judge what the parser made of the command line.

    Args:
        words: of the runner's command.
        source: text of the script, as it was read.
        ask: runs a capped child.
        how: interpreter, working directory, environment and caps.
        redactor: takes secrets out of messages.

    Returns:
        Findings, open points, and the values that the options got.
    """
    if not any(name in source for name in _PARSERS):
        if not words.args:
            return [], [], {}
        return [], [_open("the script makes no argparse parser itself; it was not run")], {}
    request = {
        "script": words.script,
        "module": words.module,
        "args": list(words.args),
        "path0": words.first_on_path(how.cwd),
        "project": _project(words, how.cwd),
    }
    told = ask_child(ask, "parse_argv.py", how, request)
    if told.value is None:
        where = " before it parsed its arguments" if told.ended in (TIMEOUT, MEMORY) else ""
        return [], [_open(redactor.text(f"the script was ended{where}: {told.reason}"))], {}
    value = redactor.value(told.value)
    findings, reason = _judged(value, words, how)
    values = value.get("values")
    return findings, [_open(reason)] if reason else [], values if isinstance(values, dict) else {}


def _open(reason: str) -> NotJudged:
    return NotJudged(RULE, FAMILY, reason)


def _project(words: RunnerWords, cwd: str) -> str:
    """What the script must not write to before it parses: its folder, or the working one."""
    if words.script is None:
        return cwd
    folder = os.path.dirname(words.script)
    return cwd if (folder + os.sep).startswith(cwd.rstrip(os.sep) + os.sep) else folder


def _judged(value: Mapping[str, Any], words: RunnerWords, how: Asked) -> tuple[list[Finding], str]:
    outcome = value.get("outcome")
    message = str(value.get("message") or "")
    if outcome == "parsed":
        return _parsed(value), ""
    if outcome == "refused":
        text = f"the script refuses its own command line: {message or 'it leaves with an error'}"
        remedy = "correct the arguments in the command (python SCRIPT --help lists them)"
        return [_finding("arguments_refused", "error", text, value, message, remedy)], ""
    if outcome == "left":
        text = "with this command line the script only prints a text and leaves"
        remedy = "take --help, --version and kin out of the command"
        return [_finding("arguments_refused", "error", text, value, message, remedy)], ""
    if outcome == "raised":
        return _raised(value, message, words, how)
    if outcome == "wrote":
        return [], (
            f"the script writes {value.get('path')} before it parses its arguments; it was "
            "stopped there"
        )
    if outcome == "no_parse":
        return [], f"the script never parsed its arguments: {message}"
    return [], "the answer about the arguments cannot be read"


def _raised(
    value: Mapping[str, Any], message: str, words: RunnerWords, how: Asked
) -> tuple[list[Finding], str]:
    if value.get("in_parser") is not True and (words.launched or not value.get("file")):
        # A launcher would have given it an environment that this child lacks.
        return [], f"the script raised before it parsed its arguments: {message}"
    text = f"the script raises before it trains: {message}"
    remedy = f"run it by hand up to that line: {os.path.basename(how.interpreter)} SCRIPT ARGS"
    return [_finding("script_raises", "error", text, value, message, remedy, "measured")], ""


def _parsed(value: Mapping[str, Any]) -> list[Finding]:
    found = []
    for typed, meant in value.get("abbreviated") or ():
        text = f"{typed} is taken as {meant}: the parser completes abbreviations"
        remedy = f"write {meant}; a new option with the same beginning would change the command"
        found.append(_finding("arguments_abbreviated", "warning", text, value, typed, remedy))
    left = [str(word) for word in value.get("left") or ()]
    if left:
        found += _left_over(value, left)
    config = [str(word) for word in value.get("config_left") or ()]
    if config:
        shown = " ".join(config[:8])
        refused = value.get("config_refuses") is True
        text = (
            f"the configuration file has settings that no option takes: {shown}"
            if refused
            else f"settings of the configuration file are dropped without a word: {shown}"
        )
        remedy = "correct the names in the configuration file"
        code = "arguments_refused" if refused else "arguments_dropped"
        found.append(_finding(code, "error", text, value, config, remedy))
    return found


def _left_over(value: Mapping[str, Any], left: list[str]) -> list[Finding]:
    """Words that the parser did not know and handed back."""
    shown = " ".join(left[:8])
    fate = _fate(str(value.get("file") or ""), value.get("line"))
    if fate == "used":
        text = f"the parser hands back {shown}, and the script goes on with it; what for is unknown"
        remedy = "look whether the rest of the script takes these words"
        return [_finding("arguments_dropped", "note", text, value, left, remedy, "likely")]
    options = any(word.startswith("-") for word in left)
    sure = fate == "dropped" and options
    text = f"the parser does not know {shown}, and they are dropped without a word"
    remedy = "correct the spelling, or let the script call parse_args, which refuses them"
    severity = "error" if sure else "warning"
    confidence = "proven" if sure else "likely"
    return [_finding("arguments_dropped", severity, text, value, left, remedy, confidence)]


def _finding(
    code: str,
    severity: str,
    text: str,
    value: Mapping[str, Any],
    observed: Any,
    remedy: str,
    confidence: str = "proven",
) -> Finding:
    line = value.get("line")
    place = Place(
        file=str(value["file"]) if value.get("file") else None,
        line=line if isinstance(line, int) and line > 0 else None,
    )
    return Finding(
        f"environment.{code}",
        FAMILY,
        severity,
        text,
        place,
        Evidence(observed=observed),
        remedy,
        confidence,
    )


def _fate(file: str, line: Any) -> str:
    """What a script does with what its parser handed back: ``dropped``, ``used`` or ``unknown``."""
    tree = _tree(file)
    if tree is None or not isinstance(line, int):
        return "unknown"
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.Assign, ast.Expr))
            and node.lineno <= line <= (node.end_lineno or node.lineno)
            and _is_parse(node.value)
        ):
            return _fate_of(node, tree)
    return "unknown"


def _is_parse(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr in _PARSE_METHODS for part in ast.walk(node)
    )


def _fate_of(node: ast.Assign | ast.Expr, tree: ast.Module) -> str:
    if isinstance(node.value, ast.Subscript):
        index = node.value.slice
        return "dropped" if isinstance(index, ast.Constant) and index.value == 0 else "unknown"
    if isinstance(node, ast.Expr):
        return "dropped"
    target = node.targets[0]
    if not isinstance(target, (ast.Tuple, ast.List)) or not target.elts:
        return "unknown"
    last = target.elts[-1]
    if not isinstance(last, ast.Name):
        return "unknown"
    used = any(
        isinstance(name, ast.Name) and name.id == last.id and isinstance(name.ctx, ast.Load)
        for name in ast.walk(tree)
    )
    return "used" if used else "dropped"


def _tree(file: str) -> ast.Module | None:
    try:
        if not os.path.isfile(file):
            return None
        with open(file, "rb") as handle, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a string is the script's business
            return ast.parse(handle.read(MAX_SOURCE_BYTES))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
