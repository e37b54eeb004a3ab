"""What the kernel says of a process, parsed: alive or not, and which of several with one pid."""

from __future__ import annotations

from dataclasses import dataclass

# A zombie has ended and only waits to be asked for its exit code; X is on its way out.
_GONE = frozenset("ZXx")


@dataclass(frozen=True)
class ProcStat:
    """State letter, parent and start of a process.

    ``start_ticks`` is the start in clock ticks since boot: it tells a reused pid apart.
    """

    state: str
    parent: int
    start_ticks: int

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended and merely was not collected yet."""
        return self.state in _GONE


def parse_proc_stat(text: str) -> ProcStat:
    """Parse ``/proc/<pid>/stat``; the command name in it may hold blanks and brackets.

    Raises:
        ValueError: not the text of such a file.
    """
    fields = text[text.rfind(")") + 1 :].split()
    if ")" not in text or len(fields) < 20:
        raise ValueError(f"not a /proc stat line: {text[:80]!r}")
    return ProcStat(state=fields[0], parent=int(fields[1]), start_ticks=int(fields[19]))
