"""Whether a process tree still does anything: events, output, CPU time, bytes read and written."""

from __future__ import annotations

from typing import Optional

_BUSY_SHARE = 0.01
_WINDOW_S = 10.0
_IO_BYTES = 64 * 1024


class Activity:
    """Fed with what is seen; answers for how long nothing was.

    CPU counts when more than 1% of one core was used since the last sign of life, bytes when more
    than 64 KiB moved: a hung process has threads that tick.

    Args:
        mono: monotonic seconds of the beginning.
    """

    def __init__(self, mono: float) -> None:
        self._seen = mono
        self._looked = mono
        self._seen_without_cpu = mono
        self._anchor_mono = mono
        self._anchor_cpu: Optional[float] = None
        self._anchor_io: Optional[int] = None

    def note(self, mono: float) -> None:
        """An event or output was seen."""
        self._seen = max(self._seen, mono)
        self._seen_without_cpu = max(self._seen_without_cpu, mono)

    def sample(self, mono: float, cpu_seconds: float, io_bytes: int) -> None:
        """Take the tree's CPU seconds and bytes moved, both since its beginning.

        They may fall when a process leaves; that is no sign of life.
        """
        self._looked = mono
        cpu = cpu_seconds if self._anchor_cpu is None else self._anchor_cpu
        moved = io_bytes if self._anchor_io is None else self._anchor_io
        elapsed = max(mono - self._anchor_mono, _WINDOW_S)
        is_busy = cpu_seconds - cpu > _BUSY_SHARE * elapsed
        is_moving = io_bytes - moved > _IO_BYTES
        if is_moving:
            self.note(mono)
        if is_busy:
            self._seen = max(self._seen, mono)
        if is_busy or is_moving:
            self._anchor_mono = mono
            self._anchor_cpu, self._anchor_io = cpu_seconds, io_bytes
        else:
            self._anchor_cpu, self._anchor_io = min(cpu, cpu_seconds), min(moved, io_bytes)

    @property
    def quiet_s(self) -> float:
        """Seconds without any sign of life, up to the last sample: nobody looked since."""
        return max(0.0, self._looked - self._seen)

    @property
    def silent_s(self) -> float:
        """Seconds without event, output or bytes moved, however much CPU was used."""
        return max(0.0, self._looked - self._seen_without_cpu)
