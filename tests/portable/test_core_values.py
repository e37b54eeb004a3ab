"""The core values: findings, verdicts, events, plans, launches read back as they were written."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Callable, Iterable, List, Tuple, Type

from seatrial.core import strict_json, verdict
from seatrial.core.event import Event, from_line, to_line
from seatrial.core.finding import Evidence, Finding, NotJudged, Place, cause_first
from seatrial.core.launch import Ended, Heartbeat, Started, StopRequest
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.trial import Bounds

FINDING = Finding(
    "labels.shifted",
    "labels",
    "error",
    "Labels are shifted twice.",
    Place(file="x.py", line=3, step=1, rank=0, module="m", parameter="p", row=9),
    Evidence(2.0, 1.0, 0.1),
    "Remove one shift.",
    "proven",
    ("gate.divergence",),
)
PLAN = Plan("r1", "/rec/r1", ("python", "a b.py"), "/w", 200, 900.0, 2**32, True)


def raises(kind: Type[BaseException], make: Callable[[], Any]) -> str:
    try:
        make()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def through_json(value: Any) -> Any:
    return strict_json.loads(strict_json.dumps(value))


def test_a_finding_reads_back_and_unknown_keys_are_ignored() -> None:
    value = through_json(FINDING.to_json())
    assert Finding.from_json(value) == FINDING
    value["new"], value["place"]["new"], value["evidence"]["new"] = 1, 2, 3
    assert Finding.from_json(value) == FINDING
    bare = {"code": "a", "family": "bounds", "severity": "note", "message": "m"}
    assert Finding.from_json({**bare, "place": None, "evidence": None}).place == Place()


def test_a_finding_has_every_key_of_the_contract() -> None:
    value = Finding("a", "bounds", "note", "m").to_json()
    assert list(value) == [
        *("code", "family", "severity", "message", "place", "evidence", "remedy", "confidence"),
        "symptoms",
    ]
    assert list(value["place"]) == ["file", "line", "step", "rank", "module", "parameter", "row"]
    assert list(value["evidence"]) == ["observed", "expected", "tolerance"]


def test_words_outside_the_lists_are_refused() -> None:
    assert "'x'" in raises(ValueError, lambda: replace(FINDING, family="x"))
    assert "'x'" in raises(ValueError, lambda: replace(FINDING, severity="x"))
    assert "'x'" in raises(ValueError, lambda: replace(FINDING, confidence="x"))


def test_causes_stand_before_their_symptoms_then_by_severity() -> None:
    def named(code: str, severity: str, *symptoms: str) -> Finding:
        return Finding(code, "bounds", severity, code, symptoms=symptoms)

    listed = [
        named("symptom", "error"),
        named("note", "note"),
        named("cause", "warning", "symptom"),
        named("error", "error"),
    ]
    order = [finding.code for finding in cause_first(listed)]
    assert order == ["error", "cause", "note", "symptom"]
    assert cause_first([]) == ()


def test_what_was_not_judged_has_the_keys_of_the_contract() -> None:
    assert NotJudged("resume", "resume", "no command", True).to_json() == {
        "code": "resume",
        "family": "resume",
        "reason": "no command",
        "required": True,
    }


def test_the_strongest_exit_follows_the_contracts_order() -> None:
    table: List[Tuple[Iterable[int], int]] = [
        ([], 0),
        ([0, 3], 3),
        ([3, 1, 0], 1),
        ([1, 2, 3], 2),
        ([130, 2, 1], 130),
        ([4, 130], 4),
    ]
    for codes, expected in table:
        assert verdict.strongest_exit(codes) == expected, codes
    assert "[7]" in raises(ValueError, lambda: verdict.strongest_exit([0, 7]))
    verdicts = [verdict.verdict_for_exit(code) for code in (0, 1, 2, 3, 4, 130)]
    assert verdicts == ["pass", "fail"] + ["inconclusive"] * 4


def test_an_event_is_one_line_and_reads_back() -> None:
    event = Event(
        3, "2026-01-01T00:00:00Z", 1.5, 7, 0, "step", {"loss_raw": 0.5, "x": "a\nb\ud800"}
    )
    line = to_line(event)
    assert line.endswith("\n") and line.count("\n") == 1 and line.isascii()
    assert from_line(line) == event
    nan = from_line(to_line(replace(event, data={"loss_raw": math.nan})))
    assert nan.data == {"loss_raw": "nan"}
    assert from_line(to_line(replace(event, rank=None))).rank is None
    assert from_line(to_line(replace(event, event="of.a.later.version"))).data == event.data


def test_lines_that_are_no_events_are_refused() -> None:
    good = to_line(Event(1, "t", 1.0, 7, 0, "step"))
    for bad in ("", "{", "[]", "3", '{"event": 3}', '{"event": "step"}', good[: len(good) // 2]):
        raises(ValueError, lambda bad=bad: from_line(bad))  # type: ignore[misc]
    assert from_line(good.replace('"data":{}', '"data":[1]')).data == {}
    null = good.replace('"seq":1', '"seq":null')
    assert "not an event object" in raises(ValueError, lambda: from_line(null))
    raises(TypeError, lambda: to_line(Event(1, "t", 1.0, 7, 0, "step", {"x": object()})))


def test_a_plan_reads_back_and_other_schemas_are_refused() -> None:
    plan = replace(PLAN, sources={"wall_s": "flag"}, gates={"a": 1}, secret_names=("TOKEN",))
    value = through_json(plan.to_json())
    assert Plan.from_json({**value, "new": 1}) == plan
    assert "seatrial.plan/9" in raises(
        ValueError, lambda: Plan.from_json({**value, "schema": "seatrial.plan/9"})
    )
    del value["command"]
    raises(TypeError, lambda: Plan.from_json(value))


def test_the_hash_of_a_plan_covers_what_is_approved_and_nothing_else() -> None:
    same = replace(PLAN, run_id="r2", record="/x", created="now", out="/o", env_names=("A",))
    assert same.sha256() == PLAN.sha256() and len(PLAN.sha256()) == 64
    others = [
        replace(PLAN, command=("rm",)),
        replace(PLAN, max_steps=201),
        replace(PLAN, money="9 USD"),
        replace(PLAN, gates={"stall_floor_s": 1}),
        replace(PLAN, engine="hf"),
    ]
    assert len({plan.sha256() for plan in [PLAN, *others]}) == 6


def test_what_supervisor_and_terminal_exchange_reads_back() -> None:
    values: List[Any] = [
        StopRequest("gate", "supervisor", "t", at_step=9),
        Started(7, "t", 1.0, start_ticks=3),
        Heartbeat("t", 1.0, 5, None, "running", step=3, probe={"ranks": 1}),
        Ended("natural", "t", 3.0, exit_code=0, left_running=(1, 2), trigger={"gate": "gate.wall"}),
    ]
    for value in values:
        told = through_json(value.to_json())
        assert type(value).from_json({**told, "new": 1}) == value, value
    raises(TypeError, lambda: Ended.from_json({"reason": "natural"}))


def test_a_result_reads_back_and_carries_every_key() -> None:
    best = {"metric": "eval_loss", "value": 0.5, "step": 3, "path": "a", "sha256": None}
    result = RunResult(
        1, "gate", "c", "r1", "/rec", findings=(FINDING,), best=best, planned=9, done=3
    )
    value = through_json(result.to_json())
    assert RunResult.from_json(value) == result
    assert value["verdict"] == "fail" and value["best"] == best
    assert list(value) == [
        *("schema", "verdict", "exit_code", "outcome", "conclusion", "run_id", "record"),
        *("bundle", "report", "lock_sha256", "probe", "steps", "findings", "not_judged", "best"),
        *("heldout", "hypothesis", "seconds", "peak_memory_bytes", "cost"),
    ]
    nothing = RunResult(2, None, "refused").to_json()
    assert nothing["outcome"] is None and set(nothing["best"].values()) == {None}
    raises(ValueError, lambda: RunResult.from_json({**value, "schema": "other/1"}))


def test_a_bound_knows_whether_it_was_left_to_its_default() -> None:
    bounds = Bounds(200, 900.0, 2**32, sources={"wall_s": "flag"})
    assert not bounds.is_default("wall_s") and bounds.is_default("max_steps")
