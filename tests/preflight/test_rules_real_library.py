"""What the rules say about the library is what the installed library does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from seatrial.preflight.metric_names import BUILT_IN, library_default
from seatrial.preflight.script import read_script
from seatrial.preflight.settings import settings_of

pytestmark = [
    pytest.mark.hf,
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None
        or importlib.util.find_spec("accelerate") is None,
        reason="transformers and accelerate are not installed",
    ),
]
CASES = [
    ("load_best_model_at_end=True, eval_strategy='epoch'", True),
    ("load_best_model_at_end=True, eval_strategy='steps', eval_steps=20, save_steps=30", True),
    ("load_best_model_at_end=True, eval_strategy='steps', eval_steps=20, save_steps=40", False),
    ("load_best_model_at_end=True, eval_strategy='epoch', save_strategy='epoch'", False),
    ("load_best_model_at_end=True, eval_strategy='epoch', save_strategy='best'", False),
    ("load_best_model_at_end=True", True),
]  # fmt: skip


def real(words: str, folder: Path) -> Any:
    from transformers import TrainingArguments

    given: dict[str, Any] = eval(f"dict({words})")  # our own words from above
    return TrainingArguments(output_dir=str(folder), use_cpu=True, report_to="none", **given)


@pytest.mark.parametrize(("words", "refused"), CASES)
def test_strategies_that_the_rule_refuses_are_those_that_the_library_refuses(
    ask: Any, tmp_path: Path, words: str, refused: bool
) -> None:
    text = f"from transformers import TrainingArguments\nTrainingArguments('out', {words})\n"
    found = ask.found("best_checkpoint.strategies_refused", text)
    assert bool(found) is refused
    try:
        real(words, tmp_path)
    except ValueError:
        assert refused
    else:
        assert not refused


@pytest.mark.parametrize(
    "words",
    [
        "",
        "eval_strategy='steps'",
        "eval_strategy='steps', logging_steps=7",
        "eval_strategy='steps', eval_steps=3, save_steps=6, max_steps=12",
    ],
)
def test_defaults_are_those_of_the_library(tmp_path: Path, words: str) -> None:
    path = tmp_path / "s.py"
    path.write_text(
        f"from transformers import TrainingArguments\nTrainingArguments('out', {words})\n"
    )
    (ours,) = settings_of(read_script(str(path)))
    theirs = real(words, tmp_path)
    assert ours.eval_strategy.value == theirs.eval_strategy.value
    assert ours.save_strategy.value == theirs.save_strategy.value
    assert ours.logging_steps.value == theirs.logging_steps
    assert ours.steps("save_steps", 500).value == theirs.save_steps
    if theirs.eval_strategy.value == "steps":
        assert ours.eval_steps.value == theirs.eval_steps
    planned = ours.planned_steps
    assert (planned.value if planned.found else -1) == theirs.max_steps


@pytest.mark.parametrize("metric", ["wer", "eval_loss", "perplexity", "f1", "my_loss"])
def test_the_default_direction_is_the_library_s(tmp_path: Path, metric: str) -> None:
    words = f"metric_for_best_model={metric!r}"
    assert real(words, tmp_path).greater_is_better is library_default(metric)


def test_names_that_an_evaluation_has_and_what_a_missing_one_does(tmp_path: Path) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer

    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8))
    rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 4
    words = "max_steps=2, eval_strategy='steps', eval_steps=1, save_steps=1, disable_tqdm=True"
    trainer = Trainer(model, real(words, tmp_path), train_dataset=rows, eval_dataset=rows)
    names = {name.removeprefix("eval_") for name in trainer.evaluate()} - {"epoch"}
    assert "loss" in names
    assert names <= BUILT_IN
    asked = real(words + ", load_best_model_at_end=True, metric_for_best_model='f1'", tmp_path)
    with pytest.raises(KeyError):
        Trainer(model, asked, train_dataset=rows, eval_dataset=rows).train()
