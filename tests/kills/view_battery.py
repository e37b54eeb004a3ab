"""Kill view, supervisor or training of a whole ``seatrial run`` with -9, and look what is left.

The runner notes every start in a file outside the record. Afterwards, from another terminal:
never two starts, a record that can be read and tells the truth, a closed ledger row, nothing left.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from seatrial.supervisor.processes import has_marker, read_table

VIEW, SUPERVISOR, TRAINING = TARGETS = ("view", "supervisor", "training")
_SETTLES_S = 45.0

FAKE = """
import json, os, sys, time
open(sys.argv[1], "a").write("%d\\n" % os.getpid())
path = os.path.join(os.environ["SEATRIAL_RECORD"], "run", "events.rank0.jsonl")
def emit(seq, event, **data):
    line = {"v": 1, "seq": seq, "t": "2026-01-01T00:00:00+00:00", "mono": time.monotonic(),
            "pid": os.getpid(), "rank": 0, "event": event, "data": data}
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\\n")
for step in range(1, 31):
    emit(step, "step", step=step, segment=1, loss_raw=2.0 / step, lr=[0.1], grad_norm=1.0,
         seconds=0.1)
    print("step", step, flush=True)
    time.sleep(0.1)
emit(31, "train.end", scope="process", segment=1, steps_done=30, steps_planned=None,
     reason="script_end")
"""


@dataclass(frozen=True)
class Kill:
    """One moment, in seconds after ``seatrial run`` was typed, and whom it hits."""

    target: str
    after_s: float


def kills(count: int, seed: int, span_s: float) -> list[Kill]:
    """Random moments, each target in turn; the same for the same seed."""
    rng = random.Random(seed)
    return [Kill(TARGETS[index % 3], rng.uniform(0.0, span_s)) for index in range(count)]


class Scene:
    """One run in a folder of its own."""

    def __init__(self, script: str, name: str = "train.py") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="seatrial kill "))
        self.starts = self.folder / "starts"
        (self.folder / name).write_text(script, encoding="utf-8")
        self.env = {
            **os.environ,
            "SEATRIAL_DIR": str(self.folder / "state"),
            "OMP_NUM_THREADS": "1",
        }
        self.words = [sys.executable, name, str(self.starts)]

    def seatrial(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "seatrial", *words]

    def record(self) -> Path | None:
        runs = self.folder / "state" / "runs"
        found = [path for path in runs.iterdir() if path.name[0] != "."] if runs.is_dir() else []
        return found[0] if found else None

    def pid_of(self, target: str, view: subprocess.Popen[bytes]) -> int | None:
        if target == VIEW:
            return view.pid if view.poll() is None else None
        record = self.record()
        if record is None:
            return None
        file, key = {
            SUPERVISOR: ("run/heartbeat.json", "supervisor_pid"),
            TRAINING: ("launch/started.json", "pid"),
        }[target]
        try:
            return int(json.loads((record / file).read_text())[key])
        except (OSError, ValueError, KeyError):
            return None

    def left(self) -> list[int]:
        record = self.record()
        if record is None:
            return []
        marker = f"SEATRIAL_RUN_ID={record.name}".encode()
        return [
            pid
            for pid, process in read_table().items()
            if process.is_alive and has_marker(pid, marker)
        ]


def strike_once(scene: Scene, kill: Kill) -> list[str]:
    """Kill once; every sentence returned is something that must not be."""
    view = subprocess.Popen(
        scene.seatrial("run", "--json", "--", *scene.words),
        cwd=scene.folder, env=scene.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(kill.after_s)
    pid = scene.pid_of(kill.target, view)
    if pid is not None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pid = None
    view.wait(120)
    _settle(scene)
    return [f"{kill}: {problem}" for problem in _problems(scene, kill, pid is not None)]


def _settle(scene: Scene) -> None:
    """Wait as a person would: look at the list until no run is going."""
    end = time.monotonic() + _SETTLES_S
    while time.monotonic() < end:
        listed = _listed(scene)
        if all(run["state"] in ("ended", "lost") and run["outcome"] for run in listed):
            return
        if not any(run["state"] != "starting" for run in listed) and not scene.starts.exists():
            time.sleep(0.5)
            if not scene.left():
                _listed(scene)
        time.sleep(0.3)


def _listed(scene: Scene) -> list[dict[str, object]]:
    done = subprocess.run(
        scene.seatrial("list", "--json"), cwd=scene.folder, env=scene.env,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    result: list[dict[str, object]] = json.loads(done.stdout)["result"]
    return result


def _problems(scene: Scene, kill: Kill, hit: bool) -> list[str]:
    found = []
    starts = scene.starts.read_text().split() if scene.starts.exists() else []
    if len(starts) > 1:
        found.append(f"started {len(starts)} times")
    if scene.left():
        found.append(f"left running: {scene.left()}")
    listed = _listed(scene)
    if len(listed) > 1:
        found.append(f"{len(listed)} records of one run")
    for run in listed:
        outcome = run["outcome"]
        if kill.target == VIEW and starts and outcome != "completed":
            found.append(f"killing the view made it {outcome}")
        if outcome == "completed" and run["step"] != 30 and kill.target != TRAINING:
            found.append(f"completed with {run['step']} steps")
        if hit and kill.target == TRAINING and outcome not in ("failed", "never_started", "lost"):
            found.append(f"killing the training made it {outcome}")
        if hit and kill.target == SUPERVISOR and outcome not in ("lost", "completed"):
            found.append(f"killing the supervisor made it {outcome}")
        if run["state"] != "ended":
            found.append(f"the record stays {run['state']}")
    found += _ledger_problems(scene, bool(starts))
    return found


def _ledger_problems(scene: Scene, started: bool) -> list[str]:
    ledger = scene.folder / "state" / "ledger.db"
    if not ledger.exists():
        return []
    with sqlite3.connect(ledger) as connection:
        (check,) = connection.execute("PRAGMA integrity_check").fetchone()
        rows = connection.execute("SELECT state FROM launches").fetchall()
    found = [] if check == "ok" else [f"ledger: {check}"]
    if started and len(rows) != 1:
        found.append(f"{len(rows)} launches in the ledger")
    if started and rows and rows[0][0] not in ("ended", "started", "claimed"):
        found.append(f"the launch that started is {rows[0][0]}")
    return found


def strike(moments: Sequence[Kill], script: str, together: int = 4) -> list[str]:
    """Try every moment, some at a time; all problems of all of them."""

    def one(kill: Kill) -> list[str]:
        scene = Scene(script)
        problems = strike_once(scene, kill)
        if not problems:
            shutil.rmtree(scene.folder, ignore_errors=True)
        return problems

    with ThreadPoolExecutor(together) as pool:
        return [problem for problems in pool.map(one, moments) for problem in problems]
