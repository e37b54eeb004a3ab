"""A log of bounded size: the first 64 MiB and the last 16 MiB of one stream."""

from __future__ import annotations

import os
from typing import List

HEAD_BYTES = 64 * 1024 * 1024
TAIL_BYTES = 16 * 1024 * 1024
_COPY_BYTES = 1 << 20


class OutputLog:
    """Keeps head and tail of a stream that may be endless.

    When the head is full, the rest goes in turn into two spill files of ``tail_bytes`` beside the
    log, each overwritten when the other is full. ``close`` appends the last ``tail_bytes`` to the
    log, behind a line that says how much is missing, and removes the spill files.

    Args:
        path: of the log.
        head_bytes: size up to which everything is kept.
        tail_bytes: size of what is kept of the end.
    """

    def __init__(
        self, path: str, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
    ) -> None:
        self._path = path
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._head = -1
        self._spill = -1
        self._spills: List[str] = []
        self._in_head = 0
        self._in_spill = 0
        self.spilled_bytes = 0

    def write(self, data: bytes) -> None:
        """Take the next bytes.

        Raises:
            OSError: the disk is full, the folder is gone, ...
        """
        if not data:
            return
        if self._head < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._head = os.open(self._path, flags, 0o644)
        room = self._head_bytes - self._in_head
        if room > 0:
            part = data[:room]
            _write_all(self._head, part)
            self._in_head += len(part)
            data = data[room:]
            if self._in_head == self._head_bytes:
                note = f"\n[seatrial: {self._head_bytes} bytes kept; then only the end is kept]\n"
                _write_all(self._head, note.encode("ascii"))
        while data:
            if self._spill < 0 or self._in_spill >= self._tail_bytes:
                self._rotate()
            part = data[: self._tail_bytes - self._in_spill]
            _write_all(self._spill, part)
            self._in_spill += len(part)
            self.spilled_bytes += len(part)
            data = data[len(part) :]

    def _rotate(self) -> None:
        if self._spill >= 0:
            os.close(self._spill)
            self._spill = -1
        older = self._spills.pop(0) if len(self._spills) == 2 else ""
        path = older or f"{self._path}.tail{len(self._spills)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._spill = os.open(path, flags, 0o644)
        self._spills.append(path)
        self._in_spill = 0

    @property
    def dropped_bytes(self) -> int:
        """How much of the stream's middle is missing from the closed log."""
        return max(0, self.spilled_bytes - self._tail_bytes)

    def close(self) -> None:
        """Bring head and tail together.

        Raises:
            OSError: the disk is full, the folder is gone, ...
        """
        try:
            if self._spills and self._head >= 0:
                self._append_tail()
        finally:
            for handle in (self._head, self._spill):
                if handle >= 0:
                    os.close(handle)
            self._head = self._spill = -1

    def _append_tail(self) -> None:
        if self.dropped_bytes:
            note = f"[seatrial: {self.dropped_bytes} bytes of output are missing here]\n"
            _write_all(self._head, note.encode("ascii"))
        newest = self._in_spill
        skip = 0
        if len(self._spills) == 2:
            skip = min(newest, self._tail_bytes)  # of the older file, the part beyond the tail
        for path in self._spills:
            with open(path, "rb") as file:
                file.seek(skip)
                for chunk in iter(lambda file=file: file.read(_COPY_BYTES), b""):  # type: ignore[misc]
                    _write_all(self._head, chunk)
            skip = 0
        for path in self._spills:
            os.unlink(path)
        self._spills = []


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
