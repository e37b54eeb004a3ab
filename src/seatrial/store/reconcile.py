"""Bring the ledger up to what the records say, after whatever died in between."""

from __future__ import annotations

import os
import socket
from datetime import datetime

from seatrial.core import strict_json
from seatrial.store.atomic import create_exclusive
from seatrial.store.launch_values import INTENDED, LaunchRow
from seatrial.store.ledger import Ledger
from seatrial.store.liveness import pid_alive
from seatrial.store.record_state import keepers_alive, read_object


def reconcile(ledger: Ledger, now: datetime, *, run_id: str | None = None) -> tuple[LaunchRow, ...]:
    """Bring every live launch (or those of one run) up to its record; nothing is ever started.

    A launch whose starter died before the claim is closed by taking the claim, so that a late
    starter finds it taken. A launch of a remote engine that was claimed without a job id stays as
    it is: whether its job exists is the engine's to say (``engines.launch_once.recover``).

    Returns:
        The launches that were looked at, as they stand now.

    Raises:
        UsageError, CouldNotJudgeError: the ledger or a record cannot be written.
    """
    return tuple(_bring_up(ledger, row, now) for row in ledger.launches(run_id=run_id, live=True))


def _bring_up(ledger: Ledger, row: LaunchRow, now: datetime) -> LaunchRow:
    layout = row.layout
    starter_lives = row.host != socket.gethostname() or pid_alive(
        row.starter_pid, row.starter_ticks
    )
    if not os.path.isdir(layout.folder):
        if starter_lives:
            return row
        return ledger.mark_ended(row.key, now, reason="record_removed")
    ended = read_object(layout.ended)
    if ended is not None:
        return _close(ledger, row, ended.get("exit_code"), str(ended.get("reason")), now)
    if not os.path.lexists(layout.claim):
        if starter_lives:
            return row
        note = strict_json.dumps({"pid": 0, "abandoned": True, "by": "reconcile"})
        os.makedirs(os.path.dirname(layout.claim), exist_ok=True)
        if create_exclusive(layout.claim, note.encode("utf-8")):
            return ledger.abandon(row.key, now, "starter_died")
    return _follow_claim(ledger, row, starter_lives, now)


def _follow_claim(ledger: Ledger, row: LaunchRow, starter_lives: bool, now: datetime) -> LaunchRow:
    layout = row.layout
    claim = read_object(layout.claim) or {}
    if claim.get("abandoned"):
        # Whoever took the claim to close it died before telling the ledger.
        return ledger.abandon(row.key, now, "starter_died")
    if row.state == INTENDED:
        row = ledger.mark_claimed(row.key, now)
    if row.job_id is not None or claim.get("remote"):
        return row
    started = read_object(layout.started)
    if started is not None:
        pid, ticks = started.get("pid"), started.get("start_ticks")
        row = ledger.mark_started(
            row.key,
            now,
            pid=pid if isinstance(pid, int) else None,
            ticks=ticks if isinstance(ticks, int) else None,
        )
    if keepers_alive(layout) or (started is None and starter_lives):
        return row
    # The keepers may have closed the record between the two looks.
    ended = read_object(layout.ended)
    if ended is not None:
        return _close(ledger, row, ended.get("exit_code"), str(ended.get("reason")), now)
    return ledger.mark_ended(row.key, now, reason="lost")


def _close(
    ledger: Ledger, row: LaunchRow, exit_code: object, reason: str, now: datetime
) -> LaunchRow:
    code = exit_code if isinstance(exit_code, int) and not isinstance(exit_code, bool) else None
    started = read_object(row.layout.started)
    if started is not None and row.started_at is None:
        pid, ticks = started.get("pid"), started.get("start_ticks")
        ledger.mark_started(
            row.key,
            now,
            pid=pid if isinstance(pid, int) else None,
            ticks=ticks if isinstance(ticks, int) else None,
        )
    return ledger.mark_ended(row.key, now, exit_code=code, reason=reason)
