"""A rule asked about a script that is written here; nothing of it is executed."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.finding import Finding
from seatrial.core.trial import Bounds, OutputSpec, RunnerSpec, Trial
from seatrial.preflight.rule import Judged, judge
from seatrial.preflight.subject import subject_of_file, subject_of_trial
from seatrial.preflight.table import RULES

# A whole, healthy fine-tuning script; tests replace one thing in it.
HEALTHY = """
import argparse
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

REVISION = "0123456789abcdef0123456789abcdef01234567"

def parse():
    parser = argparse.ArgumentParser(allow_abbrev=ABBREV)
    parser.add_argument("--max-steps", type=int, default=100)
    parser.add_argument("--learning-rate", "--lr", type=float, default=3e-4)
    parser.add_argument("--optimizer", choices=["adamw", "sgd"], default="adamw")
    parser.add_argument("--out", default="out")
    parser.add_argument("--hf-token")
    return parser.PARSE

args = parse()
tokenizer = AutoTokenizer.from_pretrained("org/model", revision=REVISION)
model = AutoModelForCausalLM.from_pretrained("org/model", revision=REVISION)
data = load_dataset("json", data_files="data.jsonl")
config = TrainingArguments(
    output_dir=args.out,
    max_steps=args.max_steps,
    learning_rate=args.learning_rate,
    eval_strategy="steps",
    eval_steps=20,
    save_steps=20,
    logging_steps=5,
    load_best_model_at_end=True,
    metric_for_best_model="eval_loss",
    report_to="none",
    EXTRA
)
trainer = Trainer(
    model=model, args=config, train_dataset=data["train"], eval_dataset=data["validation"], TRAINER
)
BEFORE
trainer.train()
AFTER
print("done", args.max_steps)
"""


def healthy(
    *,
    extra: str = "",
    trainer: str = "",
    before: str = "",
    after: str = "",
    abbrev: str = "True",
    parse: str = "parse_args()",
    **replaced: str,
) -> str:
    """The healthy script with something planted; ``replaced`` are settings (``""`` drops one)."""
    text = HEALTHY
    for old, new in (
        ("EXTRA", extra), ("TRAINER", trainer), ("BEFORE", before), ("AFTER", after),
        ("ABBREV", abbrev), ("PARSE", parse),
    ):  # fmt: skip
        text = text.replace(old, new)
    lines = []
    for line in text.splitlines():
        name = line.strip().partition("=")[0]
        if name in replaced and line.startswith("    ") and line.rstrip().endswith(","):
            value = replaced[name]
            if value:
                lines.append(f"    {name}={value},")
            continue
        lines.append(line)
    return "\n".join(lines)


class Asker:
    """Asks every rule about one script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def trial(self, words: str, **rest: Any) -> Trial:
        """A trial around ``train.py`` of this folder."""
        bounds = rest.pop("bounds", None) or Bounds(rest.pop("max_steps", 1000), 600.0, 2**30)
        output = OutputSpec(**{k: rest.pop(k) for k in ("dir", "hub", "private") if k in rest})
        command = rest.pop("command", None) or ("python", "train.py", *shlex.split(words))
        secrets = rest.pop("secrets", ())
        return Trial(
            "t",
            RunnerSpec(command=tuple(command), secrets=secrets, env=rest.pop("env_of_trial", {})),
            bounds,
            output=output,
            **rest,
        )

    def judged(
        self, text: str, words: str = "", env: dict[str, str] | None = None, **rest: Any
    ) -> Judged:
        """Everything that the rules that only read say about a trial of this script."""
        (self.folder / "train.py").write_text(text, encoding="utf-8")
        subject = subject_of_trial(self.trial(words, **rest), env or {}, str(self.folder))
        return judge([one for one in RULES if one.detects in ("static", "launch")], subject)

    def alone(self, text: str, words: str | None = None, **rest: Any) -> Judged:
        """The same for a lone file."""
        path = self.folder / "train.py"
        path.write_text(text, encoding="utf-8")
        given = None if words is None else shlex.split(words)
        subject = subject_of_file(str(path), given, env={}, cwd=str(self.folder), **rest)
        return judge([one for one in RULES if one.detects in ("static", "launch")], subject)

    def found(self, code: str, text: str, words: str = "", **rest: Any) -> list[Finding]:
        """Findings of one rule in a trial."""
        return [f for f in self.judged(text, words, **rest).findings if f.code == code]


@pytest.fixture
def ask(tmp_path: Path) -> Asker:
    """Asks rules about scripts in a fresh folder."""
    return Asker(tmp_path)


@pytest.fixture
def script() -> Callable[..., str]:
    """Makes the healthy script, with something planted."""
    return healthy
