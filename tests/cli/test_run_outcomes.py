"""Outcomes that a person can meet: a planted fault with its exit code, and its healthy twin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch


def test_a_healthy_loop_passes_and_says_what_it_did_not_test(place: Any) -> None:
    answer = place.run_script(place.loop(30, end="torch.save(model.state_dict(), 'm.pt')"))
    result = answer.result
    assert (answer.code, result["verdict"], result["outcome"]) == (0, "pass", "completed")
    assert result["probe"] == {"attached": True, "ranks": 1, "framework": "torch"}
    assert result["steps"] == {"planned": None, "done": 30}
    assert result["findings"] == []
    assert "not tested" in answer.err.lower()
    record = Path(result["record"])
    for name in ("result.json", "report.html", "summary.md", "plan.json"):
        assert (record / name).stat().st_size > 0
    assert place.left_running() == []


def test_the_step_cap_ends_a_loop_as_capped_and_what_follows_is_not_reached(place: Any) -> None:
    answer = place.run_script(place.loop(500, end="print('BEHIND THE LOOP')"), "--max-steps", "20")
    result = answer.result
    assert (answer.code, result["outcome"], result["steps"]["done"]) == (0, "capped", 20)
    assert "BEHIND THE LOOP" not in answer.err
    assert "not reached" in answer.err


def test_a_declared_wall_is_a_timeout(place: Any) -> None:
    answer = place.run_script(
        place.loop(10**6, after="__import__('time').sleep(0.05)"),
        "--wall",
        "9s",
        "--max-steps",
        "100000",
    )
    assert (answer.code, answer.result["outcome"]) == (1, "timeout")
    assert answer.codes()
    assert place.left_running() == []


@pytest.mark.parametrize(
    ("before", "code"),
    [
        ("loss = loss * float('nan') if step == 7 else loss", "gate.non_finite"),
        ("loss = loss * float('inf') if step == 7 else loss", "gate.non_finite"),
    ],
    ids=["nan", "inf"],
)
def test_a_non_finite_loss_stops_the_run(place: Any, before: str, code: str) -> None:
    answer = place.run_script(
        place.loop(4000, before=before, after="__import__('time').sleep(0.01)")
    )
    result = answer.result
    assert (answer.code, result["outcome"]) == (1, "gate")
    assert any(found.startswith(code) for found in answer.codes()), answer.codes()
    assert result["findings"][0]["place"]["step"] == 8
    assert result["steps"]["done"] < 2000


def test_a_script_that_raises_while_training_fails_with_its_line(place: Any) -> None:
    answer = place.run_script(place.loop(30, after="1 / (step - 9)"))
    result = answer.result
    assert (answer.code, result["outcome"], result["steps"]["done"]) == (1, "failed", 10)
    finding = result["findings"][0]
    assert "ZeroDivisionError" in finding["message"]
    assert finding["place"]["file"].endswith("train.py")
    assert finding["place"]["line"] is not None


def test_a_script_that_raises_before_its_first_step_never_started(place: Any) -> None:
    answer = place.run_script("import torch\nraise ValueError('no such column: prompt')\n")
    assert (answer.code, answer.result["outcome"]) == (1, "never_started")
    assert "no such column" in answer.result["findings"][0]["message"]


def test_a_missing_module_is_the_environments_fault(place: Any) -> None:
    answer = place.run_script("import torch\nimport a_module_that_is_not_there\n")
    assert (answer.code, answer.result["outcome"]) == (3, "never_started")


@pytest.mark.parametrize(
    ("words", "text", "reason"),
    [
        ((sys.executable, "train.py"), "print('hello')\n", "torch"),
        ((sys.executable, "-I", "train.py"), "LOOP", "-I"),
        ((sys.executable, "-E", "train.py"), "LOOP", "-E"),
        (("sh", "-c", "sleep 1"), "", "Python"),
        (("env", "-u", "PYTHONPATH", sys.executable, "train.py"), "LOOP", "PYTHONPATH"),
    ],
    ids=["no-torch", "isolated", "no-environment", "no-python", "pythonpath-removed"],
)
def test_a_run_that_was_not_seen_is_no_pass(
    place: Any, words: tuple[str, ...], text: str, reason: str
) -> None:
    place.write("train.py", text.replace("LOOP", place.loop(5)))
    answer = place.run(*words)
    result = answer.result
    assert (answer.code, result["verdict"]) == (3, "inconclusive")
    (entry,) = [item for item in result["not_judged"] if item["required"]]
    assert reason in entry["reason"], entry
    assert result["probe"]["attached"] is False


def test_the_memory_bound_ends_the_run_as_oom(place: Any) -> None:
    hog = "keep.append(torch.ones(2_000_000)); __import__('time').sleep(0.05)"
    text = "keep = []\n" + place.loop(4000, after=hog)
    answer = place.run_script(text, "--memory", "900MiB", "--max-steps", "4000")
    assert (answer.code, answer.result["outcome"]) == (1, "oom")
    assert answer.result["peak_memory_bytes"] > 500 * 2**20


def test_killed_by_a_signal_is_named(place: Any) -> None:
    answer = place.run_script(
        place.loop(
            30, after="__import__('os').kill(__import__('os').getpid(), 6) if step == 5 else None"
        )
    )
    assert (answer.code, answer.result["outcome"]) == (1, "failed")
    assert "SIGABRT" in answer.result["findings"][0]["message"]


def test_a_runner_that_ignores_term_and_forks_away_is_ended(place: Any) -> None:
    text = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import signal, time;"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);time.sleep(600)'],start_new_session=True)\n"
        + place.loop(3)
        + "import time\ntime.sleep(600)\n"
    )
    answer = place.run_script(text, "--wall", "8s")
    assert (answer.code, answer.result["outcome"]) == (1, "timeout")
    assert place.left_running() == []


def test_reading_stdin_meets_its_end(place: Any) -> None:
    answer = place.run_script("import sys\nassert sys.stdin.read() == ''\n" + place.loop(3))
    assert answer.code == 0


def test_a_script_that_moves_and_deletes_its_folder_is_still_judged(place: Any) -> None:
    text = place.loop(10, after="__import__('os').chdir('/')").replace(
        "import sys, torch", "import os, sys, torch\nos.environ['PYTHONPATH'] = '/nowhere'"
    )
    answer = place.run_script(text)
    assert (answer.code, answer.result["steps"]["done"]) == (0, 10)
