"""The lock of a record: supervisor's finalizer and terminals may come at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from seatrial.core.record_layout import RecordLayout
from seatrial.store.atomic import writing


@contextmanager
def finalizing(layout: RecordLayout) -> Iterator[None]:
    """Hold the right to write result and report; waits for whoever has it.

    The lock goes with the process that holds it, so a killed finalizer blocks nobody.

    Raises:
        UsageError, CouldNotJudgeError: the record may not be written or is gone.
    """
    import fcntl

    with writing(layout.finalize_lock):
        handle = os.open(layout.finalize_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
