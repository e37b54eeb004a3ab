"""How the run ended, in one of the contract's words."""

from __future__ import annotations

from typing import Optional, Tuple

from seatrial.core.judgement.case import Case
from seatrial.core.judgement.crash import Crash, command_missing
from seatrial.core.launch import Ended
from seatrial.core.observation import SegmentView

# Outcomes that are a failure by themselves: each needs an error finding (exit 1).
FAILURES = frozenset({"failed", "stopped_short", "gate", "timeout", "oom"})

_OWN_STOPS = frozenset({"step_cap", "wall", "stop_request"})
_EXPLAINED = _OWN_STOPS | {"early_stopping"}


def outcome_of(case: Case, crash: Optional[Crash]) -> str:
    """One of ``core.verdict.OUTCOMES``.

    Args:
        case: the run.
        crash: the exception that ended it, if one is known.
    """
    ended = case.ended
    if ended is None or ended.reason == "supervisor_lost":
        return "lost"
    if ended.reason in ("interrupt", "stop"):
        return "interrupted"
    if ended.reason == "spawn_failed":
        return "never_started"
    if ended.reason == "step_cap" and (crash is None or ended.forced):
        return "capped"
    if ended.reason == "hung_after_success":
        return "hung_after_success"
    if ended.reason == "memory":
        return "oom"
    if ended.reason == "wall":
        return _at_the_wall(case)
    if ended.reason == "gate":
        return _by_gate(case, ended)
    return _natural(case, ended, crash)


def short_segments(case: Case) -> Tuple[SegmentView, ...]:
    """Segments that made fewer steps than their own loop planned, without a good reason."""
    return tuple(
        part
        for part in case.observation.segments
        if part.steps_planned is not None
        and part.steps_done < part.steps_planned
        and part.reason not in _EXPLAINED
    )


def _at_the_wall(case: Case) -> str:
    progressing = case.steps > 0 and not case.tripped("gate.stall")
    return "capped" if case.default_wall and progressing else "timeout"


def _by_gate(case: Case, ended: Ended) -> str:
    code = (ended.trigger or {}).get("gate")
    if code == "gate.wall":
        return _at_the_wall(case)
    return {"gate.step_cap": "capped", "gate.memory": "oom"}.get(str(code), "gate")


def _natural(case: Case, ended: Ended, crash: Optional[Crash]) -> str:
    if ended.exit_code == 0 and ended.signal is None:
        return _left_cleanly(case)
    if ended.oom_killed or (crash is not None and crash.out_of_memory):
        return "oom"
    stopped = _own_stop(case)
    if stopped is not None and crash is None and ended.signal is None:
        return stopped  # a launcher may turn our clean stop into an exit code of its own
    if case.steps == 0 and (case.watched or _never_ran(case, crash)):
        return "never_started"
    return "failed"


def _left_cleanly(case: Case) -> str:
    if short_segments(case):
        return "stopped_short"
    return _own_stop(case) or "completed"


def _own_stop(case: Case) -> Optional[str]:
    """The outcome of a stop that the probe itself made, if it made one."""
    reasons = {part.reason for part in case.observation.segments}
    reasons |= {rank.reason for rank in case.observation.ranks}
    if "step_cap" in reasons:
        return "capped"
    if "wall" in reasons:
        return _at_the_wall(case)
    if "stop_request" in reasons:
        stopped_by_gate = any(trip.action == "stop" for trip in case.trips)
        return "gate" if stopped_by_gate else "interrupted"
    return None


def _never_ran(case: Case, crash: Optional[Crash]) -> bool:
    if crash is None:
        return command_missing(case)
    return crash.in_source or bool(crash.missing_module) or crash.no_accelerator
