"""The one start. Whoever creates ``launch/claim.json`` may start the runner, nobody else ever."""

from __future__ import annotations

import os
import socket
from typing import Any, Mapping

from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.record_files import create_json, read_json, utc_now
from seatrial.supervisor.tree import start_ticks_of

SCHEMA = "seatrial.claim/1"


def claim_start(layout: RecordLayout, run_id: str, role: str) -> bool:
    """Claim the start of this run for the calling process.

    A claim is never given back: when we die behind it, the run counts as started once.

    Args:
        layout: of the record, whose folder must exist.
        run_id: of the run.
        role: ``supervisor``, or ``guard`` when the supervisor died before it could claim.

    Returns:
        False when somebody has claimed it before.

    Raises:
        OSError: the record cannot be written.
    """
    os.makedirs(os.path.dirname(layout.claim), exist_ok=True)
    value: Mapping[str, Any] = {
        "schema": SCHEMA,
        "run_id": run_id,
        "role": role,
        "pid": os.getpid(),
        "start_ticks": start_ticks_of(os.getpid()),
        # A supervisor's parent is its guard: who finds the supervisor dead looks for it here.
        "parent_pid": os.getppid(),
        "parent_start_ticks": start_ticks_of(os.getppid()),
        "host": socket.gethostname(),
        "t": utc_now(),
    }
    return create_json(layout.claim, value)


def is_claimed_by(layout: RecordLayout, pid: int) -> bool:
    """Whether the claim is that of process ``pid`` on this machine."""
    claim = read_json(layout.claim)
    return (
        claim is not None and claim.get("pid") == pid and claim.get("host") == socket.gethostname()
    )
