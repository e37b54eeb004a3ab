"""Close an ended record: judge it, write result, page and summary once, close the launch."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone

from seatrial.core.check_report import CheckReport
from seatrial.core.errors import SeatrialError
from seatrial.core.finding import Finding, Place
from seatrial.core.judge import judge
from seatrial.core.observation import observe
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.run_result import RunResult
from seatrial.core.scope import next_command, not_tested
from seatrial.core.trip import Trip
from seatrial.readers import record as records
from seatrial.readers.events import ReadProblem, read_all_events
from seatrial.store.atomic import write_json
from seatrial.store.export import export_record
from seatrial.store.ledger import open_ledger
from seatrial.store.lock_rows import VerdictRow, remember_verdict
from seatrial.store.reconcile import reconcile
from seatrial.store.record_lock import finalizing
from seatrial.workflows.checks import Ended, Legs, make_checks
from seatrial.workflows.report import report_input, write_report


def finalize(folder: str, legs: Legs | None = None) -> RunResult:
    """Judge the record in ``folder`` and write what it says; a second call changes nothing.

    The result is written last: a record that has one is complete.

    Args:
        folder: the record.
        legs: from the supervisor: lets the checks behind the run execute the user's code.

    Raises:
        BrokenRecordError: there is no readable plan in the folder.
        CouldNotJudgeError: the result cannot be written.
    """
    layout = RecordLayout(os.path.abspath(folder))
    with finalizing(layout):
        earlier = records.read_result(layout)
        if earlier is not None:
            return earlier
        result = _judge_and_report(layout, legs)
        write_json(layout.result, result.to_json())
    return result


def _judge_and_report(layout: RecordLayout, legs: Legs | None) -> RunResult:
    plan = records.read_plan(layout)
    started = records.read_started(layout)
    events, problems = read_all_events(layout)
    observation = observe(events)
    trips = tuple(Trip.from_json(event.data) for event in events if event.event == "gate")
    samples = records.read_resources(layout)
    stderr = records.tail_text(layout.stderr)
    ended = records.read_ended(layout)

    def judged(checks: tuple[CheckReport, ...]) -> RunResult:
        return judge(
            plan,
            started,
            ended,
            observation,
            trips,
            resources=samples,
            stderr_tail=stderr,
            checks=checks,
        )

    so_far = judged(())
    checks = make_checks(Ended(layout, plan, started, observation, so_far), legs)
    result = judged(checks)
    result = replace(
        result,
        record=layout.folder,
        report=layout.report,
        findings=result.findings + tuple(_unreadable(problem) for problem in problems[:5]),
    )
    untested = not_tested(plan, observation, result, checks)
    following = next_command(result, has_stderr=bool(stderr.strip()))
    write_json(layout.closing, {"not_tested": list(untested), "next_command": following})
    told = result
    result = _noted(result, "launch.not_closed", lambda: _close_launch(layout, plan, told))
    gathered = report_input(
        result, plan, started, observation, trips, samples, records.tail_text(layout.stdout), checks
    )
    gathered = replace(gathered, not_tested=untested, next_command=following)
    result = _noted(result, "report.not_written", lambda: write_report(layout, gathered))
    if not os.path.exists(layout.report):
        result = replace(result, report=None)
    if plan.out is not None:
        out = plan.out
        result = _noted(result, "out.not_written", lambda: _export(layout, result, out))
    return result


def _noted(result: RunResult, code: str, action: Callable[[], None]) -> RunResult:
    """Do something beside the judgement; its failure is a warning and never changes the verdict."""
    try:
        action()
    except SeatrialError as error:
        problem, remedy = error.message, error.remedy
    except Exception as error:  # noqa: BLE001 - a fault of ours must not cost the user her verdict
        problem, remedy = f"{type(error).__name__}: {error}", ""
        traceback.print_exc()  # goes to the record's supervisor.log
    else:
        return result
    finding = Finding(
        code=code, family="reporting", severity="warning", message=problem, remedy=remedy
    )
    return replace(result, findings=(*result.findings, finding))


def _export(layout: RecordLayout, result: RunResult, out: str) -> None:
    # The copy is taken under the lock and before the result is final in the record, so it gets
    # its own.
    export_record(layout, out)
    write_json(RecordLayout(out).result, result.to_json())


def _close_launch(layout: RecordLayout, plan: Plan, result: RunResult) -> None:
    """Bring the ledger up to the record. A record that was moved elsewhere has no ledger here."""
    state = os.path.dirname(os.path.dirname(layout.folder))
    path = os.path.join(state, "ledger.db")
    if not os.path.exists(path):
        return
    with open_ledger(path) as ledger:
        reconcile(ledger, datetime.now(timezone.utc), run_id=plan.run_id)
        remember_verdict(ledger, _verdict(plan, result))


def _verdict(plan: Plan, result: RunResult) -> VerdictRow:
    file = (plan.trial or {}).get("file")
    return VerdictRow(
        run_id=plan.run_id,
        trial_file=file if isinstance(file, str) else None,
        lock_sha256=plan.lock_sha256,
        verdict=result.verdict,
        outcome=result.outcome,
        exit_code=result.exit_code,
        conclusion=result.conclusion,
        decided=datetime.now(timezone.utc).isoformat(),
    )


def _unreadable(problem: ReadProblem) -> Finding:
    return Finding(
        code="record.unreadable_line",
        family="reporting",
        severity="note",
        message=f"a line of the events could not be read: {problem.message}",
        place=Place(file=problem.file, line=problem.line),
        remedy="a process that was killed while it wrote leaves one such line",
    )
