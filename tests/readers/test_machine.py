"""Memory and cores of the machine, or of the tightest control group."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from seatrial.readers.machine import available_cores, memory_bytes

GIB = 2**30


def machine(root: Path, files: dict[str, str]) -> str:
    for name, text in {"proc/meminfo": f"MemTotal: {64 * GIB // 1024} kB\n", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


CASES: dict[str, tuple[dict[str, str], int]] = {
    "no groups": ({}, 64 * GIB),
    "version 2": (
        {"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/memory.max": str(8 * GIB)},
        8 * GIB,
    ),
    "version 2, limit on the parent": (
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/memory.max": str(4 * GIB),
            "sys/fs/cgroup/a/b/memory.max": "max\n",
        },
        4 * GIB,
    ),
    "version 2, in a container": (
        {"proc/self/cgroup": "0::/../host/path\n", "sys/fs/cgroup/memory.max": f"{2 * GIB}\n"},
        2 * GIB,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "9:cpu,cpuacct:/x\n4:memory:/docker/abc\n",
            "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{3 * GIB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        3 * GIB,
    ),
    "version 1 without a limit": (
        {
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        64 * GIB,
    ),
    "rubbish": (
        {"proc/self/cgroup": "what\n0::/x\n", "sys/fs/cgroup/x/memory.max": "many\n"},
        64 * GIB,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_tightest_limit_counts(tmp_path: Path, name: str) -> None:
    files, expected = CASES[name]
    assert memory_bytes(machine(tmp_path, files)) == expected


def test_this_machine_has_memory_and_cores() -> None:
    assert memory_bytes() > 2**27
    assert 1 <= available_cores() <= len(os.sched_getaffinity(0))


def test_a_quota_bounds_the_cores(tmp_path: Path) -> None:
    root = machine(
        tmp_path, {"proc/self/cgroup": "0::/j\n", "sys/fs/cgroup/j/cpu.max": "50000 100000\n"}
    )
    assert available_cores(root) == 1
    (tmp_path / "sys/fs/cgroup/j/cpu.max").write_text("max 100000\n")
    assert available_cores(root) == len(os.sched_getaffinity(0))
