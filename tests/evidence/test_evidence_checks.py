"""What the reports show of frozen inputs, checkpoints and held-out cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from seatrial.core.check_report import CheckReport
from seatrial.core.finding import NotJudged
from seatrial.evidence.checks_view import checkpoint_rows, frozen_rows
from seatrial.evidence.heldout_view import heldout_lines, heldout_view
from seatrial.evidence.page import render_page
from seatrial.evidence.report_input import ReportInput
from seatrial.evidence.summary import render_summary
from seatrial.evidence.terminal import verdict_block

HELDOUT: dict[str, Any] = {
    "cases": 40,
    "use": 1,
    "reason": None,
    "models": {
        "base": {"path": "/m/base", "fields": {"legal": 0.0, "parse": 0.125}, "failed": 0},
        "trained": {
            "step": 350,
            "path": "/m/out/checkpoint-350",
            "files": {"model.safetensors": "ab" * 32},
            "proof": {"compared": 21, "equal": 21},
            "fields": {"legal": 0.975, "parse": 1.0, "words": 12.5},
            "failed": 0,
        },
    },
    "gates": [
        {"field": "legal", "op": ">=", "value": 0.95, "observed": 0.975, "held": True},
        {"field": "parse", "op": ">", "value": 1, "observed": 1.0, "held": False},
        {"field": "absent", "op": "==", "value": True, "observed": None, "held": None},
    ],
    "examples": [
        {"id": "c-7", "asked": "king a4", "expected": "{}", "failed": True,
         "base": {"raw": "zz zz", "result": {"legal": False}},
         "trained": {"raw": "<b>m1</b>", "error": "validate raised ValueError: no"}},
    ],
}  # fmt: skip
BEST = {
    "best": {"metric": "eval_loss", "value": 0.1, "step": 350, "path": "/m/out/checkpoint-350"},
    "table": [
        {"step": 350, "path": "/m/out/checkpoint-350", "kind": "hf", "bytes": 1641104,
         "sha256": "cd" * 32, "value": 0.1, "finite": True},
        {"step": 400, "path": "/m/out/checkpoint-400", "kind": "hf", "bytes": 1641104,
         "sha256": None, "value": None, "finite": False},
    ],
}  # fmt: skip
CHECKS = (
    CheckReport("preflight", facts={"runner": "/m/train.py", "sha256": "ef" * 32, "rules": 19,
                                    "found": 0, "unknown": 4}),
    CheckReport("inputs"),
    CheckReport("best_checkpoint", facts=BEST),
    CheckReport("heldout", facts=HELDOUT),
)  # fmt: skip


@pytest.fixture
def passing(reports: dict[str, ReportInput]) -> ReportInput:
    return reports["pass"]


@pytest.fixture
def report(passing: ReportInput) -> ReportInput:
    result = replace(passing.result, lock_sha256="12" * 32)
    return replace(passing, result=result, checks=CHECKS)


def test_the_page_shows_base_against_trained_and_what_was_answered(report: ReportInput) -> None:
    page = render_page(report)
    for text in (
        "40 held-out cases, each answered once by the trained model (step 350) and by the base",
        "<td>legal</td><td>0.000</td><td>0.975</td><td>&gt;= 0.95</td><td>holds</td>",
        "<td>parse</td><td>0.125</td><td>1.000</td><td>&gt; 1</td><td>does not hold</td>",
        "<td>not judged</td>",
        "&lt;b&gt;m1&lt;/b&gt;",
        "validate raised ValueError: no",
        "39 more are in heldout/ of the record",
        "12" * 32,
        "ef" * 32,
        "checkpoint-400",
    ):
        assert text in page, text
    assert "<b>m1</b>" not in page


def test_the_summary_and_the_terminal_say_the_same(report: ReportInput) -> None:
    summary = render_summary(report)
    assert "## Held-out cases" in summary
    assert "does not hold" in summary
    assert "## Checkpoints on disk" in summary
    assert "## Frozen inputs" in summary
    lines = heldout_lines(report.checks)
    assert lines[1].split() == [
        "legal", "base", "0.000", "trained", "0.975", "(gate", ">=", "0.95:", "holds)",
    ]  # fmt: skip
    text = verdict_block(report.result, [], "", colour=False, width=100, heldout=lines)
    assert all(line in text for line in lines[1:])


def test_rows_of_checkpoints_name_the_best_and_what_is_not_finite(report: ReportInput) -> None:
    best, last = checkpoint_rows(report)
    assert (best[0], best[5], best[-1]) == ("350", "yes", "best")
    assert (last[5], last[4], last[-1]) == ("no", "none", "")


def test_drift_behind_a_run_is_shown(report: ReportInput) -> None:
    assert ("after the run", "the inputs were as frozen") in frozen_rows(report)
    drift = CheckReport("inputs", not_judged=(NotJudged("inputs", "inputs", "drifted", True),))
    assert ("after the run", "the inputs drifted") in frozen_rows(replace(report, checks=(drift,)))


def test_a_second_use_says_why(report: ReportInput) -> None:
    again = CheckReport("heldout", facts={**HELDOUT, "use": 2, "reason": "a typo in a case"})
    view = heldout_view((again,))
    assert view is not None
    assert "This is use 2 of these cases: a typo in a case." in view.sentence


def test_without_checks_nothing_is_shown(passing: ReportInput) -> None:
    page = render_page(passing)
    assert "Held-out cases</h2>" not in page
    assert "Checkpoints on disk" not in page
    assert heldout_lines(()) == []


ODD = [
    {"models": {"trained": None}},
    {"models": [], "cases": "x"},
    {"models": {"trained": {"fields": {"a": {"mean": float("nan")}}}}, "gates": [None, {}]},
    {"models": {"trained": {"fields": 3}}, "examples": [None, {"trained": 4}], "cases": None},
]


@pytest.mark.parametrize("facts", ODD)
def test_odd_facts_do_not_break_a_report(passing: ReportInput, facts: dict[str, Any]) -> None:
    checks = (CheckReport("heldout", facts=facts), CheckReport("best_checkpoint", facts=facts))
    odd = replace(passing, checks=checks)
    assert render_page(odd)
    assert render_summary(odd)
