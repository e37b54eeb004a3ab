"""A child that answers one JSON line with one JSON line, under caps of time and memory."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.process.child import kill_session, session_bytes

_TICK_S = 0.1
_CHUNK = 65536
_MAX_LINE = 64 << 20
_KEPT_STDERR = 16384


class LineChildError(Exception):
    """The child did not answer. ``kind`` says why: exited, timeout, memory, output, stopped."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class LineChild:
    """One child. It is killed, with its whole session, by ``close`` and by every failed answer.

    Its standard input is a pipe of ours: when we die it reads the end of it and leaves.

    Args:
        argv: program and arguments.
        cwd: absolute working directory.
        env: its whole environment.
        memory_bytes: cap on the resident memory of its session; None for none.
        stop: asked some times a second; True ends the child.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        memory_bytes: int | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self._memory = memory_bytes
        self._stop = stop
        self._out = bytearray()
        self._err = bytearray()
        self._asked = 0
        self.peak_bytes = 0
        try:
            self._child = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise LineChildError("not_started", f"{argv[0]} cannot be started: {error}") from error
        self._selector = selectors.DefaultSelector()
        for stream, kept in ((self._child.stdout, self._out), (self._child.stderr, self._err)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, kept)
        if self._child.stdin is not None:
            os.set_blocking(self._child.stdin.fileno(), False)

    def __enter__(self) -> LineChild:
        return self

    def __exit__(self, *_rest: object) -> None:
        self.close()

    @property
    def stderr_tail(self) -> str:
        """The end of what it wrote to standard error."""
        return bytes(self._err[-_KEPT_STDERR:]).decode("utf-8", "replace")

    def ask(self, question: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send one object and wait for its answer.

        The child is told its time as ``limit_s`` and a number as ``n``, which its answer repeats: a
        stray line is never taken for the answer to another question.

        Raises:
            LineChildError: it left, took too long, used too much memory, said what is no object, or
                the caller asked to stop. The child is gone then.
        """
        deadline = time.monotonic() + timeout_s
        try:
            self._asked += 1
            told = json.dumps({**question, "limit_s": timeout_s, "n": self._asked})
            self._send(told.encode("ascii") + b"\n", deadline)
            return self._answer(deadline, timeout_s)
        except LineChildError:
            self.close()
            raise

    def _send(self, data: bytes, deadline: float) -> None:
        pipe = self._child.stdin
        view = memoryview(data)
        while view:
            if pipe is None or time.monotonic() > deadline:
                raise LineChildError("timeout", "it does not read what it is asked")
            try:
                view = view[os.write(pipe.fileno(), view[:_CHUNK]) :]
            except BlockingIOError:
                self._read()  # a child that is busy talking must be heard before it listens
            except OSError as error:
                self._read()
                raise LineChildError("exited", self._why_left()) from error

    def _answer(self, deadline: float, timeout_s: float) -> dict[str, Any]:
        while True:
            end = self._out.find(b"\n")
            if end >= 0:
                line = bytes(self._out[:end])
                del self._out[: end + 1]
                value = self._object(line)
                number = value.pop("n", None)
                if number == self._asked:
                    return value
                if not isinstance(number, int) or number > self._asked:
                    raise LineChildError("output", "it said something that was not asked")
                continue  # said again, by a fork of it, to a question that was answered
            if len(self._out) > _MAX_LINE:
                raise LineChildError("output", f"its answer is longer than {_MAX_LINE >> 20} MiB")
            # Its end counts, not that of its output, which a grandchild may hold open.
            if not self._read() and self._child.poll() is not None and not self._read():
                raise LineChildError("exited", self._why_left())
            if time.monotonic() > deadline:
                raise LineChildError("timeout", f"no answer within {timeout_s:g} s")
            self._check_memory()
            if self._stop is not None and self._stop():
                raise LineChildError("stopped", "a stop was asked for")

    def _object(self, line: bytes) -> dict[str, Any]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise LineChildError("output", f"it said {line[:100]!r}, which is no JSON object")
        return value

    def _read(self) -> bool:
        """Take what is there; whether there was anything."""
        took = False
        if not self._selector.get_map():
            time.sleep(_TICK_S)  # it closed both and has not left yet
        for key, _events in self._selector.select(_TICK_S):
            try:
                chunk = os.read(key.fd, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                self._selector.unregister(key.fileobj)
                continue
            key.data.extend(chunk)
            took = True
            if key.data is self._err and len(self._err) > 4 * _KEPT_STDERR:
                del self._err[:-_KEPT_STDERR]
        return took

    def _check_memory(self) -> None:
        if self._memory is None:
            return
        used = session_bytes(self._child.pid)
        self.peak_bytes = max(self.peak_bytes, used)
        if used > self._memory:
            raise LineChildError(
                "memory", f"it used {used >> 20} MiB of the {self._memory >> 20} MiB it may"
            )

    def _why_left(self) -> str:
        try:
            code = self._child.wait(2.0)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        last = [line for line in self.stderr_tail.splitlines() if line.strip()]
        return f"it left with {how}" + (f": {last[-1].strip()[:300]}" if last else "")

    def close(self) -> None:
        """End it and everything of its session."""
        kill_session(self._child.pid)
        try:
            self._child.wait(5.0)
        except subprocess.TimeoutExpired:
            pass
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was still to be written goes nowhere
                    continue
        self._selector.close()
