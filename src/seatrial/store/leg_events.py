"""``run.state`` events of the finalizer: what is checked behind the run, for whoever follows it."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone

from seatrial.core.event import Event, to_line
from seatrial.core.record_layout import RecordLayout
from seatrial.store.atomic import append_line


def append_leg_event(layout: RecordLayout, seq: int, message: str) -> None:
    """Append one sentence.

    Raises:
        UsageError, CouldNotJudgeError: it cannot be written.
    """
    event = Event(
        seq=seq,
        t=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        mono=time.monotonic(),
        pid=os.getpid(),
        rank=None,
        event="run.state",
        data={"state": "checking", "message": message},
    )
    append_line(layout.leg_events, to_line(event))
