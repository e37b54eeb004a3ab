"""Kill one process of a supervised 3-second run at a random moment, then look at what is left.

The runner is torch-free: it appends one line to a file outside the record when it starts, writes
steps for three seconds beside a child that ignores TERM, and leaves a mark when it has finished.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "portable"))

from fake_run import FakeRun, is_alive

from seatrial.supervisor.processes import Process, read_process, read_table, send_signal

RUNNER = """
open("starts", "a").write("%d\\n" % os.getpid())
child = subprocess.Popen([sys.executable, "-I", "-S", "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(30)"],
    start_new_session=True)
emit("env", world_size=1)
begin = time.monotonic()
number = 0
while time.monotonic() - begin < 3.0:
    number += 1
    step(number)
    print("step", number, flush=True)
    time.sleep(0.05)
child.kill()
child.wait()
end("completed")
open("finished", "w").close()
"""
TARGETS = ("supervisor", "guard", "runner")
# Shares of the moments: while things are being started, while the run goes, while it ends.
PHASES = ((0.0, 0.5), (0.3, 3.0), (2.9, 3.8))
SIDE_BY_SIDE = 8
END_WITHIN_S = 10.0


@dataclass(frozen=True)
class Kill:
    """Whom to kill, and when after the message was handed over (seconds)."""

    number: int
    target: str
    after_s: float


def kills(count: int, seed: int) -> list[Kill]:
    """The same kills for the same seed; each target and phase gets its share."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        low, high = PHASES[(number // len(TARGETS)) % len(PHASES)]
        found.append(Kill(number, TARGETS[number % len(TARGETS)], chance.uniform(low, high)))
    return found


def _child_of(pid: int) -> Process | None:
    """The one child of a process, ``None`` while (or when) it has none."""
    found = [process for process in read_table().values() if process.ppid == pid]
    return found[0] if found and found[0].is_alive else None


def _find(run: FakeRun, target: str) -> Process | None:
    assert run.process is not None
    guard = read_process(run.process.pid)
    if target == "guard" or guard is None:
        return guard
    supervisor = _child_of(guard.pid)
    if target == "supervisor" or supervisor is None:
        return supervisor
    started = run.started
    return read_process(started["pid"]) if started else None


def _strike(run: FakeRun, kill: Kill) -> Process | None:
    """Kill it. A process that does not exist yet is waited for, one that has left is not."""
    assert run.process is not None
    time.sleep(kill.after_s)
    while run.process.poll() is None:
        victim = _find(run, kill.target)
        if victim is not None and victim.is_alive and send_signal(victim.key, signal.SIGKILL):
            return victim
        if run.ended is not None:
            return None
        time.sleep(0.005)
    return None


def _left(run: FakeRun, supervisor: Process | None) -> list[int]:
    assert run.process is not None
    run.process.poll()
    pids = [*run.marked(), run.process.pid, *([supervisor.pid] if supervisor else [])]
    return [pid for pid in pids if is_alive(pid)]


def _wait_until_over(run: FakeRun, supervisor: Process | None, within_s: float) -> list[int]:
    end = time.monotonic() + within_s
    left = _left(run, supervisor)
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left = _left(run, supervisor)
    return left


def _wait_for_the_supervisor(run: FakeRun, within_s: float) -> None:
    """A supervisor that outlives its guard writes the end; it claims first, if it is there."""
    end = time.monotonic() + within_s
    while run.ended is None and time.monotonic() < end:
        if not os.path.exists(run.layout.claim) and time.monotonic() > end - within_s + 2.0:
            return
        time.sleep(0.05)


def _read_everything(run: FakeRun) -> None:
    """Every file of the record is what it should be; only a last line may be unfinished."""
    for path in Path(run.record).rglob("*"):
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".jsonl":
            for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
                json.loads(line)


def _starts(run: FakeRun) -> int:
    path = Path(run.file("starts"))
    return len(path.read_text(encoding="ascii").splitlines()) if path.exists() else 0


def _judge(run: FakeRun, kill: Kill, victim: Process | None) -> None:
    ended: Any = run.ended
    finished = os.path.exists(run.file("finished"))
    claimed = os.path.exists(run.layout.claim)
    starts = _starts(run)
    assert starts <= 1, "started twice"
    assert claimed or starts == 0, "started without a claim"
    if ended is None:  # only when the guard died before there was a supervisor
        assert kill.target == "guard" and starts == 0 and not claimed, "no end is recorded"
        return
    assert ended["left_running"] == []
    if victim is None or kill.target == "guard":
        assert (ended["reason"], ended["exit_code"], finished) == ("natural", 0, True), ended
    elif kill.target == "runner":
        killed = (ended["exit_code"], ended["signal"]) == (None, signal.SIGKILL)
        assert ended["reason"] == "natural" and (killed or finished), ended
        assert not ended["oom_killed"] and not ended["forced"]
    elif ended["reason"] == "natural":  # it was killed behind its last words
        assert finished and ended["exit_code"] == 0, ended
    else:
        assert ended["reason"] == "supervisor_lost", ended
        assert "SIGKILL" in ended["message"] and run.events(run.layout.guard_events)


def strike_once(kill: Kill) -> str:
    """One run, one kill; what is wrong afterwards, empty when nothing is."""
    run = FakeRun(RUNNER, run_id=f"kills-{os.getpid()}-{kill.number}").start()
    assert run.process is not None
    victim = _strike(run, kill)
    struck = time.monotonic()
    supervisor = victim if kill.target == "supervisor" else None
    if kill.target == "guard" and victim is not None and run.started:
        supervisor = read_process(run.started["supervisor_pid"])
    within = END_WITHIN_S if kill.target == "supervisor" else END_WITHIN_S + 5.0
    if kill.target == "guard":
        _wait_for_the_supervisor(run, within)  # killed before its child was known to us
    left = _wait_until_over(run, supervisor, within)
    took = time.monotonic() - struck
    problem = ""
    try:
        assert left == [], f"left running after {took:.1f} s: {left}"
        _read_everything(run)
        _judge(run, kill, victim)
    except (AssertionError, ValueError, KeyError) as error:
        problem = f"{kill}: {error!r}; states {run.states()}"
    if not problem:
        run.clean()
    else:
        run.destroy()
    run.process.communicate()
    return problem


def strike(count: int, seed: int) -> list[str]:
    """Many runs, some side by side.

    Returns:
        What went wrong, one text a kill; empty when nothing did.
    """
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return [problem for problem in pool.map(strike_once, kills(count, seed)) if problem]
