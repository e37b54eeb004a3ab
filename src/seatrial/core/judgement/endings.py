"""Findings about how the process ended: what happened, where, and what to do."""

from __future__ import annotations

import os
import shlex
import signal
from typing import Callable, Mapping, Optional, Tuple

from seatrial.core.finding import Evidence, Finding, Place
from seatrial.core.judgement.case import Case
from seatrial.core.judgement.crash import Crash, command_missing, first_line
from seatrial.core.judgement.outcome import short_segments
from seatrial.core.judgement.trips import capitalised
from seatrial.core.units import format_duration, format_size


def _look(case: Case) -> str:
    """Where the script's own words are; a script that wrote no error may have said it on stdout."""
    log = "stderr.log" if case.stderr_tail.strip() else "stdout.log"
    return f"Read the end of run/{log} in the record, if the script wrote anything."


def _install(case: Case, name: str) -> str:
    """For the interpreter that was run: another one's packages would not help."""
    program = case.plan.command[0] if case.plan.command else ""
    python = program if os.path.basename(program).startswith("python") else "python"
    return f"{shlex.quote(python)} -m pip install {name}"


def findings_of_ending(case: Case, outcome: str, crash: Optional[Crash]) -> Tuple[Finding, ...]:
    """What the outcome says about the run; nothing for a run that completed or was capped."""
    make = _MAKERS.get(outcome)
    return make(case, crash) if make is not None else ()


def _never_started(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:
    if crash is not None and crash.in_source:
        return (
            Finding(
                "run.never_started",
                "environment",
                "error",
                f"The script cannot be parsed: {crash}.",
                place=Place(file=crash.file, line=crash.line),
                evidence=Evidence(str(crash)),
                remedy="Correct the script; run it with the Python version that it is written for.",
                confidence="proven",
            ),
        )
    if is_environment_fault(case, "never_started", crash):
        return (_environment_fault(case, crash),)
    return _failed(case, crash)


def _environment_fault(case: Case, crash: Optional[Crash]) -> Finding:
    """A warning: the setup was never tried, so it is not disproved (exit 3, see ``unjudged``)."""
    place = Place(file=crash.file, line=crash.line, rank=crash.rank) if crash else Place()
    if crash is not None and crash.missing_module:
        name = crash.missing_module.partition(".")[0]
        code, message = "environment.missing_module", f"The module {name} is not installed."
        remedy, observed = _install(case, name), str(crash)
    elif crash is not None and (variable := _left_out(case, crash)):
        code = "environment.variable_left_out"
        message = f"{variable} is set in your shell, and a trial does not pass it on."
        remedy = f'Add it under [runner]: env = {{ {variable} = "..." }}, or name it in secrets.'
        observed = str(crash)
    elif crash is not None:
        code, message = "environment.no_accelerator", f"No usable accelerator: {crash.message}."
        remedy, observed = (
            "Run this on a machine with a GPU, or let the script use the CPU.",
            str(crash),
        )
    else:
        message = (case.ended.message if case.ended else "") or _exit_text(case)
        code, observed = "environment.command_not_started", message
        message = f"The command could not be started: {message.rstrip('.')}."
        remedy = "Check the command's name, its path and its permission to execute."
    return Finding(
        code, "environment", "warning", message, place, Evidence(observed), remedy, "proven"
    )


def _left_out(case: Case, crash: Crash) -> str:
    """The variable that the script missed and the person has; empty if it was another fault."""
    if crash.short_type != "KeyError":
        return ""
    name = crash.message.strip("'\"")
    return name if name in case.plan.env_left_out else ""


def _exit_text(case: Case) -> str:
    code = case.ended.exit_code if case.ended is not None else None
    return _last_line(case) or f"exit code {code}"


def _last_line(case: Case) -> str:
    lines = reversed(case.stderr_tail.splitlines())
    return first_line(next((line for line in lines if line.strip()), ""))


def _last_words(case: Case) -> str:
    """A script that leaves by itself mostly says why in its last line."""
    line = _last_line(case).rstrip(".")
    return f"; the last line of its stderr: {line}" if line else ""


def is_environment_fault(case: Case, outcome: str, crash: Optional[Crash]) -> bool:
    """Whether nothing ran for a reason that lies outside the script (exit 3, not 1).

    A missing module, a missing accelerator, and a command that could not be started are the
    environment's; every other end before the first step is the script's own.
    """
    if outcome != "never_started":
        return False
    if crash is not None:
        return bool(crash.missing_module or crash.no_accelerator or _left_out(case, crash))
    spawn_failed = case.ended is not None and case.ended.reason == "spawn_failed"
    return spawn_failed or command_missing(case)


def _failed(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:
    ended = case.ended
    after = f"after step {case.steps}" if case.steps else "before the first optimizer step"
    if crash is not None:
        return (_exception(case, crash, after),)
    if ended is not None and ended.signal is not None:
        name = signal_name(ended.signal)
        return (
            Finding(
                "run.signal",
                "environment",
                "error",
                f"The run was ended by {name} {after}; it was not sent by seatrial.",
                place=Place(step=case.steps or None),
                evidence=Evidence(name, "exit code 0"),
                remedy=_signal_remedy(ended.signal),
            ),
        )
    code = ended.exit_code if ended is not None else None
    return (
        Finding(
            "run.exit_code",
            "environment",
            "error",
            f"The command ended with exit code {code} {after}{_last_words(case)}.",
            place=Place(step=case.steps or None),
            evidence=Evidence(code, 0),
            remedy=_look(case),
            confidence="proven",
        ),
    )


def _exception(case: Case, crash: Crash, after: str) -> Finding:
    where = f" in {crash.file}, line {crash.line}" if crash.file and crash.line else ""
    missing = crash.missing_module
    remedy = _install(case, missing.partition(".")[0]) if missing else _look(case)
    if crash.peer_gone:
        remedy = f"Another rank went away first; find out what ended it. {remedy}"
    return Finding(
        "run.exception",
        "environment",
        "error",
        f"The script raised {crash} {after}{where}.",
        place=Place(file=crash.file, line=crash.line, step=case.steps or None, rank=crash.rank),
        evidence=Evidence(str(crash), "no exception"),
        remedy=remedy,
        confidence="proven",
    )


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; the number when it has no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_remedy(number: int) -> str:
    if signal_name(number) == "SIGKILL":
        return "Look for the kernel's out-of-memory killer (dmesg) or another program's limits."
    if signal_name(number) in ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE"):
        return "Run again with PYTHONFAULTHANDLER=1 in the environment to see where it crashed."
    return "Find out who sent it: a scheduler, a container limit, or another terminal."


def _out_of_memory(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:
    trip = next((trip for trip in case.trips if trip.gate == "gate.memory"), None)
    peak = case.ended.peak_memory_bytes if case.ended is not None else 0
    place = Place(step=case.steps or None)
    if crash is not None and crash.out_of_memory:
        message = f"Memory ran out: {crash}."
        place = Place(crash.file, crash.line, case.steps or None, crash.rank)
        evidence = Evidence(str(crash))
    elif trip is not None:
        message = f"{capitalised(trip.message)}; it was ended."
        evidence = Evidence(trip.observed, trip.expected)
    else:
        message = f"Memory ran out at about {format_size(peak)}; the kernel ended the run."
        evidence = Evidence(peak, case.plan.memory_bytes)
    return (
        Finding(
            "run.out_of_memory",
            "bounds",
            "error",
            message,
            place,
            evidence,
            "Use a smaller batch, shorter sequences or fewer loader workers, or allow more with"
            " --memory.",
        ),
    )


def _timeout(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:  # noqa: ARG001 - one shape
    wall = format_duration(case.plan.wall_s)
    done = f"{case.steps} optimizer steps" if case.steps else "no optimizer step"
    return (
        Finding(
            "run.wall",
            "bounds",
            "error",
            f"The wall bound of {wall} was reached after {done}.",
            place=Place(step=case.steps or None),
            evidence=Evidence(case.ended.seconds if case.ended else None, case.plan.wall_s),
            remedy="Allow more with --wall, or lower --max-steps so that the trial fits.",
        ),
    )


def _stopped_short(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:  # noqa: ARG001 - one shape
    part = short_segments(case)[0]
    ran_out = part.reason == "exhausted"
    why = {
        "exhausted": "its data ended",
        "exception": "an exception ended training and the script went on",
        "completed": "training says it is complete",
    }.get(part.reason or "", "nothing says why")
    return (
        Finding(
            "run.stopped_short",
            "inputs" if ran_out else "schedule",
            "error",
            f"The run left with exit code 0 after {part.steps_done} of {part.steps_planned} planned"
            f" steps: {why}.",
            place=Place(step=part.last_step, rank=part.rank),
            evidence=Evidence(part.steps_done, part.steps_planned),
            remedy="Make the data set or its repetition long enough for the planned steps, or plan"
            " fewer; a scheduler of the planned length never reached its end.",
        ),
    )


def _hung(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:  # noqa: ARG001 - one shape
    seconds = format_duration(case.settings.hung_after_s)
    return (
        Finding(
            "run.hung_after_success",
            "performance",
            "warning",
            f"Training was complete, but the process had not left {seconds} later; it was ended.",
            evidence=Evidence("still running", "the process leaves"),
            remedy="Look for threads, loader workers or process groups that are never closed.",
        ),
    )


def _lost(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:  # noqa: ARG001 - one shape
    message = case.ended.message if case.ended is not None else ""
    why = message.rstrip(".") or "the supervisor left no record of the end"
    return (
        Finding(
            "run.lost",
            "environment",
            "warning",
            f"What happened after step {case.steps} is unknown: {why}.",
            place=Place(step=case.steps or None),
            evidence=Evidence(why),
            remedy="Start it again; nothing is left running under this run.",
        ),
    )


def _interrupted(case: Case, crash: Optional[Crash]) -> Tuple[Finding, ...]:  # noqa: ARG001 - one shape
    by = "seatrial stop" if case.ended is not None and case.ended.reason == "stop" else "Ctrl-C"
    return (
        Finding(
            "run.interrupted",
            "environment",
            "note",
            f"The run was stopped by {by} after step {case.steps}.",
            place=Place(step=case.steps or None),
        ),
    )


_MAKERS: Mapping[str, Callable[[Case, Optional[Crash]], Tuple[Finding, ...]]] = {
    "never_started": _never_started,
    "failed": _failed,
    "oom": _out_of_memory,
    "timeout": _timeout,
    "stopped_short": _stopped_short,
    "hung_after_success": _hung,
    "lost": _lost,
    "interrupted": _interrupted,
}
