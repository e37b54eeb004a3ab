"""``seatrial run``: intent, one start, follow, result."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from seatrial.core.errors import SeatrialError
from seatrial.core.launch import StopRequest
from seatrial.core.record_layout import RecordLayout
from seatrial.core.redaction import from_environment
from seatrial.core.run_result import RunResult
from seatrial.engines import Launch, launch_key, launch_once
from seatrial.store.atomic import make_folder, write_json
from seatrial.store.ledger import open_ledger
from seatrial.store.records import discard_record, request_kill, request_stop, sweep
from seatrial.store.state_folder import create_state_folder, new_record
from seatrial.workflows.admit import Admitted
from seatrial.workflows.follow import Follower, View
from seatrial.workflows.prepare import Prepared


@dataclass(frozen=True)
class Launched:
    """A run that was started."""

    run_id: str
    layout: RecordLayout


def launch(admitted: Admitted) -> Launched:
    """Write the intent, make the record and start the runner exactly once.

    Raises:
        UsageError: the same trial is running, or an authorization is missing; nothing is left.
        CouldNotJudgeError: the disk is full, or the ledger cannot be read.
    """
    prepared = admitted.prepared
    create_state_folder(prepared.state)
    sweep(prepared.state)
    with open_ledger(prepared.state.ledger) as ledger:
        run_id, layout = new_record(prepared.state, _now(), _name_of(prepared))
        plan = replace(
            prepared.plan,
            run_id=run_id,
            record=layout.folder,
            finalizer=(*prepared.plan.finalizer, layout.folder),
        )
        key = launch_key(run_id, plan.leg)
        try:
            write_json(layout.plan, plan.to_json())
            _keep(admitted, layout)
            launch_once(
                ledger, prepared.engine, Launch(key, plan, prepared.argv, prepared.env), _now
            )
        except SeatrialError:
            if ledger.launch(key) is None:  # refused before the intent: leave nothing behind
                discard_record(prepared.state, layout)
            raise
    return Launched(run_id, layout)


def _keep(admitted: Admitted, layout: RecordLayout) -> None:
    """Leave in the record what was found before the launch, and the lock it runs under."""
    prepared = admitted.prepared
    redactor = from_environment({**prepared.env}, prepared.plan.secret_names, prepared.argv)
    for report in admitted.checks:
        make_folder(os.path.dirname(layout.check(report.name)))
        write_json(layout.check(report.name), redactor.value(report.to_json()))
    if admitted.lock is not None:
        write_json(layout.lock, admitted.lock)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _name_of(prepared: Prepared) -> str:
    if not prepared.trial.ad_hoc:
        return prepared.trial.name
    words = [word for word in prepared.plan.command if word.endswith((".py", ".sh"))]
    return os.path.splitext(os.path.basename((words or list(prepared.plan.command))[0]))[0]


def follow(layout: RecordLayout, view: View, interrupted: Callable[[], None]) -> RunResult:
    """Show a run until its end and return its result; see ``Follower.follow``."""
    return Follower(layout, view).follow(interrupted)


def ask_to_stop(layout: RecordLayout, reason: str, *, force: bool) -> bool:
    """Ask a run to stop, or end it at once.

    Args:
        layout: the record.
        reason: ``stop`` or ``interrupt``.
        force: end it at once.

    Returns:
        Whether this was the first request of its kind.
    """
    request = StopRequest(
        reason=reason,
        by=f"pid {os.getpid()}",
        t=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        force=force,
    )
    if force:
        request_kill(layout, request)
        return True
    return request_stop(layout, request)
