"""The held-out functions of a trial: a missing one, an unknown field, and their healthy twins."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.core.trial import Bounds, HeldoutGate, HeldoutSpec, RunnerSpec, Trial
from seatrial.preflight.rule import TRIAL, Judged, Subject, judge
from seatrial.preflight.rules_judges import RULES

SOUND = [
    "def validate(case, text): return {'digit': text == '1'}",
    "def check(case, text): return dict(digit=True)\nvalidate = check",
    (
        "try:\n    from fast import validate\nexcept ImportError:\n"
        "    def validate(case, text): return {'digit': True}"
    ),
    "from other import validate",
    (
        "from dataclasses import dataclass, asdict\n@dataclass\nclass R:\n    digit: bool = True\n"
        "def validate(case, text): return asdict(R())"
    ),
]


def asked(folder: Path, source: str, field: str = "digit") -> Judged:
    (folder / "v.py").write_text(source)
    (folder / "other.py").write_text("def validate(case, text): return {'digit': True}")
    heldout = HeldoutSpec(
        str(folder / "c.jsonl"),
        validator=f"{folder / 'v.py'}:validate",
        gates=(HeldoutGate(field, ">=", 0.5),),
    )
    trial = Trial("t", RunnerSpec(("python", "t.py")), Bounds(1, 1.0, 1), heldout=heldout)
    return judge(RULES, Subject(TRIAL, trial=trial))


@pytest.mark.parametrize("source", SOUND)
def test_functions_that_are_there_are_silent(tmp_path: Path, source: str) -> None:
    assert asked(tmp_path, source).findings == ()


def test_a_function_that_is_not_there_is_an_error_before_the_launch(tmp_path: Path) -> None:
    (found,) = asked(tmp_path, "def valid8(case, text): return {'digit': True}").findings
    assert (found.code, found.severity) == ("eval_mode.heldout_function_missing", "error")
    assert "valid8" in found.message


def test_a_field_that_nobody_returns_is_told(tmp_path: Path) -> None:
    (found,) = asked(tmp_path, SOUND[0], field="digits").findings
    assert (found.code, found.severity) == ("eval_mode.heldout_field_unknown", "warning")


def test_a_file_that_is_no_python_is_an_open_point(tmp_path: Path) -> None:
    told = asked(tmp_path, "def validate(:")
    assert told.findings == ()
    assert len(told.not_judged) == 2
