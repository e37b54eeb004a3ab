"""Whether the kernel killed something for memory while the run was going."""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

_CGROUPS = "/sys/fs/cgroup"
_MACHINE = "/proc/vmstat"


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _folders(pid: str) -> List[Tuple[str, str]]:
    """``(folder, file)`` of the memory counters of a process's control groups, v1 and v2."""
    found = []
    for line in _text(f"/proc/{pid}/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            bases, file = [f"{_CGROUPS}/memory"], "memory.oom_control"
        elif not controllers:
            bases, file = [_CGROUPS, f"{_CGROUPS}/unified"], "memory.events"
        else:
            continue
        for base in bases:
            # Inside a container the path of the host may not exist; its own root does.
            found += [(base + path.rstrip("/"), file), (base, file)]
    return found


def _count(text: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return -1


def oom_kills(pid: str = "self") -> Dict[str, int]:
    """Kills by the kernel so far, by counter; empty where the kernel counts none.

    Args:
        pid: whose control groups are read. ``/proc/vmstat`` counts the whole machine.
    """
    counts = {}
    for folder, file in _folders(pid):
        path = os.path.join(folder, file)
        counts[path] = _count(_text(path))
    counts[_MACHINE] = _count(_text(_MACHINE))
    return {path: count for path, count in counts.items() if count >= 0}


def has_risen(before: Dict[str, int], after: Dict[str, int], whole_machine: bool) -> bool:
    """Whether a counter that was there before is higher now.

    Args:
        before: counters at the start.
        after: counters now.
        whole_machine: believe the counter of the whole machine too.
    """
    return any(
        after.get(path, count) > count
        for path, count in before.items()
        if whole_machine or path != _MACHINE
    )
