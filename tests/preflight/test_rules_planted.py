"""Every rule trips on its planted fault and is silent on the healthy twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from seatrial.core.trial import Bounds
from seatrial.preflight.table import RULES
from seatrial.preflight.values import UNSURE

# code -> (what is planted into the healthy script, words of the command, what the trial says)
TOKEN = "hf_" + "A1b2C3d4E5f6G7h8I9j0"
RETRY = """
while True:
    try:
        trainer.train()
        break
    except RuntimeError as error:
        print("again", error)
"""
HIDDEN = """
try:
    trainer.train()
except Exception as error:
    print("failed", error)
"""
IN_MAIN = """
def main():
    for batch in rows():
        loss = step(batch)
        loss.backward()
try:
    main()
except Exception as error:
    print("failed", error)
"""
SETS = "eval_dataset={'near': 1, 'far': 2},"
Planted = tuple[dict[str, Any], str, dict[str, Any]]
PLANTED: dict[str, list[Planted]] = {
    "environment.script_syntax": [({"after": "def broken(:"}, "", {})],
    "environment.argv_unknown_flag": [
        ({}, "--learning-rte 3e-4", {}),
        ({}, "--max-steps 5 stray", {}),
        ({"abbrev": "False"}, "--max 5", {}),
    ],
    "environment.argv_rejected": [
        ({}, "--max-steps 1e3", {}),
        ({}, "--optimizer lion", {}),
        ({}, "--learning-rate", {}),
        ({}, "--help", {}),
    ],
    "environment.argv_abbreviated": [({}, "--max 50", {}), ({}, "--learning=1e-3", {})],
    "environment.argv_swallowed": [({"parse": "parse_known_args()[0]"}, "--learning-rte 1", {})],
    "environment.argv_bool_text": [
        (
            {"before": "import argparse\np = argparse.ArgumentParser()\n"
             "p.add_argument('--packing', type=bool)\nb = p.parse_args()"},
            "--packing False",
            {},
        )
    ],
    "environment.waits_for_input": [
        ({"before": "input('go on?')"}, "", {}),
        ({"before": "breakpoint()"}, "", {}),
        ({"before": "from getpass import getpass\nkey = getpass()"}, "", {}),
        ({"before": "from huggingface_hub import notebook_login as nl\nnl()"}, "", {}),
    ],
    "inputs.revision_not_pinned": [
        ({"before": "m = AutoTokenizer.from_pretrained('org/other')"}, "", {}),
        ({"before": "m = AutoTokenizer.from_pretrained('org/other', revision='main')"}, "", {}),
        ({"before": "d = load_dataset('org/rows', split='train')"}, "", {}),
        ({"before": "import huggingface_hub as h\nh.hf_hub_download('org/m', 'x.bin')"}, "", {}),
    ],
    "inputs.remote_code_not_pinned": [
        ({"before": "m = AutoTokenizer.from_pretrained('o/x', trust_remote_code=True)"}, "", {})
    ],
    "bounds.step_cap": [({"max_steps": ""}, "", {}), ({}, "--max-steps 5000", {})],
    "bounds.time_cap": [({}, "", {"bounds": Bounds(10, float("inf"), 2**30)})],
    "eval_mode.no_evaluation": [
        ({"eval_strategy": "'no'", "load_best_model_at_end": ""}, "", {}),
        ({"eval_strategy": "", "load_best_model_at_end": ""}, "", {}),
    ],
    "eval_mode.never_within_steps": [
        ({"eval_steps": "400", "save_steps": "400"}, "", {}),
        ({}, "", {"max_steps": 10}),
    ],
    "checkpoint.never_within_steps": [({"save_steps": "200"}, "", {})],
    "best_checkpoint.metric_not_emitted": [
        ({"metric_for_best_model": "'accuracy'", "extra": "greater_is_better=True,"}, "", {}),
        (
            {
                "metric_for_best_model": "'f1'",
                "before": "",
                "trainer": "compute_metrics=lambda p: {'accuracy': 1.0},",
            },
            "",
            {},
        ),
        ({"before": f"other = Trainer(model=model, args=config, {SETS})"}, "", {}),
    ],
    "best_checkpoint.direction_wrong": [
        ({"extra": "greater_is_better=True,"}, "", {}),
        ({"metric_for_best_model": "'wer'"}, "", {}),
        ({"metric_for_best_model": "'eval_perplexity'"}, "", {}),
        ({"metric_for_best_model": "'eval_f1'", "extra": "greater_is_better=False,"}, "", {}),
        ({"metric_for_best_model": "", "extra": "greater_is_better=True,"}, "", {}),
    ],
    "best_checkpoint.strategies_refused": [
        ({"eval_strategy": "'epoch'"}, "", {}),
        ({"save_steps": "30"}, "", {}),
    ],
    "best_checkpoint.save_misses_evaluation": [({"save_steps": "40"}, "", {})],
    "best_checkpoint.limit_drops_best": [
        (
            {
                "load_best_model_at_end": "",
                "metric_for_best_model": "",
                "extra": "save_total_limit=1,",
            },
            "",
            {},
        )
    ],
    "best_checkpoint.heldout_on_last_weights": [
        ({"load_best_model_at_end": "", "after": "trainer.predict(data['test'])"}, "", {}),
        (
            {
                "load_best_model_at_end": "",
                "before": "heldout_rows = data['heldout']",
                "after": "trainer.evaluate(heldout_rows)",
            },
            "",
            {},
        ),
    ],
    "best_checkpoint.newest_taken_for_best": [
        (
            {
                "after": "from glob import glob\nlast = sorted(glob('out/checkpoint-*'))[-1]\n"
                "best = AutoModelForCausalLM.from_pretrained(last)"
            },
            "",
            {},
        ),
        (
            {
                "after": "from transformers.trainer_utils import get_last_checkpoint\n"
                "best = AutoModelForCausalLM.from_pretrained(get_last_checkpoint('out'))"
            },
            "",
            {},
        ),
    ],
    "checkpoint.output_dir_not_given": [({"output_dir": ""}, "", {})],
    "secrets.hub_target_not_private": [
        ({"extra": "push_to_hub=True, hub_model_id='lab/m',"}, "", {"hub": "lab/m"}),
        ({"after": "model.push_to_hub('lab/m')"}, "", {"hub": "lab/m"}),
    ],
    "checkpoint.hub_id_without_owner": [
        ({"extra": "push_to_hub=True, hub_private_repo=True,"}, "", {"hub": "lab/m"}),
        ({"after": "model.push_to_hub('m', private=True)"}, "", {"hub": "lab/m"}),
    ],
    "checkpoint.hub_target_differs": [
        (
            {"extra": "push_to_hub=True, hub_private_repo=True, hub_model_id='me/other',"},
            "",
            {"hub": "lab/m"},
        ),
        ({"extra": "push_to_hub=True, hub_private_repo=True, hub_model_id='a/b',"}, "", {}),
    ],
    "reporting.output_buffered": [({}, "", {"ad_hoc": True})],
    "reporting.logging_beyond_end": [({"logging_steps": ""}, "", {})],
    "reporting.nan_filter": [({"extra": "logging_nan_inf_filter=True,"}, "", {})],
    "reporting.tracker_needs_login": [
        ({"report_to": "'wandb'"}, "", {}),
        ({"report_to": "['all']"}, "", {}),
    ],
    "reporting.failure_hidden": [
        ({"before": HIDDEN}, "", {}),
        ({"before": IN_MAIN}, "", {}),
        (
            {"before": "import sys\ntry:\n    trainer.train()\nfinally:\n    sys.exit(0)"},
            "",
            {},
        ),
    ],
    "resume.by_itself": [
        ({"before": "trainer.train(resume_from_checkpoint=True)"}, "", {}),
    ],
    "resume.retry_loop": [
        ({"before": RETRY}, "", {}),
        ({"before": "import os\nos.system('scontrol requeue 17')"}, "", {}),
    ],
    "secrets.in_trial": [
        ({}, "", {"env_of_trial": {"HF_TOKEN": "abcdefgh12"}}),
        ({}, "", {"env_of_trial": {"EXTRA": TOKEN}}),
    ],
    "secrets.printed": [
        ({"before": "import os\nprint(os.environ)"}, "", {}),
        ({"before": "import os\nprint(dict(os.environ))"}, "", {}),
        ({"before": "import os\nprint(f\"using {os.environ['HF_TOKEN']}\")"}, "", {}),
        ({"before": "import os\nkey = os.getenv('WANDB_API_KEY')\nprint('key', key)"}, "", {}),
        ({"before": "import os, logging\nlogging.info('env %s', os.environ.copy())"}, "", {}),
        ({"before": "import os\nfor k, v in os.environ.items():\n    print(k, v)"}, "", {}),
        ({"before": "import subprocess\nsubprocess.run(['printenv'])"}, "", {}),
        ({"before": "print(args.hf_token)"}, "", {}),
    ],
    "secrets.in_command": [({}, f"--hf-token {TOKEN}", {}), ({}, f"--out {TOKEN}", {})],
    "secrets.in_source": [
        ({"before": f"from huggingface_hub import login\nlogin(token='{TOKEN}')"}, "", {})
    ],
}  # fmt: skip
# Planted, with their healthy twins, in test_rules_gaps.py.
IN_GAPS = {
    "checkpoint.output_dir_differs", "resume.launcher_restarts",
    "eval_mode.heldout_function_missing", "eval_mode.heldout_field_unknown",
}  # fmt: skip
BY_TEXTS = {"inputs.required_text_missing", "inputs.forbidden_text_found"}
CASES = [(code, case) for code, cases in PLANTED.items() for case in cases]


def test_every_rule_has_a_planted_fault() -> None:
    reading = {one.code for one in RULES if one.detects in ("static", "launch")}
    assert reading - BY_TEXTS - IN_GAPS == set(PLANTED)


@pytest.mark.parametrize(("code", "case"), CASES, ids=[code for code, _ in CASES])
def test_a_planted_fault_trips_its_rule(
    code: str, case: Planted, ask: Any, script: Callable[..., str]
) -> None:
    planted, words, trial = case
    found = ask.found(code, script(**planted), words, **trial)
    assert found, f"{code} is silent"
    rule = next(one for one in RULES if one.code == code)
    assert found[0].severity in (rule.severity, rule.ad_hoc_severity, "note")
    assert found[0].remedy
    assert TOKEN not in str(found[0].message)
    if not trial.get("ad_hoc"):
        assert found[0].severity == rule.severity


@pytest.mark.parametrize(("code", "case"), CASES, ids=[code for code, _ in CASES])
def test_without_a_trial_a_planted_fault_is_at_most_a_warning(
    code: str, case: Planted, ask: Any, script: Callable[..., str]
) -> None:
    planted, words, trial = case
    judged = ask.judged(script(**planted), words, **{**trial, "ad_hoc": True})
    assert [f for f in judged.findings if f.severity == "error"] == []


def test_the_healthy_twin_is_silent(ask: Any, script: Callable[..., str]) -> None:
    judged = ask.judged(script(), "--max-steps 80 --lr 1e-3 --optimizer sgd")
    assert judged.findings == ()
    assert judged.not_judged == ()
    assert UNSURE not in judged.states.values()


@pytest.mark.parametrize(
    "planted",
    [
        {"before": "import os\nprint('HF_TOKEN' in os.environ, len(os.environ))"},
        {"before": "import os\nprint(os.environ['HOME'])"},
        {"before": "import os\nprint(sorted(os.environ), bool(os.getenv('HF_TOKEN')))"},
        {"before": "print(tokenizer.eos_token, tokenizer.pad_token_id)"},
        {"metric_for_best_model": "'eval_wer'",
         "extra": "greater_is_better=False,",
         "trainer": "compute_metrics=lambda p: {'wer': 1.0},"},
        {"metric_for_best_model": "'accuracy'",
         "before": "",
         "trainer": "compute_metrics=lambda p: dict(accuracy=1.0),"},
        {"before": "for batch in rows():\n    try:\n        train_step(batch)\n"
         "    except RuntimeError:\n        continue"},
        {"before": "import sys\ntry:\n    trainer.train()\nexcept Exception:\n    sys.exit(1)"},
        {"save_steps": "500", "extra": "save_strategy='best',"},
        {"extra": "push_to_hub=False,"},
        {"before": "for attempt in range(3):\n    try:\n        load_dataset('json')\n"
         "        break\n"
         "    except OSError:\n        continue"},
        {"after": "trainer.predict(data['test'])"},
        {"after": "best = AutoModelForCausalLM.from_pretrained("
         "trainer.state.best_model_checkpoint)"},
        {"before": "try:\n    trainer.train()\nexcept KeyboardInterrupt:\n    print('ended')"},
        {"before": "try:\n    trainer.train()\nexcept Exception:\n    print('x')\n    raise"},
    ],
)  # fmt: skip
def test_a_neighbour_of_a_fault_is_no_fault(
    planted: dict[str, str], ask: Any, script: Callable[..., str]
) -> None:
    judged = ask.judged(script(**planted))
    assert [f for f in judged.findings if f.severity != "note"] == []


@pytest.mark.parametrize(("metric", "known"), [("eval_near_loss", True), ("eval_loss", False)])
def test_with_several_sets_a_metric_carries_the_name_of_its_set(
    ask: Any, script: Callable[..., str], metric: str, known: bool
) -> None:
    text = script(metric_for_best_model=repr(metric)).replace('data["validation"]', "{'near': 1}")
    assert (ask.found("best_checkpoint.metric_not_emitted", text) == []) is known
