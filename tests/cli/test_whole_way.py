"""The whole way of a trial: freeze, rules, launch, checkpoints, a fresh process, held-out."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch

# A model that learns the sign of a sum; "yes" and "no" are its answers.
TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
torch.nn.init.constant_(model.weight, -1.0)
torch.save(model.state_dict(), "out/base.pt")
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
rows = [line.split() for line in open("train.txt")]
x = torch.tensor([[float(a), float(b)] for a, b, _ in rows])
y = torch.tensor([[float(c)] for _, _, c in rows])
for step in range(30):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
    loss.backward()
    optimizer.step()
torch.save(model.state_dict(), "out/model.pt")
"""
JUDGE = """
import os, time
import torch

def validate(case, text):
    SLOW
    return {"parse": text in ("yes", "no"), "right": text == case["expected"]}

class Answers:
    def __init__(self, model):
        self.model = model
    def answer(self, text):
        a, b = text.split()
        return "yes" if self.model(torch.tensor([float(a), float(b)])).item() > 0 else "no"

def load(path):
    model = torch.nn.Linear(2, 1)
    model.load_state_dict(torch.load(path, weights_only=True))
    return Answers(model)
"""
TRIAL = """
schema = 1
name = "signs"
hypothesis = "It learns the sign of a sum."
[bounds]
max_steps = 50
wall = "2m"
memory = "3GiB"
[[input]]
id = "rows"
role = "train"
path = "train.txt"
[runner]
command = ["PYTHON", "train.py"]
[output]
dir = "out"
[heldout]
cases = "cases.jsonl"
validator = "judge.py:validate"
loader = "judge.py:load"
[[heldout.gate]]
field = "right"
op = ">="
value = 0.9
[checks]
require = ["inputs", "checkpoint", "heldout"]
"""
COUNT = 12


@pytest.fixture
def trial(place: Any) -> Any:
    """A place with a healthy trial in it."""
    import random
    import sys

    rng = random.Random(3)
    points = [(rng.uniform(-2, 2), rng.uniform(-2, 2)) for _ in range(80)]
    points = [(a, b) for a, b in points if abs(a + b) > 0.3]
    place.write("train.txt", "".join(f"{a} {b} {int(a + b > 0)}\n" for a, b in points[COUNT:]))
    place.write("train.py", TRAIN)
    place.write("judge.py", JUDGE.replace("SLOW", "pass"))
    place.write("trial.toml", TRIAL.replace("PYTHON", sys.executable))
    cases = [
        {"id": f"c{n}", "prompt": f"{a} {b}", "expected": "yes" if a + b > 0 else "no"}
        for n, (a, b) in enumerate(points[:COUNT])
    ]
    place.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    (place.folder / "out").mkdir()
    return place


def run(place: Any, *options: str) -> Any:
    return place.seatrial("run", "--json", *options, "trial.toml")


def uses(place: Any) -> int:
    path = place.folder / ".seatrial" / "ledger.db"
    if not path.exists():
        return 0
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM heldout_uses").fetchone()
    return int(count)


def runs(place: Any) -> list[Path]:
    folder = place.folder / ".seatrial" / "runs"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def required(result: dict[str, Any]) -> list[str]:
    return [entry["code"] for entry in result["not_judged"] if entry["required"]]


def test_a_healthy_trial_passes_and_its_cases_are_used_once(trial: Any) -> None:
    answer = run(trial)
    result = answer.result
    assert (answer.code, result["verdict"], required(result)) == (0, "pass", []), answer.err
    assert "there was no lock" in answer.err
    lock = json.loads((trial.folder / "trial.lock").read_text())
    assert result["lock_sha256"] == lock["sha256"]
    assert result["best"]["path"].endswith("out/model.pt")
    assert result["hypothesis"] == "not disproved"
    heldout = result["heldout"]
    assert (heldout["cases"], heldout["use"]) == (COUNT, 1)
    assert heldout["models"]["trained"]["fields"]["right"] == 1.0
    assert heldout["models"]["base"]["fields"]["right"] < 0.5
    assert [gate["held"] for gate in heldout["gates"]] == [True]
    assert uses(trial) == 2 * COUNT
    page = Path(result["report"]).read_text()
    assert f"{COUNT} held-out cases" in page
    record = Path(result["record"])
    lines = (record / "heldout" / "trained.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"c{n}" for n in range(COUNT)]

    again = run(trial)
    assert again.code == 2
    assert record.name in again.result["conclusion"]
    assert "--heldout-again" in again.err
    assert len(runs(trial)) == 1

    third = run(trial, "--heldout-again", "the first page was lost")
    assert third.code == 0, third.err
    assert third.result["heldout"]["use"] == 2
    assert third.codes("warning") == ["eval_mode.heldout_used_again"]
    assert "the first page was lost" in Path(third.result["report"]).read_text()
    assert uses(trial) == 4 * COUNT


def test_drift_refuses_the_launch_and_a_new_lock_is_told_with_what_it_loosened(trial: Any) -> None:
    assert trial.seatrial("freeze").code == 0
    kept = trial.folder / "train.txt"
    before = kept.read_text()
    kept.write_text(before + "1.0 1.0 1\n")
    drifted = run(trial)
    assert (drifted.code, drifted.result["outcome"]) == (3, None)
    assert required(drifted.result) == ["inputs"]
    assert "train.txt" in drifted.err
    assert runs(trial) == []
    kept.write_text(before)
    assert run(trial).code == 0

    text = (trial.folder / "trial.toml").read_text().replace("value = 0.9", "value = 0.4")
    (trial.folder / "trial.toml").write_text(text)
    assert run(trial).code == 3  # a threshold is frozen, too
    frozen = trial.seatrial("freeze")
    assert frozen.code == 0
    assert "0.9" in frozen.out + frozen.err
    assert "pass" in frozen.out + frozen.err
    eased = run(trial)
    assert eased.code == 0, eased.err
    warned = {f["code"]: f for f in eased.result["findings"] if f["severity"] == "warning"}
    assert "0.9" in warned["bounds.loosened"]["message"]
    assert "pass" in warned["bounds.loosened"]["message"]
    assert "eval_mode.heldout_seen_before" in warned  # a new lock is no fresh look


def test_an_input_that_changes_while_the_run_goes_is_not_judged(trial: Any) -> None:
    script = TRAIN + 'open("train.txt", "a").write("1.0 1.0 1\\n")\n'
    trial.write("train.py", script)
    answer = run(trial)
    assert answer.code == 3
    assert set(required(answer.result)) >= {"inputs", "heldout"}
    assert uses(trial) == 0


def test_a_missed_threshold_disproves_the_hypothesis(trial: Any) -> None:
    trial.write("train.py", TRAIN.replace("range(30)", "range(1)").replace("lr=0.5", "lr=1e-6"))
    answer = run(trial)
    assert answer.code == 1
    assert answer.result["hypothesis"] == "disproved"
    assert "eval_mode.heldout_gate" in answer.codes()


def test_a_run_that_fails_uses_no_case(trial: Any) -> None:
    trial.write("train.py", TRAIN.replace("    optimizer.step()", "    optimizer.step(); 1 / 0"))
    answer = run(trial)
    assert (answer.code, answer.result["outcome"]) == (1, "failed")
    assert uses(trial) == 0


def test_a_weight_that_is_nan_is_an_error_and_uses_no_case(trial: Any) -> None:
    planted = TRAIN.replace(
        'torch.save(model.state_dict(), "out/model.pt")',
        'with torch.no_grad(): model.bias.fill_(float("nan"))\n'
        'torch.save(model.state_dict(), "out/model.pt")',
    )
    trial.write("train.py", planted)
    answer = run(trial)
    assert answer.code == 1
    assert any(code.startswith("checkpoint.") for code in answer.codes()), answer.codes()
    assert uses(trial) == 0


def test_an_unknown_flag_is_refused_before_anything_starts(trial: Any) -> None:
    parser = (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n"
    )
    trial.write("train.py", parser + TRAIN)
    text = (trial.folder / "trial.toml").read_text()
    (trial.folder / "trial.toml").write_text(text.replace('"train.py"', '"train.py", "--lrr", "1"'))
    answer = run(trial)
    assert (answer.code, answer.result["outcome"]) == (1, None)
    assert "--lrr" in answer.err
    assert runs(trial) == []
    (trial.folder / "trial.toml").write_text(text.replace('"train.py"', '"train.py", "--lr", "1"'))
    (trial.folder / "trial.lock").unlink()
    assert run(trial).code == 0


def _midway(trial: Any) -> tuple[Any, Path]:
    """A run that is in the middle of its held-out cases: each takes half a second."""
    trial.write("judge.py", JUDGE.replace("SLOW", "time.sleep(0.5)"))
    process = trial.start("run", "--json", "trial.toml")
    answers = None
    for _ in range(600):
        found = list(trial.folder.glob(".seatrial/runs/*/heldout/trained.jsonl"))
        if found and len(found[0].read_text().splitlines()) >= 2:
            answers = found[0]
            break
        time.sleep(0.1)
    assert answers is not None, "the held-out evaluation never began"
    return process, answers.parents[1]


def test_a_finalizer_killed_midway_leaves_its_cases_used_and_the_run_inconclusive(
    trial: Any,
) -> None:
    process, record = _midway(trial)
    finalizers = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _is_finalizer(entry, record)
    ]
    assert len(finalizers) == 1
    os.kill(finalizers[0], signal.SIGKILL)
    out, _ = process.communicate(timeout=90)
    result = json.loads(out)
    assert (process.returncode, result["exit_code"]) == (3, 3)
    assert "heldout" in required(result)
    assert uses(trial) == 2 * COUNT
    assert run(trial).code == 2
    assert trial.left_running() == []


def _is_finalizer(entry: Path, record: Path) -> bool:
    try:
        words = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"finalize" in words and str(record).encode() in words


def test_ctrl_c_midway_ends_the_evaluation(trial: Any) -> None:
    process, _record = _midway(trial)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    result = json.loads(out)
    assert (process.returncode, result["verdict"]) == (130, "inconclusive")
    assert uses(trial) == 2 * COUNT
    assert trial.left_running() == []


def test_a_validator_that_is_rewritten_while_the_cases_are_answered_is_not_judged(
    trial: Any,
) -> None:
    text = JUDGE.replace("SLOW", "pass").replace(
        "    model = torch.nn.Linear(2, 1)\n",
        "    open(__file__, 'a').write('# changed\\n')\n    model = torch.nn.Linear(2, 1)\n",
    )
    trial.write("judge.py", text)
    answer = run(trial)
    assert answer.code == 3
    assert "heldout" in required(answer.result)
    assert "while the held-out cases were answered" in answer.err


def test_a_script_given_as_a_trial_is_told_what_to_type(trial: Any) -> None:
    answer = trial.seatrial("run", "--json", "train.py")
    assert answer.code == 2
    assert "seatrial run -- python train.py" in answer.err
