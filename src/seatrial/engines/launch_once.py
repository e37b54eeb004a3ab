"""Start something exactly once, on any engine, whatever breaks in between.

The order is the whole point: intent in the ledger (using up the authorization), claim in the
record, one start. Whoever finds an intent without a claim may close it by taking the claim; whoever
finds a claim without a start may only ask the engine what it knows of the key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import datetime

from seatrial.core import strict_json
from seatrial.core.errors import CouldNotJudgeError
from seatrial.engines.engine import (
    Engine,
    Handle,
    Launch,
    StartRefusedError,
    StartUnknownError,
)
from seatrial.process import start_ticks
from seatrial.store.atomic import create_exclusive
from seatrial.store.launch_values import LaunchRow, request_for
from seatrial.store.ledger import Ledger
from seatrial.store.reconcile import reconcile

Clock = Callable[[], datetime]
_FIND_TRIES = 4
_FIND_PAUSE_S = 0.5


def launch_key(run_id: str, leg: str) -> str:
    """The key of a leg of a run."""
    return f"{run_id}-{leg}"


def launch_once(ledger: Ledger, engine: Engine, launch: Launch, clock: Clock) -> Handle:
    """Write the intent, claim, start.

    Args:
        ledger: open.
        engine: where to start it.
        launch: its record must exist already.
        clock: gives the moment, with a time zone.

    Returns:
        What runs. For the local engine that is the supervisor; it may still be about to start the
        runner.

    Raises:
        UsageError: refused before anything started (key used, trial running already, no
            authorization).
        CouldNotJudgeError: the engine refused, or it is unknown whether it started.
    """
    reconcile(ledger, clock())  # a run that died unseen must not block this one
    request = request_for(launch.plan, needs_authorization=engine.needs_authorization)
    if request.key != launch.key:
        raise ValueError(f"the plan's key is {request.key}, not {launch.key}")
    row = ledger.intend(request, clock())
    if not engine.claims_itself:
        _claim(ledger, launch, clock)
    try:
        handle = engine.start(launch)
    except StartRefusedError as error:
        # The local supervisor may have claimed before it died; the record then says more than we.
        if engine.claims_itself and not _claim_for_closing(launch):
            raise CouldNotJudgeError(
                f"the supervisor of {row.run_id} stopped at once: {error}",
                remedy=f"less {launch.layout.supervisor_log}",
            ) from error
        ledger.abandon(launch.key, clock(), "start_refused")
        raise CouldNotJudgeError(
            f"engine {engine.name} did not start {row.run_id}: {error}"
        ) from error
    except StartUnknownError as error:
        return _ask(ledger, engine, row, clock, str(error))
    if not engine.claims_itself:
        _note(ledger, launch.key, handle, clock)
    return handle


def _claim(ledger: Ledger, launch: Launch, clock: Clock) -> None:
    note = {
        "run_id": launch.plan.run_id,
        "role": "starter",
        "pid": os.getpid(),
        "start_ticks": start_ticks(os.getpid()),
        "remote": True,
        "key": launch.key,
        "t": clock().isoformat(),
    }
    if not create_exclusive(launch.layout.claim, strict_json.dumps(note).encode("utf-8")):
        raise CouldNotJudgeError(
            f"the launch {launch.key} was claimed by another process; nothing was started here",
            remedy=f"seatrial status {launch.plan.run_id}",
        )
    ledger.mark_claimed(launch.key, clock())


def _claim_for_closing(launch: Launch) -> bool:
    note = strict_json.dumps({"pid": 0, "abandoned": True, "by": "launch_once"})
    return create_exclusive(launch.layout.claim, note.encode("utf-8"))


def _note(ledger: Ledger, key: str, handle: Handle, clock: Clock) -> None:
    ledger.mark_started(
        key, clock(), pid=handle.pid, ticks=handle.start_ticks, job_id=handle.job_id
    )


def recover(ledger: Ledger, engine: Engine, row: LaunchRow, clock: Clock) -> Handle | None:
    """Learn what became of a claimed launch without a known start. Never starts anything.

    Returns:
        What runs, or None when the launch is not in that state.

    Raises:
        CouldNotJudgeError: the engine does not know, or cannot be asked: it stays unknown.
    """
    if row.state != "claimed" or engine.claims_itself:
        return None
    return _ask(ledger, engine, row, clock, "the starter died before the engine's answer was noted")


def _ask(ledger: Ledger, engine: Engine, row: LaunchRow, clock: Clock, why: str) -> Handle:
    detail = "it knows of no job with this key"
    for attempt in range(_FIND_TRIES):
        if attempt:
            time.sleep(_FIND_PAUSE_S)
        try:
            handle = engine.find(row.key, row.record)
        except StartUnknownError as error:
            detail = str(error)
            continue
        if handle is not None:
            _note(ledger, row.key, handle, clock)
            return handle
    raise CouldNotJudgeError(
        f"it is unknown whether engine {row.engine} took the launch {row.key} ({why}; asked again: "
        f"{detail}). It is not sent a second time",
        remedy=f"seatrial status {row.run_id}",
    )
