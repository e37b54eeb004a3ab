"""Reading the ranks' event files while they grow."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Dict, List

from seatrial.core.event import Event, from_line
from seatrial.core.record_layout import RecordLayout

_NAME = re.compile(r"events\.rank(\d{1,6})\.jsonl\Z")
_CHUNK = 1 << 20
_MAX_LINE = 8 << 20


@dataclass
class _Place:
    """Where we are in one file."""

    inode: int = -1
    offset: int = 0
    rest: bytes = b""
    skipping: bool = False


class EventTail:
    """Gives each event of every rank once, in the order of its file.

    A last line without an end waits for its rest. Lines that are no events are counted in
    ``unreadable``. A file that was removed, replaced or cut is read from its beginning when it is
    there again.
    """

    def __init__(self, layout: RecordLayout) -> None:
        self._folder = layout.run
        self._places: Dict[str, _Place] = {}
        self._bytes_read = 0
        self.unreadable = 0

    def poll(self, max_bytes: int = 4 * _CHUNK) -> List[Event]:
        """Events that were written since the last call.

        Args:
            max_bytes: read at most about so much of each file, so that other work goes on.
        """
        try:
            names = sorted(name for name in os.listdir(self._folder) if _NAME.match(name))
        except OSError:
            return []
        # A new file may get the inode of a removed one, so what is gone is forgotten.
        self._places = {name: self._places.get(name, _Place()) for name in names}
        events: List[Event] = []
        for name, place in self._places.items():
            self._read(os.path.join(self._folder, name), place, max_bytes, events)
        return events

    def drain(self) -> List[Event]:
        """Everything that is left, at the end of the run."""
        events: List[Event] = []
        before = -1
        while before != self._bytes_read:
            before = self._bytes_read
            events.extend(self.poll())
        return events

    def _read(self, path: str, place: _Place, max_bytes: int, events: List[Event]) -> None:
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below; only opening may fail
        except OSError:
            return
        with file:
            status = os.fstat(file.fileno())
            if status.st_ino != place.inode or status.st_size < place.offset:
                place.inode, place.offset, place.rest, place.skipping = status.st_ino, 0, b"", False
            if status.st_size == place.offset:
                return
            file.seek(place.offset)
            while max_bytes > 0:
                chunk = file.read(min(_CHUNK, max_bytes))
                if not chunk:
                    return
                place.offset += len(chunk)
                self._bytes_read += len(chunk)
                max_bytes -= len(chunk)
                self._take(chunk, place, events)

    def _take(self, chunk: bytes, place: _Place, events: List[Event]) -> None:
        *whole, rest = (place.rest + chunk).split(b"\n")
        for line in whole:
            if place.skipping:
                place.skipping = False
                continue
            if line.strip():
                self._parse(line, events)
        place.rest = rest
        if len(rest) > _MAX_LINE:
            place.rest = b""
            if not place.skipping:
                self.unreadable += 1
            place.skipping = True

    def _parse(self, line: bytes, events: List[Event]) -> None:
        try:
            events.append(from_line(line.decode("utf-8")))
        except (ValueError, RecursionError, OverflowError):
            self.unreadable += 1
