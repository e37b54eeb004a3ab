"""Whether the process that a record or the ledger names is still there."""

from __future__ import annotations

import os

from seatrial.core.proc_stat import ProcStat, parse_proc_stat


def _stat(pid: int) -> ProcStat | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            return parse_proc_stat(handle.read())
    except (OSError, ValueError):
        return None


def start_ticks(pid: int) -> int | None:
    """Start of the process in clock ticks since boot; None when it is gone or cannot be asked."""
    stat = _stat(pid)
    return None if stat is None else stat.start_ticks


def pid_alive(pid: int, ticks: int | None = None) -> bool:
    """Whether this very process is there; a zombie or a reused pid is not.

    Args:
        pid: process id; 0 and below are never alive.
        ticks: its start as ``start_ticks`` told it; None when unknown.
    """
    if pid <= 0:
        return False
    stat = _stat(pid)
    if stat is not None:
        return not stat.is_gone and ticks in (None, stat.start_ticks)
    if os.path.exists("/proc/self/stat"):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
