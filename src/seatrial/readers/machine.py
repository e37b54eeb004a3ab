"""What this machine, or the container we are in, has: memory and cores."""

from __future__ import annotations

import os

_V2_ROOT = "sys/fs/cgroup"
_V1_ROOT = "sys/fs/cgroup/memory"
_V1_CPU_ROOT = "sys/fs/cgroup/cpu"


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read(1 << 20)
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    word = (text or "").strip()
    return int(word) if word.isdigit() else None


def _cgroup_paths(root: str) -> dict[str, str]:
    """Controller name to path of our group; the empty name is version 2."""
    paths = {}
    for line in (_text(os.path.join(root, "proc/self/cgroup")) or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                paths[controller] = parts[2]
    return paths


def _upwards(top: str, path: str) -> list[str]:
    """The folder of a group and all groups that hold it: the tightest limit of them counts.

    Inside a container the path of the host may not exist; the top is then our own group.
    """
    folders = [top]
    folder = top
    for part in path.split("/"):
        if part not in ("", ".", ".."):
            folder = os.path.join(folder, part)
            folders.append(folder)
    return folders


def memory_bytes(root: str = "/") -> int:
    """Memory that we may use: of the machine, or of the tightest control group we are in.

    Args:
        root: where ``proc`` and ``sys`` are; another folder in tests.

    Returns:
        Bytes; 0 when nothing can be told.
    """
    limits = []
    for line in (_text(os.path.join(root, "proc/meminfo")) or "").splitlines():
        if line.startswith("MemTotal:"):
            fields = line.split()
            if len(fields) > 1 and fields[1].isdigit():
                limits.append(int(fields[1]) * 1024)
    paths = _cgroup_paths(root)
    for top, controller, file in (
        (_V2_ROOT, "", "memory.max"),
        (_V1_ROOT, "memory", "memory.limit_in_bytes"),
    ):
        if controller in paths:
            for folder in _upwards(os.path.join(root, top), paths[controller]):
                limit = _number(_text(os.path.join(folder, file)))
                if limit:
                    limits.append(limit)
    if not limits:
        return _memory_without_proc()
    return min(limits)


def _memory_without_proc() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0


def available_cores(root: str = "/") -> int:
    """Cores that we may use: our affinity or the tightest group's quota; at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count() or 1
    paths = _cgroup_paths(root)
    quotas = []
    if "" in paths:
        for folder in _upwards(os.path.join(root, _V2_ROOT), paths[""]):
            words = (_text(os.path.join(folder, "cpu.max")) or "").split()
            if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
                quotas.append((int(words[0]), int(words[1])))
    if "cpu" in paths:
        for folder in _upwards(os.path.join(root, _V1_CPU_ROOT), paths["cpu"]):
            quota = _number(_text(os.path.join(folder, "cpu.cfs_quota_us")))
            period = _number(_text(os.path.join(folder, "cpu.cfs_period_us")))
            if quota and period:
                quotas.append((quota, period))
    for quota, period in quotas:
        if period > 0:
            count = min(count, max(1, -(-quota // period)))
    return max(1, count)
