"""The closing sentence: the narrowest conclusion that the evidence carries."""

from __future__ import annotations

from typing import Sequence

from seatrial.core import verdict
from seatrial.core.check_report import answered_cases
from seatrial.core.finding import Finding, NotJudged
from seatrial.core.judgement.case import Case
from seatrial.core.units import format_duration

# Findings that say more than the check that stays open because of them.
_REASONS = ("environment.", "run.lost")


def conclusion_of(
    case: Case,
    outcome: str,
    exit_code: int,
    findings: Sequence[Finding],
    open_points: Sequence[NotJudged],
) -> str:
    """One plain sentence. A pass never says more than that nothing was disproved."""
    if exit_code == verdict.EXIT_PASS:
        return _passed(case, outcome, findings)
    if exit_code == verdict.EXIT_FAIL:
        errors = [finding for finding in findings if finding.severity == "error"]
        more = len(errors) - 1
        also = f" ({more} more error{'s' if more > 1 else ''} below)" if more else ""
        return f"This setup is disproved as it stands: {_clause(errors[0].message)}{also}."
    if exit_code == verdict.EXIT_INTERRUPTED:
        return f"Nothing is concluded: the run was interrupted after {_steps(case.steps)}."
    required = [entry for entry in open_points if entry.required]
    reason = required[0].reason if required else "what was needed to judge it is missing"
    told = next((f.message for f in findings if f.code.startswith(_REASONS)), "")
    return f"This run could not be judged: {_clause(told or reason)}."


def _passed(case: Case, outcome: str, findings: Sequence[Finding]) -> str:
    count = len(case.observation.ranks)
    ranks = f" on {count} ranks" if count > 1 else ""
    doubts = sum(1 for finding in findings if finding.severity == "warning")
    but = f", with {doubts} warning{'s' if doubts > 1 else ''}" if doubts else ""
    steps = f"{_steps(case.steps)}{ranks}{_heldout(case)}"
    if outcome == "capped" and case.steps < case.plan.max_steps:
        return (
            f"The {steps} that fit into {format_duration(case.plan.wall_s)} did not disprove"
            f" this setup{but}."
        )
    if outcome == "capped":
        return f"The first {steps} (the step cap) did not disprove this setup{but}."
    return f"A run of {steps} did not disprove this setup{but}."


def _heldout(case: Case) -> str:
    """The held-out cases that were answered, when there were any."""
    count = answered_cases(case.checks)
    if count is None:
        return ""
    return f" and {count} held-out case{'' if count == 1 else 's'}"


def _steps(count: int) -> str:
    return f"{count} optimizer step{'' if count == 1 else 's'}"


def _clause(sentence: str) -> str:
    """A message inside a sentence: no full stop, and no capital unless it is a name."""
    text = sentence.rstrip().rstrip(".")
    first, _, rest = text.partition(" ")
    return f"{first.lower()} {rest}" if first.istitle() and rest else text
