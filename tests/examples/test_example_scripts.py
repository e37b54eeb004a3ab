"""Each example works by itself, under plain Python, before seatrial ever watches it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def run(command: list[str], timeout_s: float = 120) -> str:
    """Run an example on one thread; its standard output."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def eval_losses(output: str) -> list[float]:
    return [float(value) for value in re.findall(r"'eval_loss': '?([\d.]+)", output)]


@pytest.mark.torch
def test_plain_loop_learns_and_saves(tmp_path: Path) -> None:
    script = str(EXAMPLES / "plain-loop" / "train.py")
    output = run([sys.executable, script, "--steps", "40", "--eval-every", "20", "--out", tmp_path])
    losses = [float(value) for value in re.findall(r"validation loss ([\d.]+)", output)]
    assert len(losses) == 2
    assert losses[1] < losses[0] < 2.5
    saved = torch.load(tmp_path / "checkpoint-40.pt", weights_only=True)
    assert saved["step"] == 40
    assert set(saved) == {"step", "model", "optimizer", "schedule"}


@pytest.mark.torch
def test_the_planted_fault_goes_unnoticed_by_its_own_script(tmp_path: Path) -> None:
    script = str(EXAMPLES / "faults" / "truncated_answers.py")
    output = run([sys.executable, script, "--steps", "60", "--out", tmp_path])
    losses = re.findall(r"^step +\d+  loss (\S+)$", output, re.MULTILINE)
    assert losses[0] != "nan"
    assert losses[-1] == "nan"
    assert (tmp_path / "checkpoint-60.pt").is_file()


@pytest.mark.hf
def test_trainer_example_trains_two_ranks_on_gloo(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    script = str(EXAMPLES / "trainer" / "train.py")
    steps = ["--max-steps", "20", "--eval-steps", "10"]
    output = run([*torchrun, "--nproc-per-node", "2", script, *steps, "--out", tmp_path])
    assert "on 2 rank(s)" in output
    losses = eval_losses(output)
    assert len(losses) == 2, "two evaluations, printed by one rank"
    assert losses[1] < losses[0]
    assert (tmp_path / "best" / "model.safetensors").is_file()
    state = json.loads((tmp_path / "checkpoint-20" / "trainer_state.json").read_text())
    assert state["global_step"] == 20
    # Two ranks share one batch of 64: had each trained alone, an epoch would be twice as long.
    assert state["epoch"] == pytest.approx(0.2)


@pytest.mark.hf
@pytest.mark.parametrize(("method", "saved"), [("full", "model"), ("lora", "adapter_model")])
def test_legal_moves_trains_and_plays(tmp_path: Path, method: str, saved: str) -> None:
    for name in ("transformers", "trl", "peft", "datasets"):
        pytest.importorskip(name)
    folder = tmp_path / "legal-moves"
    shutil.copytree(EXAMPLES / "legal-moves", folder, ignore=shutil.ignore_patterns("out"))
    few = ["--max-steps", "8", "--eval-steps", "4", "--cases", "20", "--method", method]
    output = run([sys.executable, str(folder / "train.py"), *few])
    losses = eval_losses(output)
    assert len(losses) == 2
    assert losses[1] < losses[0]
    shares = re.findall(r"^validation (before|after) training (.*)$", output, re.MULTILINE)
    assert [when for when, _ in shares] == ["before", "after"]
    assert all(set(json.loads(text)) == {"well_formed", "legal", "best"} for _, text in shares)
    assert (folder / "out" / "best" / f"{saved}.safetensors").is_file()
