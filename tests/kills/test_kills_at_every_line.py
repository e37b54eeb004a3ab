"""The supervisor kills itself at the n-th line that it executes on the way to the start.

Random moments rarely hit the few instructions between claim, start and ``started.json``; a trace
function hits each of them. After each death the run is started again: there is one start at most.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "portable"))

from fake_run import FakeRun

from seatrial.supervisor.message import LaunchMessage

SOURCE = Path(__file__).parent.parent.parent / "src"
FILES = ("supervise.py", "claim.py", "record_files.py", "record.py", "spawn.py")

DYING = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from seatrial.supervisor.message import LaunchMessage
from seatrial.supervisor.supervise import supervise
left = int(sys.argv[2])
message = LaunchMessage.from_bytes(sys.stdin.buffer.read())
def trace(frame, event, arg):
    global left
    if os.path.basename(frame.f_code.co_filename) not in {files!r}:
        return None
    if event == "line":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return trace
sys.settrace(trace)
code = supervise(message, os.getppid())
sys.settrace(None)
sys.stdout.write("%d lines" % (int(sys.argv[2]) - left))
sys.stdout.flush()
os._exit(code)
""".replace("{files!r}", repr(FILES))


def _supervise(run: FakeRun, at_line: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", DYING, str(SOURCE), str(at_line)],
        input=LaunchMessage(run.plan, tuple(run.argv), run.env).to_bytes(),
        capture_output=True,
        check=False,
        timeout=30,
    )


def _fake() -> FakeRun:
    run = FakeRun("")
    run.argv = ["sh", "-c", "echo start >> starts"]
    return run


def _starts(run: FakeRun) -> int:
    path = Path(run.file("starts"))
    return path.read_text(encoding="ascii").count("start") if path.exists() else 0


def _lines() -> int:
    with _fake() as run:
        done = _supervise(run, 10**9)
        assert done.returncode == 0 and _starts(run) == 1, done.stderr
        return int(done.stdout.split()[0])


def _die_at(line: int) -> str:
    """Die once, start again; what is wrong afterwards."""
    with _fake() as run:
        first = _supervise(run, line)
        assert first.returncode == -signal.SIGKILL
        run.until(lambda: not run.marked())
        claimed = os.path.exists(run.layout.claim)
        second = _supervise(run, 10**9)
        run.until(lambda: not run.marked())
        starts = _starts(run)
    if starts > 1:
        return f"line {line}: started {starts} times"
    if claimed and second.returncode != 17:
        return f"line {line}: claimed, and the second went on with {second.returncode}"
    if not claimed and (second.returncode, starts) != (0, 1):
        return f"line {line}: not claimed, and the second left with {second.returncode}"
    return ""


def test_kills_at_some_lines_never_lead_to_two_starts() -> None:
    total = _lines()
    assert total > 100
    assert [problem for problem in map(_die_at, range(1, total, total // 12)) if problem] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_at_every_line_never_lead_to_two_starts() -> None:
    assert [problem for problem in map(_die_at, range(1, _lines())) if problem] == []
