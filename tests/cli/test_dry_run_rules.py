"""What is executed only when it is asked for, and the child rules as one table."""

from __future__ import annotations

import ast
import json
import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from seatrial.core.check_report import CheckReport
from seatrial.core.trial import Bounds, InputSpec, RunnerSpec, Trial
from seatrial.core.units import Money
from seatrial.preflight.child_rules import CHILD_RULES, ChildSubject, judge_by_children
from seatrial.preflight.rule import judge as judge_rules
from seatrial.preflight.rules_child import RULES
from seatrial.preflight.subject import subject_of_trial
from seatrial.process.child import run_child

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
args = parser.parse_args()
open("marker", "w").write("it ran")
"""


def judge(
    folder: Path, script: str, *words: str, execute: bool, trial: bool = True, **runner: Any
) -> CheckReport:
    path = folder / "train.py"
    path.write_text(script)
    command = (sys.executable, "train.py", *words)
    subject = ChildSubject(
        script=str(path),
        source=script.encode(),
        tree=ast.parse(script),
        command=runner.pop("command", command),
        cwd=str(folder),
        env=dict(os.environ),
        ask=run_child,
        trial=Trial(
            name="t",
            runner=RunnerSpec(command=command, cwd=str(folder), **runner),
            bounds=Bounds(10, 60.0, 2**30, Money(Decimal(0))),
            inputs=(InputSpec("train", "train", path=str(folder / "train.jsonl")),),
        )
        if trial
        else None,
    )
    return judge_by_children(subject, execute=execute)


def test_static_mode_runs_nothing_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"prompt": "a"}) + "\n")
    loud = "open('marker', 'w')\n" + SCRIPT
    (tmp_path / "sitting.py").write_text("open('marker', 'w')\n")
    report = judge(
        tmp_path,
        "import sitting\n" + loud,
        "--nonsense",
        execute=False,
        dry_run=(sys.executable, "train.py"),
    )
    assert not (tmp_path / "marker").exists()
    assert report.findings == ()
    codes = {entry.code: entry.reason for entry in report.not_judged}
    for rule in CHILD_RULES:
        if rule.executes:
            assert "--dry-run does" in codes[rule.code]


def test_a_dry_run_parses_and_executes_the_trials_own_command(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps({"prompt": "a"}) + "\n")
    own = (sys.executable, "-c", "open('dry', 'w'); raise SystemExit(4)")
    report = judge(tmp_path, SCRIPT, "--lrr", "1", execute=True, dry_run=own)
    assert {f.code for f in report.findings} == {
        "environment.arguments_refused",
        "environment.dry_run_failed",
    }
    assert (tmp_path / "dry").exists()
    assert not (tmp_path / "marker").exists()
    fine = (sys.executable, "-c", "pass")
    report = judge(tmp_path, SCRIPT, "--lr", "1", execute=True, dry_run=fine)
    assert report.findings == ()


def test_without_trial_or_interpreter_everything_is_open_and_nothing_passes(
    tmp_path: Path,
) -> None:
    report = judge(tmp_path, SCRIPT, execute=True, trial=False, command=("./strange", "train.py"))
    assert report.findings == ()
    said = {entry.code for entry in report.not_judged}
    assert {rule.code for rule in CHILD_RULES} - said == {
        "inputs.hub_revision",
        "secrets.hub_target",
    }


def test_the_rules_of_a_trial_pass_on_what_the_parser_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    command = (sys.executable, "train.py", "--lr", "0.5")
    trial = Trial("t", RunnerSpec(command, cwd=str(tmp_path)), Bounds(10, 60.0, 2**30))
    subject = subject_of_trial(trial, dict(os.environ), str(tmp_path), ask=run_child)
    codes = {"environment.arguments", "inputs.hub_revision"}
    judged = judge_rules([one for one in RULES if one.code in codes], subject)
    assert judged.findings == ()
    assert [values["lr"] for values in subject.notes.values()] == [0.5]
