"""How rules are run: states, severities, what cannot be looked at, and rules that break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.finding import FAMILIES, Finding
from seatrial.core.gates import GATES
from seatrial.preflight.rule import (
    SCRIPT_CODE,
    SEEN,
    Answer,
    Hit,
    Open,
    Rule,
    Subject,
    judge,
    rule,
)
from seatrial.preflight.subject import subject_of_file
from seatrial.preflight.table import RULES


def made(*answers: Answer, needs_script: bool = False) -> Rule:
    @rule("inputs.test", severity="error", ad_hoc="note", title="t", needs_script=needs_script)
    def function(subject: Subject) -> Iterator[Answer]:
        """A page."""
        yield from answers

    return function


@pytest.mark.parametrize(
    ("answers", "state", "findings", "reasons"),
    [
        ((), "not_found", 0, 0),
        ((SEEN,), "found", 0, 0),
        ((Hit("x"),), "found", 1, 0),
        ((Hit("x"), Open("why")), "unknown", 1, 1),
        ((SEEN, Open("why"), Open("other")), "unknown", 0, 1),
        ((Finding("inputs.other", "inputs", "note", "m"),), "found", 1, 0),
    ],
)
def test_a_state_follows_from_the_answers(
    answers: tuple[Answer, ...], state: str, findings: int, reasons: int
) -> None:
    judged = judge([made(*answers)], Subject("trial"))
    assert judged.states == {"inputs.test": state}
    assert (len(judged.findings), len(judged.not_judged)) == (findings, reasons)


@pytest.mark.parametrize(
    ("mode", "hit", "severity"),
    [
        ("trial", Hit("x"), "error"),
        ("trial", Hit("x", severity="warning"), "warning"),
        ("ad_hoc", Hit("x"), "note"),
        ("ad_hoc", Hit("x", severity="warning"), "note"),
        ("file", Hit("x"), "error"),
        ("file", Hit("x", confidence="likely"), "note"),
    ],
)
def test_severity_follows_the_mode(mode: str, hit: Hit, severity: str) -> None:
    assert judge([made(hit)], Subject(mode)).findings[0].severity == severity


def test_a_rule_that_breaks_is_an_open_point_and_the_others_go_on() -> None:
    @rule("inputs.broken", severity="error", ad_hoc="note", title="t", needs_script=False)
    def broken(subject: Subject) -> Iterator[Answer]:
        """A page."""
        yield Hit("before")
        raise KeyError("x")

    judged = judge([broken, made(SEEN)], Subject("trial"))
    assert judged.states == {"inputs.broken": "unknown", "inputs.test": "found"}
    assert len(judged.findings) == 1
    assert "fault of seatrial" in judged.not_judged[0].reason


def test_without_a_script_nothing_counts_as_looked_at() -> None:
    judged = judge(
        [made(SEEN, needs_script=True)], Subject("trial", problem="it is a shell script")
    )
    assert judged.states == {"inputs.test": "unknown"}
    assert [(n.code, n.reason) for n in judged.not_judged] == [
        (SCRIPT_CODE, "it is a shell script")
    ]


def test_of_a_script_with_a_syntax_error_only_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "s.py"
    path.write_text("def (:", encoding="utf-8")
    judged = judge(RULES, subject_of_file(str(path), None, env={}, cwd=str(tmp_path)))
    assert [f.code for f in judged.findings] == ["environment.script_syntax"]
    assert judged.findings[0].severity == "error"
    assert judged.states["best_checkpoint.direction_wrong"] == "unknown"


def test_every_rule_is_described() -> None:
    codes = [one.code for one in RULES]
    assert len(codes) == len(set(codes))
    assert not set(codes) & {gate.info.code for gate in GATES}
    for one in RULES:
        assert one.family in FAMILIES, one.code
        if one.function.__module__.startswith("seatrial.preflight.rules_"):
            for part in ("Why it costs:", "What it cannot see:", "Remedy:", "Example:"):
                assert part in one.page, f"{one.code} has no {part!r}"


def test_a_rule_without_a_page_is_refused() -> None:
    with pytest.raises(ValueError, match="no page"):
        rule("inputs.x", severity="error", ad_hoc="note", title="t")(lambda _subject: ())


HF = """
from dataclasses import dataclass
from transformers import HfArgumentParser, Trainer, TrainingArguments
@dataclass
class Own:
    rows: int = 3
parser = HfArgumentParser((Own, TrainingArguments))
own, args = parser.parse_args_into_dataclasses()
trainer = Trainer(args=args, eval_dataset=own.rows)
"""


def test_settings_that_are_typed_are_judged(ask: Any) -> None:
    good = "--output_dir out --max_steps 50 --eval_strategy steps --eval_steps 10 --save_steps 10 "
    judged = ask.judged(HF, good + "--logging_steps 5")
    assert [f for f in judged.findings if f.severity != "note"] == []
    bad = "--max_steps 50 --eval_strategy steps --eval_steps=100 --logging_steps 5"
    codes = {f.code for f in ask.judged(HF, bad).findings}
    assert {"eval_mode.never_within_steps", "checkpoint.output_dir_not_given"} <= codes
    judged = ask.judged(HF, good + "--rosw 3")
    assert judged.states["environment.argv_unknown_flag"] == "unknown"
    assert [f for f in judged.findings if f.code.startswith("environment.argv")] == []
    first = ask.judged(HF, good + "--rows many").findings[0]
    assert first.code == "environment.argv_rejected"


TWO = """
import argparse
def convert():
    p = argparse.ArgumentParser()
    p.add_argument("--source")
    return p.parse_args()
def train():
    p = argparse.ArgumentParser()
    p.add_argument("--lr-decay", type=float)
    EXTRA
    return p.parse_args()
train()
"""


def test_of_several_parsers_none_is_blamed(ask: Any) -> None:
    judged = ask.judged(TWO.replace("EXTRA", ""), "--lr-decay 0.5")
    assert judged.findings == ()
    assert judged.states["environment.argv_unknown_flag"] == "unknown"


def test_a_flag_that_a_library_may_add_is_no_abbreviation(ask: Any) -> None:
    text = TWO.replace("def convert", "def _unused").replace(
        "    return p.parse_args()\ndef", "def"
    )
    text = text.replace("EXTRA", "import other; other.add_arguments(p)")
    judged = ask.judged(text, "--lr 0.5")
    assert judged.findings == ()
    assert judged.states["environment.argv_abbreviated"] == "unknown"
    assert judged.states["environment.argv_unknown_flag"] == "unknown"


def test_what_would_execute_is_not_judged_where_nothing_may_run() -> None:
    @rule("inputs.child", severity="error", ad_hoc="note", title="t", detects="dry_run",
          needs_script=False)  # fmt: skip
    def child(subject: Subject) -> Iterator[Answer]:
        """A page."""
        yield SEEN

    assert judge([child], Subject("trial")).states == {"inputs.child": "unknown"}
