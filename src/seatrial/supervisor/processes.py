"""The processes of this machine, read from ``/proc`` (or from ``ps`` where there is none)."""

from __future__ import annotations

import os
import signal
import subprocess
import zlib
from typing import Dict, NamedTuple, Optional, Tuple

_PROC = "/proc"
HAS_PROC = os.path.exists("/proc/self/stat")
_TICK = float(os.sysconf("SC_CLK_TCK"))
_PAGE = int(os.sysconf("SC_PAGE_SIZE"))

Key = Tuple[int, int]


class Process(NamedTuple):
    """One process. ``start_ticks`` tells a reused pid apart; its CPU holds waited children."""

    pid: int
    ppid: int
    sid: int
    state: str
    start_ticks: int
    cpu_seconds: float
    rss_bytes: int
    threads: int

    @property
    def key(self) -> Key:
        """Identity for as long as the machine is up."""
        return (self.pid, self.start_ticks)

    @property
    def is_alive(self) -> bool:
        """A dead main thread with other threads still running (state Z) is alive."""
        return self.state not in "ZXx" or self.threads > 1


def _read(pid: int, name: str) -> Optional[bytes]:
    try:
        with open(f"{_PROC}/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return None


def parse_stat(raw: bytes) -> Optional[Process]:
    """One line of ``/proc/<pid>/stat``; the name in it may hold blanks and brackets."""
    try:
        pid = int(raw[: raw.index(b" ")])
        rest = raw[raw.rindex(b")") + 2 :].split()
        return Process(
            pid=pid,
            ppid=int(rest[1]),
            sid=int(rest[3]),
            state=rest[0].decode("ascii"),
            start_ticks=int(rest[19]),
            cpu_seconds=sum(int(part) for part in rest[11:15]) / _TICK,
            rss_bytes=int(rest[21]) * _PAGE,
            threads=int(rest[17]),
        )
    except (ValueError, IndexError):
        return None


def read_process(pid: int) -> Optional[Process]:
    """One process, None when it is gone."""
    if not HAS_PROC:
        return _ps_table().get(pid)
    raw = _read(pid, "stat")
    return parse_stat(raw) if raw else None


def read_table() -> Dict[int, Process]:
    """Every process of the machine by pid."""
    if not HAS_PROC:
        return _ps_table()
    table: Dict[int, Process] = {}
    for name in os.listdir(_PROC):
        if name.isdigit():
            process = read_process(int(name))
            if process is not None:
                table[process.pid] = process
    return table


def _ps_seconds(text: str) -> float:
    days, _, clock = text.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = seconds * 60 + float(part.replace(",", "."))
    return seconds + 86400 * int(days or 0)


def parse_ps(text: str) -> Dict[int, Process]:
    """The output of ``ps`` with the columns of ``_ps_table``; lines of another form are skipped."""
    table: Dict[int, Process] = {}
    for line in text.splitlines():
        parts = line.split(None, 6)
        try:
            pid, ppid, group, rss = (int(part) for part in parts[:4])
            table[pid] = Process(
                pid=pid,
                ppid=ppid,
                sid=group,
                state=parts[4][0],
                start_ticks=zlib.crc32(parts[6].encode()),
                cpu_seconds=_ps_seconds(parts[5]),
                rss_bytes=rss * 1024,
                threads=1,
            )
        except (ValueError, IndexError):
            continue
    return table


def _ps_table() -> Dict[int, Process]:
    """``ps`` knows no session on every system; the process group stands in for it."""
    columns = ("pid=", "ppid=", "pgid=", "rss=", "state=", "time=", "lstart=")
    command = ["ps", "-A"]
    for column in columns:
        command += ["-o", column]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, env={"LC_ALL": "C", **_PATH}
        )
    except OSError:
        return {}
    return parse_ps(done.stdout.decode("utf-8", "replace"))


_PATH = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}


def environment_of(pid: int) -> Dict[str, str]:
    """The environment with which a process was started; empty when it may not be read."""
    raw = _read(pid, "environ") or b""
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def has_marker(pid: int, marker: bytes) -> bool:
    """Whether ``NAME=value`` is one whole entry of the process's environment."""
    raw = _read(pid, "environ")
    return raw is not None and marker in raw and marker in raw.split(b"\0")


def command_of(pid: int) -> Tuple[str, ...]:
    """Command line of a process; empty when it is gone."""
    raw = _read(pid, "cmdline") or b""
    return tuple(os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0")) if raw else ()


def executable_of(pid: int) -> str:
    """The program file that a process runs; empty when unknown."""
    try:
        return os.readlink(f"{_PROC}/{pid}/exe")
    except OSError:
        return ""


def proportional_bytes(pid: int) -> Optional[int]:
    """Memory with pages shared between processes counted once (PSS); None when unknown."""
    for line in (_read(pid, "smaps_rollup") or b"").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None


def io_bytes(pid: int) -> int:
    """Bytes that the process has read and written by system calls; 0 when unknown."""
    total = 0
    for line in (_read(pid, "io") or b"").splitlines():
        if line.startswith((b"rchar:", b"wchar:")):
            total += int(line.split()[1])
    return total


def send_signal(key: Key, number: int) -> bool:
    """Signal exactly this process, never one that got its pid later.

    Returns:
        Whether the process was there.
    """
    pid, ticks = key
    try:
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    except ProcessLookupError:
        return False
    except OSError:
        handle = -1  # an older kernel, or no descriptors left: the start time is checked below
    try:
        now = read_process(pid)
        if now is None or now.start_ticks != ticks:
            return False
        if handle >= 0:
            signal.pidfd_send_signal(handle, number)
        else:
            os.kill(pid, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle >= 0:
            os.close(handle)
