"""Capped children: each cap ends one, and a child that keeps them is left alone."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from seatrial.core.child import ChildAnswer, ChildRequest
from seatrial.process.child import run_child


def ask(code: str, **caps: Any) -> ChildAnswer:
    return run_child(ChildRequest((sys.executable, "-c", code), **{"timeout_s": 20.0, **caps}))


def test_a_child_that_keeps_its_caps_is_answered_whole() -> None:
    answer = ask(
        "import sys; data = sys.stdin.read(); print(len(data)); print('e', file=sys.stderr)",
        stdin=b"x" * 300_000,
        memory_bytes=2**31,
    )
    assert answer.succeeded
    assert (answer.stdout, answer.stderr) == (b"300000\n", b"e\n")


def test_an_exit_code_is_no_success() -> None:
    answer = ask("raise SystemExit(3)")
    assert (answer.reason, answer.exit_code, answer.succeeded) == ("exited", 3, False)


CAPS = [
    ("while True: pass", {"timeout_s": 0.5}, "timeout"),
    ("x = bytearray(300 * 2**20)\nwhile True: pass", {"memory_bytes": 100 * 2**20}, "memory"),
    ("while True: print('y' * 1000)", {"output_bytes": 50_000}, "output"),
]


@pytest.mark.parametrize(("code", "caps", "reason"), CAPS, ids=[row[2] for row in CAPS])
def test_a_cap_ends_a_child(code: str, caps: dict[str, Any], reason: str) -> None:
    answer = ask(code, **caps)
    assert (answer.reason, answer.exit_code) == (reason, None)
    assert len(answer.stdout) <= caps.get("output_bytes", 10**9)


def test_a_program_that_is_not_there_is_said_to_be() -> None:
    answer = run_child(ChildRequest(("/nowhere/python",), 5.0))
    assert answer.reason == "not_started"
    assert "/nowhere/python" in answer.error


def test_a_caller_can_stop_a_child() -> None:
    asked = iter([False, True])
    answer = run_child(
        ChildRequest((sys.executable, "-c", "while True: pass"), 20.0), lambda: next(asked)
    )
    assert answer.reason == "stopped"


def test_grandchildren_do_not_outlive_the_child_and_do_not_hold_it_up() -> None:
    code = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(p.pid, flush=True)\n"
    )
    began = time.monotonic()
    answer = ask(code)
    assert answer.succeeded
    assert time.monotonic() - began < 15
    pid = int(answer.stdout)
    for _ in range(100):
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat", encoding="utf-8") as handle:
                if handle.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError(f"{pid} is still there")
