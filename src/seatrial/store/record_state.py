"""Where a run stands, told from the files of its record and the processes they name."""

from __future__ import annotations

import os
import socket
import stat
import time
from collections.abc import Mapping
from typing import Any

from seatrial.core.limited_json import MAX_BYTES, parse_limited
from seatrial.core.record_layout import RecordLayout
from seatrial.store.liveness import pid_alive

STARTING = "starting"
RUNNING = "running"
FINALIZING = "finalizing"
ENDED = "ended"
LOST = "lost"
STATES = (STARTING, RUNNING, FINALIZING, ENDED, LOST)

# A heartbeat is written each second. On another machine its age is all there is to go by.
_REMOTE_SILENCE_S = 60.0
# A guard has 10 s and the grace of a TERM to close the record of a dead supervisor. A claim names
# it with its start; where only its pid is known, past this time that number is somebody else.
_GUARD_S = 120.0


def read_object(path: str) -> Mapping[str, Any] | None:
    """A small JSON object of the record; None when it is missing, torn, or no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with open(handle, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
        value = parse_limited(data) if len(data) <= MAX_BYTES else None
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)
    return value if isinstance(value, dict) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _named_alive(value: Mapping[str, Any] | None, pid_key: str, ticks_key: str) -> bool:
    if value is None:
        return False
    return pid_alive(_number(value.get(pid_key)) or 0, _number(value.get(ticks_key)))


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return float("inf")


def _supervisor_alive(layout: RecordLayout, started: Mapping[str, Any] | None) -> bool:
    heartbeat = read_object(layout.heartbeat)
    if heartbeat is not None:
        return _named_alive(heartbeat, "supervisor_pid", "supervisor_start_ticks")
    if _named_alive(read_object(layout.claim), "pid", "start_ticks"):
        return True
    return _named_alive(started, "supervisor_pid", "supervisor_start_ticks")


def _guard_alive(layout: RecordLayout, started: Mapping[str, Any] | None) -> bool:
    claim = read_object(layout.claim)
    if claim is not None and claim.get("role") == "supervisor" and "parent_pid" in claim:
        return _named_alive(claim, "parent_pid", "parent_start_ticks")
    if started is None:
        return False
    last = min(_age(layout.heartbeat), _age(layout.started))
    return last <= _GUARD_S and _named_alive(started, "guard_pid", "guard_start_ticks")


def _elsewhere(started: Mapping[str, Any] | None) -> bool:
    host = (started or {}).get("host")
    return isinstance(host, str) and host not in ("", socket.gethostname())


def keepers_alive(layout: RecordLayout) -> bool:
    """Whether somebody still looks after the record: starter, supervisor or guard.

    A starter counts until the claim is made. For a run on another machine the age of the heartbeat
    decides.
    """
    started = read_object(layout.started)
    if _elsewhere(started):
        return _age(layout.heartbeat) < _REMOTE_SILENCE_S
    if _supervisor_alive(layout, started) or _guard_alive(layout, started):
        return True
    return not os.path.lexists(layout.claim) and starter_alive(layout)


def starter_alive(layout: RecordLayout) -> bool:
    """Whether the process that wrote the intent is still there."""
    return _named_alive(read_object(layout.intent), "pid", "start_ticks")


def runner_alive(layout: RecordLayout) -> bool:
    """Whether the runner itself is still there (on this machine)."""
    started = read_object(layout.started)
    return not _elsewhere(started) and _named_alive(started, "pid", "start_ticks")


def run_state(layout: RecordLayout) -> str:
    """One of ``starting``, ``running``, ``finalizing``, ``ended``, ``lost``.

    ``finalizing``: the process has ended and the result is not written yet. ``lost``: nobody looks
    after the record and it does not say how the process ended.
    """
    if os.path.exists(layout.result):
        return ENDED
    if os.path.exists(layout.ended):
        return FINALIZING
    if not keepers_alive(layout):
        # It may have been closed between the two looks.
        return FINALIZING if os.path.exists(layout.ended) else LOST
    return RUNNING if os.path.exists(layout.started) else STARTING
