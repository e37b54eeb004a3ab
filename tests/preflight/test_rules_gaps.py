"""Faults and healthy twins that a second reading of the rules brought up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LOOP = """
import os, sys, time
import torch

def train(steps, path="out/last.pt"):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    {before}
    for step in range(steps):
        loss = model(torch.randn(4, 2)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.save(model.state_dict(), path)

{run}
"""


def loop(before: str = "pass", run: str = "train(20)") -> str:
    return LOOP.replace("{before}", before.replace("\n", "\n    ")).replace("{run}", run)


LOAD = "model.load_state_dict(torch.load(path, weights_only=True))"
ATTEMPTS = """
for attempt in range(3):
    try:
        train(20)
        break
    except RuntimeError:
        print("again", attempt)
"""
SEEDS = """
failures = {}
for seed in range(3):
    try:
        torch.manual_seed(seed)
        print("done", train(20, path=f"out/{seed}.pt"))
    except Exception as error:
        failures[seed] = error
if failures:
    raise SystemExit(str(failures))
"""
REQUEUE = """
import subprocess
train(20)
subprocess.run(["scontrol", "requeue", os.environ["SLURM_JOB_ID"]])
"""
AGAIN = """
from tenacity import retry, stop_after_attempt
@retry(stop=stop_after_attempt(3))
def main():
    train(20)
main()
"""
RESUMES = f"if os.path.exists(path):\n    {LOAD}"
ASKED = f"if os.environ.get('RESUME') and os.path.exists(path):\n    {LOAD}"
SHOWS = 'print("\\n".join(f"{k}={v}" for k, v in os.environ.items()))'
SOME = 'print("\\n".join(f"{k}={v}" for k, v in os.environ.items() if k == "TZ"))'
HANDS = 'import subprocess\nsubprocess.run(["x", "--token", os.environ["HF_TOKEN"]])'
INSIDE = "import subprocess\nsubprocess.run(['x'], env=dict(os.environ))"
PLACEHOLDER = 'API_KEY = "your-key-goes-here-12345"\nSORT_KEY = "length"\n'
KEY = "9f8e7d6c5b4a39281706f5e4d3c2b1a0"
LOOPS = [
    ("resume.by_itself", loop(RESUMES), True),
    ("resume.by_itself", loop(ASKED), False),
    ("resume.retry_loop", loop(run=ATTEMPTS), True),
    ("resume.retry_loop", loop(run=SEEDS), False),
    ("resume.retry_loop", loop(run=REQUEUE), True),
    ("resume.retry_loop", loop(run=AGAIN), True),
    ("resume.retry_loop", loop(run="def main():\n    train(20)\nmain()"), False),
    ("environment.waits_for_input", loop('input("go? ")'), True),
    ("environment.waits_for_input", loop('if sys.stdin.isatty():\n    input("go? ")'), False),
    ("environment.waits_for_input", loop("if False:\n    breakpoint()"), False),
    ("secrets.printed", loop(SHOWS), True),
    ("secrets.printed", loop('print("\\n".join(k for k, v in os.environ.items()))'), False),
    ("secrets.printed", loop(SOME), False),
    ("secrets.printed", loop(HANDS), True),
    ("secrets.printed", loop(INSIDE), False),
    ("secrets.in_source", f'API_KEY = "{KEY}"\n' + loop(), True),
    ("secrets.in_source", PLACEHOLDER + loop(), False),
    ("reporting.tracker_needs_login", loop("import wandb\nwandb.init(project='x')"), True),
    ("reporting.tracker_needs_login", loop("import wandb\nwandb.init(mode='disabled')"), False),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "trips"), LOOPS)
def test_a_plain_loop(ask: Any, code: str, text: str, trips: bool) -> None:
    found = [f for f in ask.found(code, text) if f.severity != "note"]
    assert bool(found) is trips


def test_what_only_a_run_decides_is_a_note(ask: Any) -> None:
    text = loop("if time.time() > 5:\n    breakpoint()")
    assert [f.severity for f in ask.found("environment.waits_for_input", text)] == ["note"]


Script = Callable[..., str]


def test_a_share_and_a_number_of_steps_do_not_go_together(ask: Any, script: Script) -> None:
    code = "best_checkpoint.strategies_refused"
    assert ask.found(code, script(save_steps="0.5"))
    assert not ask.found(code, script(save_steps="0.2", eval_steps="0.2"))


def test_evaluations_before_the_delay_are_left_out(ask: Any, script: Script) -> None:
    code = "eval_mode.never_within_steps"
    assert ask.found(code, script(extra="eval_delay=300,"))
    assert not ask.found(code, script(extra="eval_delay=30,"))


def test_logging_that_is_off(ask: Any, script: Script) -> None:
    code = "reporting.logging_beyond_end"
    assert ask.found(code, script(extra='logging_strategy="no",'))
    assert not ask.found(code, script(extra='logging_strategy="steps",'))


def test_a_tracker_that_the_script_itself_switches_off(ask: Any, script: Script) -> None:
    code = "reporting.tracker_needs_login"
    text = script(report_to='"wandb"')
    assert ask.found(code, text)
    assert not ask.found(code, 'import os\nos.environ["WANDB_MODE"] = "offline"\n' + text)


def test_script_and_trial_write_to_one_folder(ask: Any, script: Script) -> None:
    code = "checkpoint.output_dir_differs"
    assert ask.found(code, script(output_dir='"runs/a"'), dir="elsewhere")
    assert not ask.found(code, script(output_dir='"runs/a"'), dir="runs")
    assert not ask.found(code, script(output_dir='"runs/a"'))


def test_a_path_is_no_repository(ask: Any, script: Script) -> None:
    code = "inputs.revision_not_pinned"
    load = "AutoTokenizer.from_pretrained({})"
    assert ask.found(code, script(after=load.format('"models/tiny"')))
    for path in ('Path("models") / "tiny"', 'os.path.join("models", "tiny")'):
        text = "import os\nfrom pathlib import Path\n" + script(after=load.format(path))
        assert not ask.found(code, text)


def test_a_trainer_that_loads_a_model_by_its_name(ask: Any) -> None:
    text = """
from trl import SFTConfig, SFTTrainer
config = SFTConfig(output_dir="out", max_steps=20, MORE)
trainer = SFTTrainer(model="org/model", args=config, train_dataset=rows, eval_dataset=rows)
trainer.train()
"""
    code = "inputs.revision_not_pinned"
    assert ask.found(code, text.replace("MORE", ""))
    pinned = f'model_init_kwargs={{"revision": "{"a" * 40}"}}'
    assert not ask.found(code, text.replace("MORE", pinned))


def test_a_trainer_around_a_reloaded_model_is_no_trainer_of_last_weights(
    ask: Any, script: Script
) -> None:
    after = """best = AutoModelForCausalLM.from_pretrained('./best')
final = Trainer(model=best, args=config)
{}.evaluate(test_rows)"""
    text = script(load_best_model_at_end="", after=after)
    code = "best_checkpoint.heldout_on_last_weights"
    assert ask.found(code, text.replace("{}", "trainer"))
    assert not ask.found(code, text.replace("{}", "final"))
    assert not ask.found("eval_mode.no_evaluation", text.replace("{}", "final"))


def test_a_launcher_that_restarts_workers(ask: Any, script: Script) -> None:
    code = "resume.launcher_restarts"
    assert ask.found(code, script(), command=("torchrun", "--max-restarts", "3", "train.py"))
    assert ask.found(code, script(), command=("torchrun", "--max_restarts=1", "train.py"))
    assert not ask.found(code, script(), command=("torchrun", "--max-restarts", "0", "train.py"))
    assert not ask.found(code, script())


def test_a_huge_number_of_words_makes_no_pattern(ask: Any) -> None:
    text = (
        "import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--n', nargs=10**9)\nargs = p.parse_args()\n"
    )
    judged = ask.judged(text, "--n 1")
    assert "environment.argv_unknown_flag" in {entry.code for entry in judged.not_judged}
