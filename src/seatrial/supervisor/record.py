"""The supervisor's hand in the record: what it writes never raises, its first fault is kept."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Callable, Mapping, NamedTuple, Optional

from seatrial.core.event import Event
from seatrial.core.launch import Ended, Heartbeat, Started, StopRequest
from seatrial.core.record_layout import RecordLayout
from seatrial.core.redaction import Redactor
from seatrial.core.strict_json import dumps
from seatrial.core.trip import Sample, Trip
from seatrial.supervisor.record_files import (
    EventFile,
    LineFile,
    create_json,
    replace_json,
    utc_now,
)

FULL = "full"
GONE = "gone"
BROKEN = "broken"
_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
_RESERVE_BYTES = 256 * 1024


class RecordFault(NamedTuple):
    """Why the record can no longer be written. ``kind`` is ``full``, ``gone`` or ``broken``."""

    kind: str
    message: str


def fault_of(error: OSError, folder: str) -> RecordFault:
    """What an error on a file of the record means for the run."""
    if error.errno in _FULL_ERRORS:
        return RecordFault(
            FULL, f"the disk of the record {folder} is full ({error.strerror}); free space there"
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
        return RecordFault(GONE, f"the record {folder} was removed while the run was going")
    return RecordFault(BROKEN, f"the record {folder} cannot be written: {error.strerror or error}")


class Record:
    """Writes what the supervisor knows.

    Args:
        layout: of the record.
        redactor: takes secrets out of every text before it is written.
    """

    def __init__(self, layout: RecordLayout, redactor: Redactor) -> None:
        self.layout = layout
        self.fault: Optional[RecordFault] = None
        self._redactor = redactor
        self._events = EventFile(layout.supervisor_events)
        self._resources = LineFile(layout.resources)
        self._reserve = os.path.join(os.path.dirname(layout.claim), "reserve")
        self._identity = self._identify()

    def _identify(self) -> Optional[tuple[int, int]]:
        try:
            status = os.stat(self.layout.folder)
        except OSError:
            return None
        return (status.st_dev, status.st_ino)

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return self._redactor.text(text)

    def note_fault(self, error: OSError) -> None:
        """Keep the first fault."""
        if self.fault is None:
            self.fault = fault_of(error, self.layout.folder)

    def _attempt(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except OSError as error:
            self.note_fault(error)
            return None

    def check_present(self) -> None:
        """Notice that the folder was removed (writing to an open file would not show it)."""
        if self.fault is None and self._identify() != self._identity:
            self.fault = fault_of(FileNotFoundError(errno.ENOENT, ""), self.layout.folder)

    def prepare(self) -> None:
        """Create the folders of the run and set some space aside for the last words."""
        for folder in (self.layout.attach, os.path.dirname(self.layout.stop_request)):
            self._attempt(lambda folder=folder: os.makedirs(folder, exist_ok=True))  # type: ignore[misc]
        self._attempt(self._write_reserve)

    def _write_reserve(self) -> None:
        handle = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, b"\0" * _RESERVE_BYTES)
        finally:
            os.close(handle)

    def release_reserve(self) -> None:
        """Give the space back, so that a full disk still takes the last words."""
        try:
            os.unlink(self._reserve)
        except OSError:
            return

    def state(self, state: str, message: str, **data: Any) -> Optional[Event]:
        """A ``run.state`` event."""
        return self._event("run.state", {"state": state, "message": message, **data})

    def gate(self, trip: Trip) -> None:
        """A ``gate`` event."""
        self._event("gate", trip.to_json())

    def metrics(self, metrics: Mapping[str, Any], step: Optional[int], mono: float) -> Event:
        """An ``eval`` event from a line of output; given back even when it cannot be written."""
        data = {"step": step, "segment": None, "metrics": dict(metrics), "source": "stdout"}
        written = self._event("eval", data, mono)
        return written or Event(-1, utc_now(), mono, os.getpid(), None, "eval", data)

    def _event(
        self, name: str, data: Mapping[str, Any], mono: Optional[float] = None
    ) -> Optional[Event]:
        clean = self._redactor.value(data)
        at = time.monotonic() if mono is None else mono
        written: Optional[Event] = self._attempt(lambda: self._events.append(name, clean, at))
        return written

    def sample(self, sample: Sample) -> None:
        """One line of ``resources.jsonl``."""
        self._attempt(lambda: self._resources.append(dumps(vars(sample)) + "\n"))

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        """Replace the heartbeat."""
        value = self._redactor.value(heartbeat.to_json())
        self._attempt(lambda: replace_json(self.layout.heartbeat, value, durable=False))

    def stop_request(self, request: StopRequest) -> None:
        """Ask the probe to stop, unless somebody has asked already."""
        value = self._redactor.value(request.to_json())
        self._attempt(lambda: create_json(self.layout.stop_request, value))

    def started(self, started: Started) -> None:
        """Write ``launch/started.json``."""
        self._attempt(lambda: replace_json(self.layout.started, started.to_json()))

    def ended(self, ended: Ended) -> bool:
        """Write ``launch/ended.json``, the last of our own files.

        Returns:
            Whether it is there. A record that was removed is not brought back.
        """
        self._events.close()
        self._resources.close()
        self.release_reserve()
        if self._identify() is None:
            return False
        value = self._redactor.value(ended.to_json())
        try:
            os.makedirs(os.path.dirname(self.layout.ended), exist_ok=True)
            replace_json(self.layout.ended, value)
        except OSError as error:
            self.note_fault(error)
            return False
        return True
