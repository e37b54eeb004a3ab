"""The judgement of one run: plan, end and observation in, a RunResult out. Pure."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any, List, Mapping, Optional, Sequence, Tuple

from seatrial.core import verdict
from seatrial.core.check_report import CheckReport, facts_of
from seatrial.core.finding import Finding, NotJudged, cause_first
from seatrial.core.judgement.case import Case, case_of
from seatrial.core.judgement.conclusion import conclusion_of
from seatrial.core.judgement.crash import Crash, crash_of
from seatrial.core.judgement.endings import findings_of_ending, is_environment_fault
from seatrial.core.judgement.outcome import FAILURES, outcome_of
from seatrial.core.judgement.seen import findings_of_observation
from seatrial.core.judgement.trips import findings_of_trips, only_told
from seatrial.core.judgement.unjudged import not_judged
from seatrial.core.launch import Ended, Started
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.run_result import BEST_KEYS, RunResult
from seatrial.core.trial import Trial
from seatrial.core.trip import STOP, Sample, Trip

# The finding of a held-out threshold that does not hold: what disproves a hypothesis.
HELDOUT_GATE = "eval_mode.heldout_gate"
_SECONDS_PER_HOUR = Decimal(3600)
_SMALLEST_PRICE = Decimal("0.0001")


def judge(
    plan: Plan,
    started: Optional[Started],
    ended: Optional[Ended],
    observation: Observation,
    trips: Sequence[Trip],
    resources: Sequence[Sample] = (),
    stderr_tail: str = "",
    trial: Optional[Trial] = None,
    checks: Sequence[CheckReport] = (),
) -> RunResult:
    """Judge one run by the contract's table.

    Args:
        plan: what was to run.
        started: the start, None when none was recorded.
        ended: the end, None when none was recorded (then the run is lost).
        observation: what the events say.
        trips: trips of gates, in order.
        resources: samples of the process tree.
        stderr_tail: the last lines of the runner's stderr, secrets removed.
        trial: what was asked for; taken from ``plan.trial`` when None.
        checks: what was checked beside the run, before and after it.
    """
    seen = (observation, tuple(trips), tuple(resources), stderr_tail)
    case = case_of(plan, started, ended, *seen, trial, tuple(checks))
    crash = crash_of(case)
    outcome = outcome_of(case, crash)
    environment_fault = is_environment_fault(case, outcome, crash)
    findings = _findings(case, outcome, crash)
    open_points = not_judged(case, outcome, environment_fault)
    exit_code = _exit_code(case, outcome, findings, open_points)
    return RunResult(
        exit_code=exit_code,
        outcome=outcome,
        conclusion=conclusion_of(case, outcome, exit_code, findings, open_points),
        run_id=plan.run_id,
        record=plan.record,
        probe_attached=case.attached,
        ranks=len(observation.ranks),
        framework=observation.framework,
        planned=observation.steps_planned,
        done=observation.steps_done,
        findings=findings,
        not_judged=open_points,
        best=_best(facts_of(case.checks, "best_checkpoint").get("best") or observation.best),
        heldout=dict(facts_of(case.checks, "heldout")),
        lock_sha256=plan.lock_sha256,
        hypothesis=_hypothesis(case),
        seconds=_seconds(case),
        peak_memory_bytes=_peak_memory(case),
        cost=_cost(case),
        currency=plan.money.rpartition(" ")[2] or "USD",
    )


def _findings(case: Case, outcome: str, crash: Optional[Crash]) -> Tuple[Finding, ...]:
    found = (
        *findings_of_trips(case, outcome),
        *findings_of_ending(case, outcome, crash),
        *findings_of_observation(case),
        *(finding for report in case.checks for finding in report.findings),
    )
    return cause_first(only_told(_with_cause(found, outcome)))


def _with_cause(findings: Tuple[Finding, ...], outcome: str) -> Tuple[Finding, ...]:
    """Every failure names at least one error: the outcome itself when nothing else does."""
    if outcome not in FAILURES or any(finding.severity == "error" for finding in findings):
        return findings
    own = Finding(
        f"run.{outcome}",
        "environment",
        "error",
        f"The run ended as {outcome}, and the record does not say what set it off.",
        remedy="Read run/stderr.log and supervisor.log in the record.",
    )
    return (*findings, own)


def _exit_code(
    case: Case, outcome: str, findings: Sequence[Finding], open_points: Sequence[NotJudged]
) -> int:
    codes: List[int] = []
    if outcome == "interrupted" or any(
        report.facts.get("interrupted") is True for report in case.checks
    ):
        codes.append(verdict.EXIT_INTERRUPTED)
    if any(finding.severity == "error" for finding in findings):
        codes.append(verdict.EXIT_FAIL)
    if any(entry.required for entry in open_points):
        codes.append(verdict.EXIT_COULD_NOT_JUDGE)
    return verdict.strongest_exit(codes)


def _best(best: Optional[Mapping[str, Any]]) -> Optional[Mapping[str, Any]]:
    """The best checkpoint as it was recomputed, else as the trainer recorded it."""
    if not best or (best.get("path") is None and best.get("value") is None):
        return None
    return {key: best.get(key) for key in BEST_KEYS}


def _hypothesis(case: Case) -> str:
    if not case.hypothesis:
        return "not stated"
    failed = any(trip.gate == "gate.project" and trip.action == STOP for trip in case.trips)
    missed = any(
        finding.code == HELDOUT_GATE and finding.severity == "error"
        for report in case.checks
        for finding in report.findings
    )
    return "disproved" if failed or missed else "not disproved"


def _seconds(case: Case) -> float:
    if case.ended is not None:
        return case.ended.seconds
    last = case.observation.last_mono
    first = case.started.mono if case.started is not None else case.observation.first_mono
    return max(0.0, last - first) if last is not None and first is not None else 0.0


def _peak_memory(case: Case) -> int:
    known = [sample.rss_bytes for sample in case.resources]
    if case.ended is not None:
        known.append(case.ended.peak_memory_bytes)
    for curve in case.observation.curves:
        if curve.name == "rss_bytes":
            known += [int(y) for _x, y in curve.points if 0 <= y < float("inf")]
    return max(known, default=0)


def _cost(case: Case) -> str:
    """Price times time, as a decimal string; an estimate, as the provider's bill decides."""
    try:
        price = Decimal(case.plan.price_per_hour)
    except InvalidOperation:
        price = Decimal(0)
    if price <= 0:
        return "0"
    cost = price * Decimal(repr(_seconds(case))) / _SECONDS_PER_HOUR
    return str(cost.quantize(_SMALLEST_PRICE))
