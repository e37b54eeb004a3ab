"""Thresholds over held-out cases, and what is shown of them; values only."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.finding import NotJudged
from seatrial.core.heldout import (
    Answer,
    gate_findings,
    gate_open_points,
    judge_gates,
    summary,
)
from seatrial.core.observation import Observation
from seatrial.core.observation.values import SaveView
from seatrial.core.trial import Bounds, HeldoutGate, InputSpec, RunnerSpec, Trial
from seatrial.heldout.base_model import adapter_base_of, base_model
from seatrial.heldout.examples import example_rows


def answers(*results: Any) -> list[Answer]:
    return [
        Answer(f"c{i}", "trained", raw="r", error="broke")
        if result is None
        else Answer(f"c{i}", "trained", raw="r", result=result)
        for i, result in enumerate(results)
    ]


def held(op: str, value: Any, *values: Any) -> bool | None:
    """Whether ``f op value`` holds over cases with these values; None is a failed case."""
    told = answers(*(None if item is None else {"f": item} for item in values))
    return judge_gates([HeldoutGate("f", op, value)], told)[0].held


JUDGED = [
    # shares of a bool
    (">=", 0.5, (True, False), True),
    (">=", 0.6, (True, False), False),
    ("==", 1, (True, True), True),
    ("==", 1, (True, False), False),
    ("<=", 0.1, (False, False), True),
    ("<=", 0.1, (False, True), False),
    # a failed case counts against: as not true where more is better, as true where less is
    (">=", 0.5, (True, None), True),
    (">=", 0.6, (True, None), False),
    ("<=", 0.1, (False, None), False),
    ("<", 0.6, (False, None), True),
    ("==", 0, (False, None), False),
    ("==", 1, (True, None), False),
    # numbers
    (">", 2, (1, 4.5), True),
    (">", 2, (1, 2), False),
    ("<", 2, (1.0, None), False),
    ("<", 2, (1.0, "nan"), False),
    (">", 2, (5.0, "inf"), False),
    (">", 2, (10**400, 5), False),
    ("!=", 2, (2, 2), False),
    # every case
    ("==", True, (True, True), True),
    ("==", True, (True, False), False),
    ("==", True, (True, None), False),
    ("==", False, (False, False), True),
    ("==", "mate", ("mate", "mate"), True),
    ("==", "mate", ("mate", "draw"), False),
    ("!=", "loss", ("mate", "draw"), True),
    ("!=", "loss", ("mate", None), False),
    # a text has no mean; a field of no case is not judged
    (">=", 0.5, ("a", "b"), False),
    (">=", 0.5, (None, None), None),
]


@pytest.mark.parametrize(("op", "value", "values", "wanted"), JUDGED, ids=map(str, JUDGED))
def test_a_threshold_holds_or_not(op: str, value: Any, values: Any, wanted: Any) -> None:
    assert held(op, value, *values) is wanted


def test_a_missed_threshold_names_value_threshold_and_cases() -> None:
    told = answers({"legal": True}, None, {"legal": False}, {"legal": False}, {"legal": False})
    results = judge_gates([HeldoutGate("legal", ">=", 0.5)], told)
    (finding,) = gate_findings(results, len(told))
    assert finding.code == "eval_mode.heldout_gate"
    assert finding.severity == "error"
    assert finding.message.startswith("legal is 0.2 over 5 held-out cases, not >= 0.5")
    assert "1 of 5 cases have no legal" in finding.message
    assert "c1, c2, c3 and 1 more" in finding.remedy
    assert gate_open_points(results) == ()


def test_a_field_of_no_case_is_not_judged_and_required() -> None:
    results = judge_gates([HeldoutGate("legal", ">=", 0.5)], answers({"parse": True}, None))
    assert gate_findings(results, 2) == ()
    (entry,) = gate_open_points(results)
    assert isinstance(entry, NotJudged)
    assert entry.required
    assert "1 of 2 cases failed" in entry.reason


def test_a_summary_counts_fields_failures_and_time() -> None:
    told = [
        Answer("a", "t", result={"ok": True, "n": 2, "why": "x"}, seconds=0.1, new_tokens=3,
               stopped="length"),
        Answer("b", "t", result={"ok": False, "n": 4, "why": "y"}, seconds=0.3, new_tokens=4),
        Answer("c", "t", error="broke", seconds=0.2),
    ]  # fmt: skip
    value = summary(told)
    assert value["fields"] == {"ok": pytest.approx(1 / 3), "n": None}
    assert (value["answered"], value["failed"], value["cut_at_length"]) == (3, 1, 1)
    assert (value["median_seconds"], value["slowest_seconds"], value["new_tokens"]) == (0.2, 0.3, 7)
    assert math.isnan(summary(answers({"n": "nan"}, {"n": 1.0}))["fields"]["n"])


def test_examples_begin_with_what_failed_and_end_at_twenty() -> None:
    cases = [{"id": f"c{i}", "prompt": f"p{i}", "expected": i} for i in range(30)]
    found = [Answer(f"c{i}", "trained", raw="r", result={"ok": i != 25}) for i in range(29)]
    found.append(Answer("c29", "trained", error="broke"))
    rows = example_rows(cases, {"trained": found}, ["c25"])
    assert [row["id"] for row in rows[:4]] == ["c25", "c29", "c0", "c1"]
    assert len(rows) == 20
    assert [row["failed"] for row in rows[:3]] == [True, True, False]
    assert rows[1]["trained"] == {"raw": "", "result": None, "error": "broke"}
    assert (rows[0]["asked"], rows[0]["expected"]) == ("p25", "25")


def trial(*inputs: InputSpec) -> Trial:
    return Trial("t", RunnerSpec(("x",)), Bounds(1, 1.0, 1), inputs=inputs)


def folder(path: Path, config: str = "config.json", text: str = "{}") -> Path:
    path.mkdir()
    (path / config).write_text(text)
    return path


def test_the_base_is_the_input_else_the_adapters_else_the_first_save(tmp_path: Path) -> None:
    named, adapted = folder(tmp_path / "named"), folder(tmp_path / "adapted")
    saved = folder(tmp_path / "checkpoint-0")
    (saved / "model.safetensors").write_text("")
    early = SaveView(rank=0, step=0, path=str(saved / "model.safetensors"))
    late = SaveView(rank=0, step=5, path=str(named / "model.safetensors"))
    seen = Observation(saves=(late, early))
    spec = InputSpec("start", "model", str(named))
    assert base_model(trial(spec), seen, str(adapted)).path == str(named)
    assert base_model(trial(), seen, str(adapted)).path == str(adapted)
    first = base_model(trial(), seen, None)
    assert (first.path, first.kind, first.weights) == (str(saved), "hf", ("model.safetensors",))
    nothing = base_model(trial(), Observation(saves=(late,)), None)
    assert nothing.path is None
    hub = base_model(trial(InputSpec("start", "model", hub="org/m")), Observation(), None)
    assert "org/m" in hub.source


def test_an_adapters_base_is_a_local_folder_or_unknown(tmp_path: Path) -> None:
    folder(tmp_path / "base")
    text = '{"base_model_name_or_path": "base"}'
    path = str(folder(tmp_path / "adapter", "adapter_config.json", text))
    assert adapter_base_of(trial(), path, str(tmp_path)) == str(tmp_path / "base")
    assert adapter_base_of(trial(), path, "/") is None
    for broken in ("[]", "no json", "{}", '{"base_model_name_or_path": 3}'):
        (tmp_path / "adapter" / "adapter_config.json").write_text(broken)
        assert adapter_base_of(trial(), path, str(tmp_path)) is None


def test_numbers_at_the_edge_of_a_float_are_averaged() -> None:
    assert held(">", 1e300, 1.7e308, 1.7e308, 1.7e308) is True
    assert held("<", 1e300, 1.7e308, 1.7e308, 1.7e308) is False
    assert held("<=", 0.9, 0.9, 0.9, 0.9) is True
