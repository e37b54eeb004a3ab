"""The event file of one rank: each event is one whole line in one ``write``."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Mapping, Optional

from seatrial.core import event as events
from seatrial.core.record_layout import RecordLayout
from seatrial.core.redaction import Redactor

_FAILURES_ALLOWED = 3
# Hashes that we made under the names of parameters: ``token.weight`` is no password.
_OWN_HASHES = ("digests",)


def utc_now() -> str:
    """Now in UTC, ISO-8601 with microseconds."""
    now = time.time()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    return f"{whole}.{int(now % 1 * 1e6):06d}Z"


class EventWriter:
    """Appends events of this process to its rank's file.

    The file is opened at the first event. Two processes may share it (a restarted rank): every line
    carries its pid, and a line is never interleaved because it is one ``write`` in append mode.

    Args:
        record: absolute path of the record.
        rank_of: asked once, when the file is opened.
        redactor: asked once for whatever is not plain numbers.
    """

    def __init__(
        self, record: str, rank_of: Callable[[], int], redactor: Callable[[], Redactor]
    ) -> None:
        self._layout = RecordLayout(record)
        self._rank_of = rank_of
        self._redactor = redactor
        self._fd: Optional[int] = None
        self._seq = 0
        self._failures = 0
        self.rank: Optional[int] = None
        self.on_open: Callable[[], None] = lambda: None

    @property
    def is_open(self) -> bool:
        """Whether this process has written an event."""
        return self._fd is not None

    @property
    def is_broken(self) -> bool:
        """Whether writing was given up (record gone, disk full)."""
        return self._failures >= _FAILURES_ALLOWED

    def write(self, name: str, data: Mapping[str, Any], plain: bool = False) -> bool:
        """Append one event.

        Args:
            name: one of ``core.event.EVENTS``.
            data: JSON values.
            plain: nothing in ``data`` can hold a secret (numbers of ours only).

        Returns:
            Whether the line was written; a record that is gone or full is no fault of the run.
        """
        if self._fd is None and not self._open():
            return False
        if not plain:
            known = {key: data[key] for key in _OWN_HASHES if key in data}
            data = {**self._redactor().value(data), **known}
        self._seq += 1
        line = events.to_line(
            events.Event(
                seq=self._seq,
                t=utc_now(),
                mono=time.monotonic(),
                pid=os.getpid(),
                rank=self.rank,
                event=name,
                data=data,
            )
        ).encode("ascii")
        return self._append(line)

    def _open(self) -> bool:
        if self.is_broken:
            return False
        self.rank = self._rank_of()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(self._layout.events(self.rank), flags, 0o600)
        except OSError:
            self._failures = _FAILURES_ALLOWED
            return False
        self.on_open()
        return True

    def _append(self, line: bytes) -> bool:
        if self.is_broken or self._fd is None:
            return False
        try:
            written = os.write(self._fd, line)
            if written < len(line):  # a full disk: end the torn line so that readers skip only it
                os.write(self._fd, b"\n")
                raise OSError(f"{written} of {len(line)} bytes written")
        except OSError:
            self._failures += 1
            return False
        return True

    def forget(self) -> None:
        """Let go of the file in a forked child, which must not write into its parent's."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None
        self._failures = _FAILURES_ALLOWED
