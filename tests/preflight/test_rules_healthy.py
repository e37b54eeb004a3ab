"""Healthy scripts of varied style: no error and no warning, in any mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.core.trial import Bounds, RunnerSpec, Trial
from seatrial.preflight.rule import Judged, judge
from seatrial.preflight.subject import subject_of_file, subject_of_trial
from seatrial.preflight.table import RULES

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = [
    *sorted(ROOT.glob("examples/*/train.py")),
    ROOT / "examples/faults/truncated_answers.py",
]
SCRIPTS = sorted((Path(__file__).parent / "healthy").glob("*.py"))
READING = [one for one in RULES if one.detects in ("static", "launch")]
# The words of a real command for those that need some.
WORDS = {
    "clm_hf_parser": "--model_name_or_path ./base --train_file data/train.jsonl --output_dir out "
    "--do_train --do_eval --max_steps 100 --logging_steps 5 --eval_strategy steps --eval_steps 50 "
    "--save_steps 50 --block_size 128",
    "trl_parser": "--train data/rows --model_name_or_path ./base --max_steps 50 --no_shuffle",
    "plain_class": "--epochs 1 -b 32 --betas 0.9 0.99 --no-amp -vv --fresh",
    "accelerate_loop": "--model_name_or_path ./base --train_file a.csv --max_train_steps 20",
    "asr_seq2seq": "./whisper --steps 400 --every 50 --langs de en",
    "subcommands_chat": "train --steps 20",
}


def loud(judged: Judged) -> list[str]:
    """Everything that is more than a note."""
    return [f"{f.code}: {f.message}" for f in judged.findings if f.severity != "note"]


def trial_of(path: Path, words: list[str], *, ad_hoc: bool) -> Trial:
    """A trial of the script, or an ad-hoc run."""
    command = ("python", str(path), *words)
    return Trial("t", RunnerSpec(command), Bounds(200, 900.0, 2**30), ad_hoc=ad_hoc)


@pytest.mark.parametrize(
    "path", [*SCRIPTS, *EXAMPLES], ids=lambda path: f"{path.parent.name}-{path.stem}"
)
@pytest.mark.parametrize("mode", ["trial", "ad_hoc", "file"])
def test_a_healthy_script_gets_no_warning(path: Path, mode: str) -> None:
    words = WORDS.get(path.stem, "").split()
    if mode == "file":
        subject = subject_of_file(str(path), words or None, env={}, cwd=str(path.parent))
    else:
        trial = trial_of(path, words, ad_hoc=mode == "ad_hoc")
        subject = subject_of_trial(trial, {}, str(path.parent))
    judged = judge(READING, subject)
    assert loud(judged) == []
    assert not any("broke" in entry.reason for entry in judged.not_judged)


def test_there_are_ten_and_they_are_of_varied_style() -> None:
    assert len(SCRIPTS) >= 10
    texts = [path.read_text(encoding="utf-8") for path in SCRIPTS]
    for word in (
        "HfArgumentParser",
        "TrlParser",
        "SFTTrainer",
        "Accelerator",
        "DDP",
        "add_subparsers",
    ):
        assert any(word in text for text in texts), word
