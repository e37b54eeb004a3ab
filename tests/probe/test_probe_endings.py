"""How a run ends, as the probe tells it; and what a kill leaves behind."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

SCRIPT = """
import os, sys, threading, time, torch
mode = sys.argv[1]
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
def train(n=2):
    for _ in range(n):
        opt.zero_grad(); model(torch.randn(2, 4)).sum().backward(); opt.step()
train()
if mode == "exception":
    def inner(): torch.zeros(2, 3) @ torch.zeros(2, 3)
    inner()
if mode == "secret": raise ValueError("cannot log in with " + os.environ["MY_API_KEY"])
if mode == "exit": sys.exit(3)
if mode == "hooked":
    sys.excepthook = lambda *args: print("mine", file=sys.stderr)
    raise KeyError("gone")
if mode == "dangling":
    threading.Thread(target=time.sleep, args=(60,)).start()
    print("main is done", flush=True)
if mode == "leave": os._exit(0)
if mode == "endless": train(10**9)
"""


def test_an_exception_is_told_with_its_place_in_the_script(bench: Any) -> None:
    done = bench.run(SCRIPT, "exception")
    assert done.code == 1
    end = done.end()
    assert end["reason"] == "exception"
    told = end["exception"]
    line = SCRIPT.splitlines().index("    def inner(): torch.zeros(2, 3) @ torch.zeros(2, 3)") + 1
    assert (told["type"], told["file"], told["line"]) == (
        "RuntimeError", str(bench.folder / "script.py"), line,
    )  # fmt: skip
    assert "mat1 and mat2" in told["message"]
    assert "Traceback" in done.err
    assert "seatrial" not in done.err


def test_a_secret_in_an_exception_an_argument_or_a_path_lands_nowhere(bench: Any) -> None:
    secret = "kiwi-7731-marmalade"
    text = SCRIPT.replace(
        "train()\n",
        "train()\ntorch.save({'a': torch.ones(1)}, 'state-' + os.environ['MY_API_KEY'] + '.pt')\n"
        "from seatrial.emit import emit\nemit({'x/' + os.environ['MY_API_KEY']: 1.0})\n"
        "emit({'odd': 'text'})\n",
        1,
    )
    done = bench.run(
        text,
        "secret",
        f"--password={secret}",
        "--token",
        "abc-orchard-99",
        env={"MY_API_KEY": secret},
    )
    assert done.code == 1
    assert secret in done.err  # the script's own output is its own affair
    assert len(done.data("save")) == 1
    assert len(done.data("eval")) == 1
    assert [error["where"] for error in done.data("probe.error")] == ["emit"]
    for path in done.record.rglob("*"):
        if path.is_file():
            assert secret not in path.read_text()
            assert "orchard" not in path.read_text()
    assert "cannot log in with [secret" in done.end()["exception"]["message"]


@pytest.mark.parametrize(
    ("mode", "code", "reason"), [("exit", 3, "script_end"), ("hooked", 1, "exception")]
)
def test_other_ends(bench: Any, mode: str, code: int, reason: str) -> None:
    done = bench.run(SCRIPT, mode)
    assert done.code == code
    assert done.end()["reason"] == reason
    if mode == "hooked":
        assert done.err == "mine\n"
        assert done.end()["exception"]["type"] == "KeyError"


def test_a_script_that_leaves_at_once_has_no_end(bench: Any) -> None:
    done = bench.run(SCRIPT, "leave").healthy()
    assert len(done.data("step")) == 2
    assert done.data("train.end") == []


def test_the_end_is_told_before_a_thread_that_will_not_leave(bench: Any) -> None:
    child, record = bench.start([sys.executable, bench.write(SCRIPT), "dangling"])
    try:
        path = record / "run" / "events.rank0.jsonl"
        limit = time.monotonic() + 60
        while not (path.exists() and "train.end" in path.read_text()):
            assert time.monotonic() < limit
            assert child.poll() is None
            time.sleep(0.05)
        assert child.poll() is None
    finally:
        child.kill()
        child.communicate()


def test_a_kill_loses_at_most_the_event_being_written(bench: Any) -> None:
    chance = random.Random(4)
    for _ in range(2):
        child, record = bench.start([sys.executable, bench.write(SCRIPT), "endless"])
        path = record / "run" / "events.rank0.jsonl"
        try:
            limit = time.monotonic() + 60
            while not path.exists() or path.stat().st_size < 5000:
                assert time.monotonic() < limit
                time.sleep(0.01)
            time.sleep(chance.random() * 0.2)
            os.kill(child.pid, signal.SIGKILL)
        finally:
            child.kill()
            child.communicate()
        *whole, last = path.read_bytes().split(b"\n")
        events = [json.loads(line) for line in whole]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert last == b"" or last.startswith(b'{"v":1')


def test_the_machine_that_is_too_old_is_told(bench: Any) -> None:
    """Python 3.8 and older load the bootstrap too; they say so, in any syntax."""
    old = os.environ.get("OLD_PYTHON", "python2")
    try:
        subprocess.run([old, "-c", ""], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"{old} does not run here")
    done = bench.command([old, "-c", "print('fine')"])
    assert done.code == 0
    assert "older than 3.9" in done.attached()[0]["error"]
