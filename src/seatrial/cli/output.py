"""How a command answers: prose on stderr, or one JSON object on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from seatrial.cli.parser import COMMANDS
from seatrial.core import strict_json
from seatrial.core.errors import CouldNotJudgeError, UsageError
from seatrial.core.verdict import EXIT_PASS, EXIT_USAGE

# Control characters in a name of somebody's would drive the terminal; lines and tabs are ours.
_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def say(text: str) -> None:
    """Prose for people, on stderr; a closed stderr is no reason to fail."""
    try:
        sys.stderr.write(text.translate(_SHOWN) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def current_folder() -> str:
    """The working directory.

    Raises:
        UsageError: it was removed while this terminal stood in it.
    """
    try:
        return os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the working directory of this terminal is gone ({error.strerror})",
            remedy="cd to a folder that is there",
        ) from error


def print_json(value: Any) -> None:
    """One JSON object on stdout, nothing else there; see ``print_text``."""
    print_text(strict_json.dumps(value, indent=2))


def print_text(text: str) -> None:
    """The answer of a command.

    Raises:
        BrokenPipeError: its reader left.
        CouldNotJudgeError: stdout takes nothing, for example because its disk is full.
    """
    try:
        sys.stdout.write(text.translate(_SHOWN) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_stdout()
        raise CouldNotJudgeError(
            f"the answer could not be written to stdout: {error.strerror or error}",
            remedy="let stdout go to a terminal, a pipe or a disk with space",
        ) from error


def discard_stdout() -> None:
    """Let what is still to be written, at the latest when Python ends, go nowhere."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def print_run(value: Any) -> None:
    """The object of a run. Whether somebody could read it changes nothing about the run."""
    try:
        print_json(value)
    except BrokenPipeError:
        discard_stdout()
    except CouldNotJudgeError as error:
        say(f"seatrial: {error.message}")


def command_object(
    command: str, result: Any, *, exit_code: int = EXIT_PASS, findings: Sequence[Any] = ()
) -> dict[str, Any]:
    """The object that every command but ``run`` prints with ``--json``."""
    return {
        "schema": f"seatrial.{command}/1",
        "ok": exit_code == EXIT_PASS,
        "exit_code": exit_code,
        "result": result,
        "findings": list(findings),
    }


def redacted(text: str) -> str:
    """The text without values of secret variables of this environment and known token shapes."""
    from seatrial.core.redaction import from_environment

    return from_environment(os.environ, (), sys.argv).text(text)


def report_error(arguments: Sequence[str], exit_code: int, message: str, remedy: str) -> None:
    """Say what happened and the next command; with ``--json`` also print the command's object."""
    message, remedy = redacted(message), redacted(remedy)
    own = list(arguments[: arguments.index("--")]) if "--" in arguments else list(arguments)
    command = next((word for word in own if not word.startswith("-")), "")
    if exit_code == EXIT_USAGE and not remedy:
        known = command if command in COMMANDS else ""
        remedy = f"seatrial {known} --help".replace("  ", " ")
    say(f"seatrial: {message}")
    if remedy:
        say(f"  next: {remedy}")
    if "--json" not in own:
        return
    if command == "run":
        from seatrial.core.run_result import RunResult

        print_json(RunResult(exit_code=exit_code, outcome=None, conclusion=message).to_json())
        return
    print_json(command_object(command or "seatrial", {"message": message}, exit_code=exit_code))
