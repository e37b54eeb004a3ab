"""Pumping the runner's output into the record, secrets removed, whatever the runner does to it."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import threading
import time
from collections import deque
from typing import Callable, Deque, Optional

from seatrial.core.redaction import Redactor, StreamRedactor
from seatrial.supervisor.metric_lines import LineSplitter, MetricLine, parse_metric_line
from seatrial.supervisor.output_log import OutputLog

_CHUNK = 1 << 16
_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which fcntl names since 3.10
_IDLE_S = 1.0
_LOOK_MS = 250
MAX_METRIC_LINES = 100_000


def _widen(pipe: int) -> None:
    """A wider pipe lets the runner go on while we are busy; refused is no fault."""
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)
    except OSError:
        return


class OutputPump:
    """One stream of the runner, read by a thread of its own until its end.

    The pipe is always drained, also when the log can no longer be written: the runner must never
    wait for us.

    Args:
        pipe: descriptor to read from; closed by the pump.
        log: where the redacted bytes go.
        redactor: for this run.
        on_error: told once, from the pump's thread, when the log cannot be written.
    """

    def __init__(
        self, pipe: int, log: OutputLog, redactor: Redactor, on_error: Callable[[OSError], None]
    ) -> None:
        self._pipe = pipe
        self._log = log
        self._stream = StreamRedactor(redactor)
        self._on_error = on_error
        self._splitter = LineSplitter()
        self._metrics: Deque[MetricLine] = deque()
        self._metric_count = 0
        self._leave_at: Optional[float] = None
        self._broken = False
        self.bytes_seen = 0
        self.bytes_lost = 0
        self.last_mono: Optional[float] = None
        self._thread = threading.Thread(target=self._work, name="output", daemon=True)

    def start(self) -> None:
        """Begin; call it after the last fork that runs Python code."""
        _widen(self._pipe)
        self._thread.start()

    def take_metrics(self) -> list[MetricLine]:
        """Metric lines since the last call."""
        taken = []
        while self._metrics:
            taken.append(self._metrics.popleft())
        return taken

    def finish(self, within_s: float) -> bool:
        """Read what is there, then leave, also when somebody still holds the other end.

        Returns:
            Whether the log is complete up to this moment.
        """
        self._leave_at = time.monotonic() + within_s
        self._thread.join(within_s + 5.0)
        return not self._thread.is_alive()

    @property
    def dropped_bytes(self) -> int:
        """Bytes of output that are not in the log."""
        return self._log.dropped_bytes + self.bytes_lost

    def _work(self) -> None:
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN | select.POLLHUP | select.POLLERR)
        idle_since = time.monotonic()
        while True:
            ready = poll.poll(_LOOK_MS if self._leave_at is None else 50)
            now = time.monotonic()
            if self._leave_at is not None and (not ready or now > self._leave_at):
                break
            if not ready:
                if now - idle_since > _IDLE_S:
                    self._emit(self._stream.idle)
                    idle_since = now
                continue
            idle_since = now
            chunk = self._read()
            if not chunk:
                break
            self.bytes_seen += len(chunk)
            self.last_mono = now
            if self._broken:
                self.bytes_lost += len(chunk)
            else:
                self._emit(self._stream.feed, chunk)
        self._emit(self._stream.flush)
        self._note_metrics(b"\n")  # a last line without an end
        self._end()

    def _read(self) -> bytes:
        try:
            return os.read(self._pipe, _CHUNK)
        except OSError:
            return b""

    def _emit(self, produce: Callable[..., bytes], *chunk: bytes) -> None:
        if self._broken:
            return
        try:
            clean = produce(*chunk)
            self._note_metrics(clean)
            self._log.write(clean)
        except OSError as error:
            self._broken = True
            self._on_error(error)
        except Exception as error:  # noqa: BLE001 - a fault of ours must neither leak nor stop draining
            self._broken = True
            self._on_error(
                OSError(errno.EIO, f"output could not be redacted ({type(error).__name__})")
            )

    def _note_metrics(self, clean: bytes) -> None:
        for line in self._splitter.feed(clean):
            found = parse_metric_line(line)
            if found is not None and self._metric_count < MAX_METRIC_LINES:
                self._metric_count += 1
                self._metrics.append(found)

    def _end(self) -> None:
        try:
            self._log.close()
        except OSError as error:
            self._on_error(error)
        os.close(self._pipe)
