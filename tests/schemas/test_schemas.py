"""The published schemas: tied to the values they describe, and strict where it counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from importlib import resources
from typing import Any

import jsonschema
import pytest

from seatrial.core.event import EVENTS, Event, to_line
from seatrial.core.finding import CONFIDENCES, FAMILIES, SEVERITIES, Finding, NotJudged
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.strict_json import dumps
from seatrial.core.verdict import OUTCOMES, PRECEDENCE, VERDICTS
from seatrial.readers.trial_model import trial_schema
from seatrial.schemas import SCHEMAS, load_schema

ERROR = Finding("gate.divergence", "optimizer", "error", "It diverged.")
WARNING = Finding("x", "performance", "warning", "Slow.")
OPEN = NotJudged("heldout", "eval_mode", "no cases", required=True)


def validate(name: str, value: Any) -> None:
    jsonschema.Draft202012Validator(load_schema(name)).validate(json.loads(dumps(value)))


def refuses(name: str, value: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate(name, value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_carries_its_name(name: str) -> None:
    schema = load_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:seatrial:{name}:1"


def test_every_schema_file_is_in_the_table() -> None:
    names = {entry.name for entry in resources.files("seatrial.schemas").iterdir()}
    assert {name for name in names if name.endswith(".json")} == {f"{n}.json" for n in SCHEMAS}
    with pytest.raises(KeyError, match="no schema 'nope'; there are: run"):
        load_schema("nope")


def test_words_are_those_of_the_core() -> None:
    run = load_schema("run")
    finding = run["$defs"]["finding"]["properties"]
    assert tuple(finding["family"]["enum"]) == FAMILIES
    assert tuple(finding["severity"]["enum"]) == SEVERITIES
    assert tuple(finding["confidence"]["enum"]) == CONFIDENCES
    assert tuple(run["properties"]["outcome"]["enum"]) == (*OUTCOMES, None)
    assert tuple(run["properties"]["verdict"]["enum"]) == VERDICTS
    assert run["properties"]["exit_code"]["enum"] == sorted(PRECEDENCE)
    assert load_schema("command")["$defs"]["finding"] == run["$defs"]["finding"]
    assert tuple(load_schema("event")["$defs"]["known_events"]["enum"]) == EVENTS
    assert set(load_schema("plan")["properties"]) == {field.name for field in fields(Plan)}
    assert set(run["required"]) == set(RunResult(0, None, "x").to_json())


def test_the_schema_of_a_trial_is_that_of_its_model() -> None:
    assert load_schema("trial") == trial_schema(), (
        "write json.dumps(seatrial.readers.trial_model.trial_schema(), indent=2) to "
        "src/seatrial/schemas/trial.json"
    )


RESULTS = {
    "pass": RunResult(0, "completed", "Nothing spoke against it.", findings=(WARNING,)),
    "fail": RunResult(1, "gate", "It diverged.", findings=(ERROR,)),
    "usage": RunResult(2, None, "there is no command to run"),
    "not judged": RunResult(3, "completed", "Open.", not_judged=(OPEN,)),
    "best": RunResult(
        0,
        "capped",
        "Fine.",
        planned=9,
        done=5,
        best={"metric": "eval_loss", "value": float("nan"), "step": 3, "path": "/x"},
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_valid(name: str) -> None:
    validate("run", {**RESULTS[name].to_json(), "a_field_of_tomorrow": 1})


def _set(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda value: value.update(changes)


SPOILED: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "a key is missing": ("pass", lambda value: value.pop("not_judged")),
    "verdict and exit code differ": ("pass", _set(verdict="fail")),
    "exit 3 as a pass": ("not judged", _set(verdict="pass")),
    "fail without an error": ("fail", _set(findings=[])),
    "pass with an error": ("pass", _set(findings=[ERROR.to_json()])),
    "pass with a required check open": ("pass", _set(not_judged=[OPEN.to_json()])),
    "unknown outcome": ("pass", _set(outcome="fine")),
    "unknown family": ("fail", _set(findings=[{**ERROR.to_json(), "family": "luck"}])),
    "finding without place": (
        "fail",
        _set(findings=[{k: v for k, v in ERROR.to_json().items() if k != "place"}]),
    ),
    "steps below zero": ("pass", _set(steps={"planned": None, "done": -1})),
    "money as number": ("pass", _set(cost={"amount": 0, "currency": "USD", "estimated": True})),
    "no conclusion": ("pass", _set(conclusion="")),
    "other schema": ("pass", _set(schema="seatrial.run/2")),
}


@pytest.mark.parametrize("name", SPOILED)
def test_spoiled_results_are_refused(name: str) -> None:
    base, spoil = SPOILED[name]
    value = RESULTS[base].to_json()
    spoil(value)
    refuses("run", value)


def test_the_object_of_other_commands() -> None:
    good = {"schema": "seatrial.list/1", "ok": True, "exit_code": 0, "result": [], "findings": []}
    validate("command", good)
    validate("command", {**good, "ok": False, "exit_code": 2, "findings": [ERROR.to_json()]})
    for change in ({"ok": False}, {"exit_code": 1}, {"schema": "list"}, {"findings": None}):
        refuses("command", {**good, **change})
    refuses("command", {key: value for key, value in good.items() if key != "result"})


def test_plans_and_events() -> None:
    plan = Plan("r", "/r", ("python",), "/", 5, 60.0, 2**30, True, {"wall_s": "flag"}).to_json()
    validate("plan", plan)
    for change in ({"max_steps": 0}, {"wall_s": 0}, {"record": "r"}, {"leg": "x"}, {"command": []}):
        refuses("plan", {**plan, **change})
    event = json.loads(
        to_line(Event(1, "2026-11-30T22:00:00.123+00:00", 1.5, 7, None, "gate", {"gate": "x"}))
    )
    validate("event", event)
    validate("event", {**event, "event": "step", "data": {"step": 1}, "rank": 0})
    validate("event", {**event, "event": "an.event.of.tomorrow"})
    for change in (
        {"v": 2},
        {"t": "now"},
        {"rank": -1},
        {"data": []},
        {"event": "step", "data": {"step": 0}},
        {"event": "step", "data": {}},
    ):
        refuses("event", {**event, **change})


def test_trials() -> None:
    trial = {
        "schema": 1,
        "bounds": {"max_steps": 5, "wall": "10m", "memory": "4GiB", "money": "2.00 USD"},
        "runner": {"command": ["python", "t.py"]},
        "gate": [{"metric": "loss", "op": "<", "value": 3}],
        "checks": {"disable": ["gate.stall"]},
    }
    validate("trial", trial)
    for change in (
        {"bounds": {"wal": "10m"}},
        {"bounds": {"wall": "10"}},
        {"bounds": {"max_steps": -1}},
        {"runner": {"command": []}},
        {"gate": [{"metric": "loss", "op": "=>", "value": 3}]},
        {"checks": {"disable": ["gate.wall"]}},
        {"extra": 1},
        {"schema": 2},
    ):
        refuses("trial", {**trial, **change})
