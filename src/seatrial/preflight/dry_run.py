"""The runner's own dry run, executed under caps because the person asked for it."""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.core.check_report import CheckReport
from seatrial.core.child import (
    EXITED,
    MEMORY,
    NOT_STARTED,
    OUTPUT,
    STOPPED,
    TIMEOUT,
    Ask,
    ChildAnswer,
    ChildRequest,
)
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.redaction import Redactor, from_environment
from seatrial.core.trial import Trial
from seatrial.core.units import format_duration, format_size

CODE = "environment.dry_run_failed"
FAMILY = "environment"
TIMEOUT_S = 120.0
OUTPUT_BYTES = 16 * 2**20
TAIL_LINES = 12
TAIL_CHARS = 2000
STDIN_WORD = "-"


def dry_run(
    trial: Trial, script_bytes: bytes | None, env: Mapping[str, str], ask: Ask
) -> CheckReport:
    """Execute ``[runner] dry_run`` of a trial.

    A command whose last word is ``-`` gets the bytes of the runner's script on standard input:
    what is executed is then what was read and hashed, whatever happens to the file.

    Args:
        trial: with the command, its working directory and its bounds.
        script_bytes: of the runner's script, as it was read; None when there is no such file.
        env: the environment of the trial's runner (``core.runner_env``).
        ask: runs a capped child: at most 120 s, or the trial's wall where that is shorter, and the
            trial's memory.
    """
    command = trial.runner.dry_run
    if not command:
        return _open("the trial names no command under [runner] dry_run")
    from_stdin = command[-1] == STDIN_WORD
    if from_stdin and script_bytes is None:
        return _open("the dry run reads the script from standard input, and there is no script")
    timeout = min(TIMEOUT_S, trial.bounds.wall_s)
    answer = ask(
        ChildRequest(
            argv=command,
            timeout_s=timeout,
            cwd=trial.runner.cwd,
            env=env,
            stdin=script_bytes or b"" if from_stdin else b"",
            memory_bytes=trial.bounds.memory_bytes,
            output_bytes=OUTPUT_BYTES,
        )
    )
    if answer.reason == STOPPED:
        return _open("the dry run was stopped")
    redactor = from_environment(env, trial.runner.secrets, command)
    facts = {
        "dry_run": {
            "command": list(redactor.argv(command)),
            "ended": answer.reason,
            "exit_code": answer.exit_code,
            "stdin_bytes": len(script_bytes or b"") if from_stdin else 0,
            "peak_memory_bytes": answer.peak_bytes,
        }
    }
    failed = () if answer.succeeded else (_failure(answer, timeout, trial, redactor),)
    return CheckReport("dry_run", failed, facts=facts, seconds=answer.seconds)


def _failure(answer: ChildAnswer, timeout: float, trial: Trial, redactor: Redactor) -> Finding:
    # Before it is cut, so that a cut through a secret leaves nothing of it.
    tail = _tail(redactor.text(answer.stderr.decode("utf-8", "replace")))
    shown = " ".join(redactor.argv(trial.runner.dry_run))
    return Finding(
        CODE,
        FAMILY,
        "error",
        f"the dry run ({shown}) {_ending(answer, timeout, trial)}" + (f": {tail}" if tail else ""),
        Place(file=trial.file),
        Evidence(
            observed=answer.exit_code if answer.reason == EXITED else answer.reason, expected=0
        ),
        "run the command by hand, or correct it under [runner] dry_run",
        "proven" if answer.reason in (EXITED, NOT_STARTED) else "measured",
    )


def _open(reason: str) -> CheckReport:
    return CheckReport("dry_run", not_judged=(NotJudged(CODE, FAMILY, reason),))


def _ending(answer: ChildAnswer, timeout: float, trial: Trial) -> str:
    if answer.reason == TIMEOUT:
        return f"took longer than {format_duration(timeout)}"
    if answer.reason == MEMORY:
        limit = format_size(trial.bounds.memory_bytes)
        return f"took more memory than the trial's {limit}"
    if answer.reason == OUTPUT:
        return f"printed more than {format_size(OUTPUT_BYTES)}"
    if answer.reason == NOT_STARTED:
        return f"could not be started ({answer.error})"
    code = answer.exit_code or 0
    return f"was ended by signal {-code}" if code < 0 else f"left with exit code {code}"


def _tail(text: str) -> str:
    """The last lines of what it wrote to standard error."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    tail = "\n".join(lines[-TAIL_LINES:])
    return tail if len(tail) <= TAIL_CHARS else "..." + tail[-TAIL_CHARS:]
