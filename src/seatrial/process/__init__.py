"""The one place of our own process that starts other processes."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence

from seatrial.core.errors import CouldNotJudgeError
from seatrial.core.proc_stat import ProcStat, parse_proc_stat

_HAND_OVER_S = 30.0


def _stat(pid: int) -> ProcStat | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
            return parse_proc_stat(handle.read())
    except (OSError, ValueError):
        return None


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None when it is gone or cannot be asked."""
    stat = _stat(pid)
    return None if stat is None else stat.start_ticks


def pid_alive(pid: int, ticks: int | None = None) -> bool:
    """Whether this very process is there; a zombie or a reused pid is not.

    Args:
        pid: process id.
        ticks: its start as ``start_ticks`` told it; None when unknown.
    """
    stat = _stat(pid) if pid > 0 else None
    return stat is not None and not stat.is_gone and ticks in (None, stat.start_ticks)


def start_detached(
    argv: Sequence[str],
    stdin_bytes: bytes,
    log: int,
    cwd: str,
    env: Mapping[str, str],
) -> tuple[int, int | None]:
    """Start a process that outlives us, hand it its input, and let go of it.

    It has its own session (a Ctrl-C in our terminal does not reach it) and no open file of ours.

    Args:
        argv: program and arguments; never through a shell.
        stdin_bytes: everything it will ever read from standard input.
        log: open file (see ``store.atomic.open_append``) for its standard output and error.
        cwd: absolute working directory.
        env: its whole environment.

    Returns:
        Process id and start ticks.

    Raises:
        CouldNotJudgeError: it could not be started, or did not take its input.
    """
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
            close_fds=True,
        )
    except (OSError, ValueError) as error:
        raise CouldNotJudgeError(f"cannot start {argv[0]}: {error}") from error
    ticks = start_ticks(child.pid)
    try:
        _hand_over(child, stdin_bytes)
    except OSError as error:
        child.kill()
        child.wait()
        raise CouldNotJudgeError(
            f"{argv[0]} started and did not take its input ({error})"
        ) from error
    # Nobody waits for it on purpose; the collector of zombies is whoever runs when we are gone.
    child.returncode = 0
    return child.pid, ticks


def _hand_over(child: subprocess.Popen[bytes], data: bytes) -> None:
    """Write all of the input, but never wait longer than a fixed time for a reader."""
    pipe = child.stdin
    if pipe is None:
        raise BrokenPipeError("no pipe")
    deadline = time.monotonic() + _HAND_OVER_S
    os.set_blocking(pipe.fileno(), False)
    view = memoryview(data)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_WRITE)
        while view:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"nothing was read for {_HAND_OVER_S:.0f} s")
            view = view[os.write(pipe.fileno(), view[:65536]) :]
    pipe.close()
