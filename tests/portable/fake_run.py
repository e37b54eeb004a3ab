"""A supervised run of a tiny script, for the supervisor's tests: no torch, no pytest.

``supervised(script, ...)`` starts the real entry with a real message and waits for its end;
``start`` does not wait. Scripts begin with ``PRELUDE``: ``emit("step", step=1, ...)`` writes an
event line as a rank would.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.message import LaunchMessage, entry_command
from seatrial.supervisor.processes import has_marker, read_table

PRELUDE = r"""
import json, os, signal, subprocess, sys, time
RECORD = os.environ["SEATRIAL_RECORD"]
_seq = {}
def emit(event, rank=0, **data):
    _seq[rank] = _seq.get(rank, -1) + 1
    line = {"v": 1, "seq": _seq[rank], "t": "2026-01-01T00:00:00+00:00", "mono": time.monotonic(),
            "pid": os.getpid(), "rank": rank, "event": event, "data": data}
    with open(os.path.join(RECORD, "run", "events.rank%d.jsonl" % rank), "a") as file:
        file.write(json.dumps(line) + "\n")
def step(number, loss=None, rank=0, **data):
    emit("step", rank, step=number, segment=0, loss_raw=2.0 / number if loss is None else loss,
         lr=[0.1], grad_norm=1.0, seconds=0.01, **data)
def asked():
    return os.path.exists(os.path.join(RECORD, "control", "stop.json"))
def end(reason="completed", scope="process", rank=0):
    emit("train.end", rank, scope=scope, segment=0, steps_done=1, steps_planned=1, reason=reason)
"""


class FakeRun:
    """One run in a folder of its own."""

    def __init__(
        self,
        script: str,
        argv: Optional[Sequence[str]] = None,
        env: Optional[Dict[str, str]] = None,
        record: Optional[str] = None,
        **plan: Any,
    ) -> None:
        self.folder = tempfile.mkdtemp(prefix="seatrial fake ")
        self.record = record or os.path.join(self.folder, "record")
        if not os.path.isdir(self.record):
            os.makedirs(self.record)
        self.layout = RecordLayout(self.record)
        self.script = os.path.join(self.folder, "script.py")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(PRELUDE + script)
        self.argv = list(argv) if argv is not None else [sys.executable, self.script]
        self.env = dict(os.environ if env is None else env)
        values: Dict[str, Any] = {
            "run_id": "fake-" + os.path.basename(self.folder).replace(" ", "-"),
            "record": self.record,
            "command": ("fake",),
            "cwd": self.folder,
            "max_steps": 200,
            "wall_s": 60.0,
            "memory_bytes": 4 << 30,
            "ad_hoc": True,
            "grace_s": 1.0,
        }
        values.update(plan)
        self.plan = Plan(**values)
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self) -> FakeRun:
        """Start guard and supervisor and hand them the message."""
        message = LaunchMessage(self.plan, tuple(self.argv), self.env).to_bytes()
        self.process = subprocess.Popen(
            entry_command(), stdin=subprocess.PIPE, start_new_session=True, stderr=subprocess.PIPE
        )
        assert self.process.stdin is not None
        self.process.stdin.write(message)
        self.process.stdin.close()
        self.process.stdin = None
        return self

    def wait(self, timeout: float = 60.0) -> FakeRun:
        """Wait for the guard to leave."""
        assert self.process is not None
        try:
            self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.destroy()
            raise AssertionError(f"still running after {timeout} s: {self.states()}") from None
        return self

    def until(self, condition: Callable[[], Any], timeout: float = 20.0) -> Any:
        """Wait for something; its value."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.02)
        self.destroy()
        raise AssertionError(f"did not happen within {timeout} s: {self.states()}")

    def json(self, path: str) -> Any:
        """A file of the record, None when it is missing."""
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    @property
    def ended(self) -> Any:
        return self.json(self.layout.ended)

    @property
    def started(self) -> Any:
        return self.json(self.layout.started)

    def events(self, path: str = "") -> List[Dict[str, Any]]:
        """The supervisor's own events."""
        try:
            with open(path or self.layout.supervisor_events, encoding="utf-8") as file:
                return [json.loads(line) for line in file if line.strip()]
        except FileNotFoundError:
            return []

    def states(self) -> List[str]:
        return [e["data"]["state"] for e in self.events() if e["event"] == "run.state"]

    def said(self, state: str) -> str:
        """The message of the first ``run.state`` with this state."""
        for event in self.events():
            if event["event"] == "run.state" and event["data"]["state"] == state:
                return str(event["data"]["message"])
        return ""

    def text(self, path: str) -> str:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def file(self, name: str) -> str:
        """A path in the run's folder, outside the record."""
        return os.path.join(self.folder, name)

    def marked(self) -> List[int]:
        """Living processes that carry the run's marker."""
        marker = b"SEATRIAL_RUN_ID=" + self.plan.run_id.encode()
        return [p.pid for p in read_table().values() if p.is_alive and has_marker(p.pid, marker)]

    def destroy(self) -> None:
        """Kill whatever is left and remove the folder's processes (used when a test fails)."""
        for pid in self.marked():
            os.kill(pid, signal.SIGKILL)
        for key in ("supervisor_pid", "guard_pid"):
            pid = (self.started or {}).get(key)
            if pid and self.process is not None and self.process.poll() is None:
                os.kill(pid, signal.SIGKILL)

    def clean(self) -> None:
        """Remove the folder; nothing of the run may be alive."""
        left = self.marked()
        self.destroy()
        assert left == [], f"left running: {left}"
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> FakeRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.clean()


def start(script: str, **options: Any) -> FakeRun:
    """Start a run and come back at once."""
    return FakeRun(script, **options).start()


def supervised(script: str, **options: Any) -> FakeRun:
    """Run to the end."""
    return FakeRun(script, **options).start().wait()


def together(*runs: FakeRun) -> None:
    """Wait for several runs that go side by side."""
    for run in runs:
        run.wait()


def is_alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    process = read_table().get(pid)
    return process is not None and process.is_alive
