"""A child that runs to its end under caps of time, memory and output."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from typing import IO

from seatrial.core.child import (
    EXITED,
    MEMORY,
    NOT_STARTED,
    OUTPUT,
    STOPPED,
    TIMEOUT,
    ChildAnswer,
    ChildRequest,
)
from seatrial.core.proc_stat import parse_proc_stat

_TICK_S = 0.05
_CHUNK = 65536


def run_child(request: ChildRequest, stop: Callable[[], bool] | None = None) -> ChildAnswer:
    """Run a program in a session of its own, and leave nothing of that session running.

    Args:
        request: what to run, and its caps.
        stop: asked some times a second; True ends the child.
    """
    began = time.monotonic()
    try:
        child = subprocess.Popen(
            list(request.argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=request.cwd,
            env=None if request.env is None else dict(request.env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return ChildAnswer(NOT_STARTED, error=f"{request.argv[0]}: {error}")
    exchange = _Exchange(child, request)
    try:
        reason = exchange.run(began + request.timeout_s, stop)
        code = child.wait() if reason == EXITED else None
    finally:
        kill_session(child.pid)
        child.wait()
        exchange.close()
    return ChildAnswer(
        reason,
        code,
        bytes(exchange.stdout),
        bytes(exchange.stderr),
        time.monotonic() - began,
        exchange.peak,
    )


class _Exchange:
    """Feeds a child, reads what it says, and watches its caps."""

    def __init__(self, child: subprocess.Popen[bytes], request: ChildRequest) -> None:
        self._child = child
        self._request = request
        self._rest = memoryview(request.stdin)
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.peak = 0
        self._selector = selectors.DefaultSelector()
        for stream, kept in ((child.stdout, self.stdout), (child.stderr, self.stderr)):
            self._register(stream, selectors.EVENT_READ, kept)
        self._register(child.stdin, selectors.EVENT_WRITE, None)

    def _register(self, stream: IO[bytes] | None, event: int, kept: bytearray | None) -> None:
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, event, kept)

    def run(self, deadline: float, stop: Callable[[], bool] | None) -> str:
        """Until the child left by itself, or the reason why it must be killed."""
        while True:
            for key, _events in self._selector.select(_TICK_S):
                self._move(key)
            if max(len(self.stdout), len(self.stderr)) >= self._request.output_bytes:
                return OUTPUT
            if self._child.poll() is not None:
                self._drain()
                return EXITED
            if time.monotonic() > deadline:
                return TIMEOUT
            if self._above_memory():
                return MEMORY
            if stop is not None and stop():
                return STOPPED

    def _move(self, key: selectors.SelectorKey) -> None:
        stream, kept = key.fileobj, key.data
        try:
            if kept is None:
                if self._rest:
                    self._rest = self._rest[os.write(key.fd, self._rest[:_CHUNK]) :]
                if not self._rest:
                    self._leave(stream)
                return
            chunk = os.read(key.fd, _CHUNK)
            if not chunk:
                self._leave(stream)
            kept += chunk[: self._request.output_bytes - len(kept)]
        except BlockingIOError:
            pass
        except OSError:  # the child closed its end
            self._leave(stream)

    def _leave(self, stream: object) -> None:
        self._selector.unregister(stream)  # type: ignore[arg-type]  # what was registered
        stream.close()  # type: ignore[attr-defined]

    def _drain(self) -> None:
        """What the child wrote before it left; a grandchild that holds a pipe is not waited for."""
        for _ in range(1 + self._request.output_bytes // _CHUNK * 2):
            ready = [key for key, _ in self._selector.select(0) if key.data is not None]
            if not ready:
                return
            for key in ready:
                self._move(key)

    def _above_memory(self) -> bool:
        limit = self._request.memory_bytes
        if limit is None:
            return False
        self.peak = max(self.peak, session_bytes(self._child.pid))
        return self.peak > limit

    def close(self) -> None:
        """Close the pipes that are still open."""
        for key in list(self._selector.get_map().values()):
            self._leave(key.fileobj)
        self._selector.close()


def session_bytes(session: int) -> int:
    """Resident memory of all processes of a session, in bytes."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in session_members(session):
        try:
            with open(f"/proc/{pid}/statm", encoding="ascii") as handle:
                total += int(handle.read().split()[1]) * page
        except (OSError, ValueError, IndexError):  # noqa: PERF203 - it may leave at any moment
            continue
    return total


def session_members(session: int) -> list[int]:
    """Process ids of a session."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.getsid(int(name)) == session:
                found.append(int(name))
        except OSError:
            continue
    return found


def kill_session(session: int) -> None:
    """Kill every process of a session, also those that made a process group of their own."""
    for pid in session_members(session):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as handle:
                if parse_proc_stat(handle.read()).is_gone:
                    continue
            os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            continue
