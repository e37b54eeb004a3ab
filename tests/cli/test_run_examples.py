"""The shipped examples under ``seatrial run --``, unmodified, and what the README shows of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def _readme_lines(command: str) -> list[str]:
    """The lines that the README shows below a command."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition(f"    $ {command}\n")[2].partition("\n\nBy itself")[0]
    block = re.split(r"\n(?=\S)", block)[0]
    return [line.strip() for line in block.splitlines() if line.strip() not in ("", "...")]


def _same_but_for_figures(line: str, output: str) -> bool:
    """Whether a line of the README is in the output, whatever its times, sizes and paths are."""
    pattern = re.escape(line)
    pattern = re.sub(r"(?:\\ )+", r"\\s+", pattern)
    pattern = re.sub(r"[0-9]+(?:\\\.[0-9]+)*", r"[0-9]+(?:[.][0-9]+)*", pattern)
    return re.search(pattern, output) is not None


def test_the_plain_loop_passes_as_the_readme_shows(place: Any) -> None:
    script = str(EXAMPLES / "plain-loop" / "train.py")
    answer = place.seatrial("run", "--", sys.executable, script, "--out", str(place.folder / "out"))
    assert answer.code == 0
    output = answer.err + answer.out
    shown = _readme_lines("seatrial run -- python examples/plain-loop/train.py")
    assert len(shown) > 12
    own = ("report", "next", "time", "memory", "seatrial: the probe")
    for line in shown:
        assert line.startswith(own) or _same_but_for_figures(line, output), line


def test_the_planted_fault_is_caught_as_the_readme_shows(place: Any) -> None:
    script = str(EXAMPLES / "faults" / "truncated_answers.py")
    answer = place.seatrial("run", "--", sys.executable, script, "--out", str(place.folder / "out"))
    assert answer.code == 1
    output = answer.err + answer.out
    shown = _readme_lines("seatrial run -- python examples/faults/truncated_answers.py")
    assert len(shown) > 8
    for line in shown:
        assert _same_but_for_figures(line, output), line


@pytest.mark.hf
def test_two_ranks_of_the_trainer_pass(place: Any) -> None:
    pytest.importorskip("transformers", reason="the example needs transformers")
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    script = str(EXAMPLES / "trainer" / "train.py")
    answer = place.run(
        torchrun, "--standalone", "--nproc-per-node", "2", script, "--out", "out",
    )  # fmt: skip
    result = answer.result
    assert (answer.code, result["outcome"]) == (0, "completed"), answer.err
    assert result["probe"] == {"attached": True, "ranks": 2, "framework": "transformers"}
    assert result["steps"]["planned"] == result["steps"]["done"]
    assert result["best"]["step"] is not None
    assert not [f for f in result["findings"] if f["severity"] != "note"]


@pytest.mark.hf
@pytest.mark.parametrize("method", ["full", "lora"])
def test_trl_is_capped_and_the_code_behind_train_still_runs(place: Any, method: str) -> None:
    pytest.importorskip("trl", reason="the example needs trl and peft")
    script = str(EXAMPLES / "legal-moves" / "train.py")
    answer = place.run(
        sys.executable, script, "--method", method, "--out", str(place.folder / "out"),
        options=("--max-steps", "12"),
    )  # fmt: skip
    result = answer.result
    assert (answer.code, result["outcome"], result["steps"]["done"]) == (0, "capped", 12)
    assert result["probe"]["framework"] == "trl"
    assert "validation after training" in answer.err
    assert not [f for f in result["findings"] if f["severity"] != "note"]
