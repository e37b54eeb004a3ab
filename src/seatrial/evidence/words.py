"""What verdicts, outcomes and severities are called in front of people."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.core.finding import SEVERITIES, Finding
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.units import format_duration
from seatrial.core.verdict import FAIL, PASS
from seatrial.evidence.plain_text import number, one_line

CAVEAT = (
    "A trial can disprove a setup; it never certifies one. A smoke that passes has failed to "
    "disprove the setup, and never claims more than that."
)
_OUTCOMES = {
    "completed": "the script ended by itself",
    "capped": "the bound was reached while steps completed, which is normal",
    "stopped_short": "exit 0 with fewer steps than planned",
    "failed": "the script ended with an error",
    "gate": "a gate stopped the run",
    "timeout": "the wall bound was reached",
    "oom": "the memory bound was reached, or there was no memory left",
    "hung_after_success": "everything was written, but the process would not leave",
    "never_started": "the run ended before its first optimizer step",
    "lost": "the run was lost: what happened after the last event is unknown",
    "interrupted": "stopped by a person",
}


def verdict_word(result: RunResult) -> str:
    """PASS, FAIL or INCONCLUSIVE."""
    return result.verdict.upper()


def verdict_meaning(result: RunResult) -> str:
    """The verdict in a few plain words."""
    if result.verdict == PASS:
        return "not disproved"
    return "disproved" if result.verdict == FAIL else "no judgement possible"


def outcome_text(result: RunResult) -> str:
    """The outcome with its meaning."""
    if result.outcome is None:
        return "nothing ran"
    meaning = _OUTCOMES.get(result.outcome)
    name = one_line(result.outcome, 60).replace("_", " ")
    return f"{name}: {meaning}" if meaning else name


def steps_text(result: RunResult) -> str:
    """Steps done against planned."""
    if result.planned is None:
        return f"{number(result.done)} done, plan unknown"
    return f"{number(result.done)} of {number(result.planned)} planned"


def probe_text(result: RunResult) -> str:
    """Whether the probe attached, to how many ranks, of which framework."""
    if not result.probe_attached:
        return "not attached"
    ranks = "1 rank" if result.ranks == 1 else f"{number(result.ranks)} ranks"
    framework = f", {one_line(result.framework, 60)}" if result.framework else ""
    return f"attached, {ranks}{framework}"


def cost_text(result: RunResult) -> str:
    """What the run cost."""
    estimated = " (estimated)" if result.cost_estimated and result.cost != "0" else ""
    return f"{one_line(result.cost, 40)} {one_line(result.currency, 10)}{estimated}"


def time_text(seconds: float) -> str:
    """A duration for people; one that cannot be is shown as it is."""
    return format_duration(seconds) if 0 <= seconds < 1e12 else number(seconds)


def nothing_unjudged_text(result: RunResult) -> str:
    """What stands under "not judged" when no check is listed there."""
    if result.done == 0:
        return "No check is listed; without a step, nothing about the training was judged."
    return "No check is listed; what no check looks at was not judged either."


def severity_counts(findings: Sequence[Finding]) -> str:
    """``2 errors, 1 warning``; ``none`` when there are no findings."""
    counts = []
    for severity in SEVERITIES:
        count = sum(finding.severity == severity for finding in findings)
        if count:
            counts.append(f"{number(count)} {severity}{'' if count == 1 else 's'}")
    return ", ".join(counts) or "none"


def hypothesis_state(result: RunResult) -> str:
    """What became of the hypothesis; a run that could not be judged says nothing about it."""
    if result.hypothesis == "not disproved" and result.verdict not in (PASS, FAIL):
        return "not judged"
    return result.hypothesis


def hypothesis_of(plan: Plan) -> str:
    """What the trial set out to disprove; empty when it states nothing."""
    told = (plan.trial or {}).get("hypothesis")
    return told if isinstance(told, str) else ""
