"""Follow a run through the files of its record: only reading, so a dead view loses nothing."""

from __future__ import annotations

import codecs
import os
import time
from collections.abc import Callable
from typing import Protocol

from seatrial.core.event import Event, from_line
from seatrial.core.launch import Heartbeat
from seatrial.core.record_layout import RecordLayout
from seatrial.core.run_result import RunResult
from seatrial.core.units import format_duration, format_size
from seatrial.core.verdict import EXIT_COULD_NOT_JUDGE
from seatrial.process import pid_alive
from seatrial.readers.record import read_heartbeat, read_result
from seatrial.store.record_state import keepers_alive
from seatrial.workflows.finalize import finalize

_POLL_S = 0.1
_QUIET_S = 10.0
# The guard has 10 s to end the training of a dead supervisor; past that nobody is left to close
# the record but us.
_ORPHANED_S = 12.0


class View(Protocol):
    """What a terminal (or a JSON stream) shows."""

    def output(self, stream: str, text: str) -> None:
        """A piece of the run's own output."""

    def remark(self, text: str) -> None:
        """Something seatrial says about the run."""


class _Tail:
    """New bytes of a growing file, decoded; a file that is missing or was deleted has none."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, limit: int = 1 << 20) -> str:
        try:
            with open(self._path, "rb") as handle:
                handle.seek(self._offset)
                chunk = handle.read(limit)
        except OSError:
            return ""
        self._offset += len(chunk)
        return self._decoder.decode(chunk)


class _EventTail:
    """New events of one append-only file; a partial last line waits for its end."""

    def __init__(self, path: str) -> None:
        self._tail = _Tail(path)
        self._rest = ""

    def read(self) -> list[Event]:
        text = self._rest + self._tail.read()
        *lines, self._rest = text.split("\n")
        return [event for event in map(_event, lines) if event is not None]


def _event(line: str) -> Event | None:
    try:
        return from_line(line)
    except ValueError:
        return None  # a torn line is for the finalizer to report


class Follower:
    """Shows a run until its result is there.

    Args:
        layout: the record.
        view: where output and remarks go.
        from_start: show the output that was there before (``watch`` shows all of it, too).
    """

    def __init__(self, layout: RecordLayout, view: View) -> None:
        self._layout = layout
        self._view = view
        self._streams = {"stdout": _Tail(layout.stdout), "stderr": _Tail(layout.stderr)}
        self._events = [
            _EventTail(path)
            for path in (layout.supervisor_events, layout.guard_events, layout.leg_events)
        ]
        self._last_shown = time.monotonic()
        self._orphaned_since: float | None = None
        self._said: set[str] = set()
        self._heartbeat: Heartbeat | None = None

    def follow(self, interrupted: Callable[[], None]) -> RunResult:
        """Show everything until the result is written.

        Args:
            interrupted: called at each turn; acts on Ctrl-C, or raises to leave the view.

        Raises:
            BrokenRecordError: the record was removed, or its result cannot be read.
        """
        while True:
            interrupted()
            shown = self._show()
            result = read_result(self._layout)
            if result is not None:
                while self._show():
                    pass
                return result
            if not os.path.exists(self._layout.plan):  # it was there before anything was started
                return self._without_record()
            self._close_if_orphaned()
            if not shown:
                self._show_progress()
                time.sleep(_POLL_S)

    def _without_record(self) -> RunResult:
        """Somebody removed the record: the supervisor ends the run, and nobody can say how it was.

        Nothing is written: the folder is not made again.
        """
        last = self._heartbeat
        end = time.monotonic() + _ORPHANED_S
        while last is not None and time.monotonic() < end:
            if not pid_alive(last.supervisor_pid, last.supervisor_start_ticks):
                break
            time.sleep(_POLL_S)
        folder = self._layout.folder
        return RunResult(
            exit_code=EXIT_COULD_NOT_JUDGE,
            outcome="lost",
            conclusion=f"The record {folder}, or a part of it, was removed while the run went "
            "on, so the run was ended and cannot be judged.",
            run_id=os.path.basename(folder),
            record=folder,
        )

    def _show(self) -> bool:
        shown = False
        for name, tail in self._streams.items():
            text = tail.read()
            if text:
                self._view.output(name, text)
                shown = True
        for events in self._events:
            for event in events.read():
                shown = self._remark(event) or shown
        if shown:
            self._last_shown = time.monotonic()
        return shown

    def _remark(self, event: Event) -> bool:
        """Pass on what supervisor, guard and gates say, each sentence once."""
        message = event.data.get("message")
        if not message or message in self._said or event.event not in ("run.state", "gate"):
            return False
        self._said.add(message)
        self._view.remark(f"gate: {message}" if event.event == "gate" else str(message))
        return True

    def _show_progress(self) -> None:
        heartbeat = self._heartbeat = read_heartbeat(self._layout) or self._heartbeat
        if time.monotonic() - self._last_shown < _QUIET_S:
            return
        self._last_shown = time.monotonic()
        if heartbeat is not None:
            self._view.remark(progress_text(heartbeat))

    def _close_if_orphaned(self) -> None:
        """Write the result ourselves when supervisor and guard are gone without one."""
        if keepers_alive(self._layout):
            self._orphaned_since = None
            return
        now = time.monotonic()
        if self._orphaned_since is None:
            self._orphaned_since = now
        ended = os.path.exists(self._layout.ended)
        if ended or now - self._orphaned_since > _ORPHANED_S:
            finalize(self._layout.folder)


def progress_text(heartbeat: Heartbeat) -> str:
    """One line on where a run stands: ``training, step 40 of 200, loss 2.13, 1.2 GiB``."""
    parts = [heartbeat.state]
    if heartbeat.step:
        planned = f" of {heartbeat.planned}" if heartbeat.planned else ""
        parts.append(f"step {heartbeat.step}{planned}")
    if isinstance(heartbeat.loss, (int, float)):
        parts.append(f"loss {heartbeat.loss:.4g}")
    elif heartbeat.loss is not None:
        parts.append(f"loss {heartbeat.loss}")
    if heartbeat.rss_bytes:
        parts.append(format_size(heartbeat.rss_bytes))
    return ", ".join(parts)


def elapsed_text(seconds: float, wall_s: float) -> str:
    """``1m20s of 15m``."""
    return f"{format_duration(seconds)} of {format_duration(wall_s)}"
