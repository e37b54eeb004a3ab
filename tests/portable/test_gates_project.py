"""Gates of the project's own: any emitted metric, windows, nan, names, policy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Dict, List, Optional, Tuple

from seatrial.core.event import Event
from seatrial.core.gates.board import GateBoard
from seatrial.core.gates.project import holds, metric_names
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trial import GATE_OPS, GateSpec
from seatrial.core.trip import Trip

BASE = GateSettings(wall_s=900, max_steps=10_000, memory_bytes=2**30, ad_hoc=False)


def board_for(*specs: GateSpec) -> GateBoard:
    return GateBoard(replace(BASE, project=specs), 0.0)


def step(number: int, rank: Optional[int] = 0, **data: Any) -> Event:
    return Event(0, "", float(number), 7, rank, "step", {"step": number, **data})


def evaluation(
    metrics: Dict[str, Any], number: Optional[int] = None, rank: Optional[int] = 0, pid: int = 7
) -> Event:
    return Event(0, "", 1.0, pid, rank, "eval", {"step": number, "metrics": metrics})


def run(spec: GateSpec, events: List[Event]) -> List[Trip]:
    board = board_for(spec)
    return [trip for event in events for trip in board.feed(event)]


def test_a_safety_metric_that_does_not_hold_stops_the_trial() -> None:
    spec = GateSpec("safety/refusal_rate", ">=", 0.9)
    trips = run(spec, [evaluation({"safety/refusal_rate": 0.95}, 10)])
    assert trips == []
    trips = run(spec, [evaluation({"safety/refusal_rate": 0.4}, 10)])
    assert [(t.gate, t.action, t.family, t.observed, t.step) for t in trips] == [
        ("gate.project", "stop", "bounds", 0.4, 10)
    ]
    assert "safety/refusal_rate is 0.4 at step 10; the gate demands >= 0.9" in trips[0].message


def test_the_mean_of_the_window_decides_once_it_is_full() -> None:
    spec = GateSpec("loss", "<", 2.0, window=3)
    losses = [9.0, 1.0, 1.0, 1.0, 3.0, 1.9]
    events = [step(n, loss_raw=loss) for n, loss in enumerate(losses, start=1)]
    trips = run(spec, events)
    assert [trip.step for trip in trips] == [3]  # 9, 1, 1
    assert trips[0].observed == 11 / 3
    assert run(spec, events[1:5]) == []  # 1, 1, 1 and 1, 1, 3 hold
    assert run(spec, events[:2]) == []  # never full


def test_values_before_from_step_do_not_enter_the_window() -> None:
    spec = GateSpec("loss_raw", "<", 2.0, from_step=5, window=2)
    events = [step(n, loss_raw=9.0 if n < 5 else 1.0) for n in range(1, 10)]
    assert run(spec, events) == []
    events = [step(n, loss_raw=1.0 if n < 5 else 9.0) for n in range(1, 10)]
    assert [trip.step for trip in run(spec, events)] == [6]


def test_nan_violates_every_comparison() -> None:
    for op in GATE_OPS:
        trips = run(GateSpec("accuracy", op, 0.5), [evaluation({"accuracy": "nan"}, 3)])
        assert len(trips) == 1 and math.isnan(trips[0].observed), op


def test_comparisons_mean_what_they_say() -> None:
    table: List[Tuple[str, float, bool]] = [
        ("<", 1.0, True),
        ("<", 2.0, False),
        ("<=", 2.0, True),
        (">", 2.0, False),
        (">", 3.0, True),
        (">=", 2.0, True),
        ("==", 2.0, True),
        ("==", 2.1, False),
        ("!=", 2.0, False),
        ("!=", 2.1, True),
        (">", math.inf, True),
        ("<", -math.inf, True),
    ]
    for op, value, expected in table:
        assert holds(op, value, 2.0) is expected, (op, value)


def test_names_with_and_without_the_prefix_meet() -> None:
    assert metric_names("accuracy") == ("accuracy", "eval_accuracy")
    assert metric_names("eval_loss") == ("eval_loss",)
    assert metric_names("loss") == ("loss_raw",)
    assert metric_names("eval_f1") == ("eval_f1", "f1")
    low = evaluation({"eval_accuracy": 0.1, "eval_loss": 3.0}, 4)
    assert len(run(GateSpec("accuracy", ">", 0.5), [low])) == 1
    assert len(run(GateSpec("eval_loss", "<", 2.0), [low])) == 1
    # The training loss that a trainer logs is not the evaluation's.
    assert run(GateSpec("loss", "<", 2.0), [low]) == []


def test_an_exact_name_wins_over_the_prefixed_one() -> None:
    both = [evaluation({"f1": 0.9, "eval_f1": 0.1}, 1), evaluation({"eval_f1": 0.1}, 2)]
    assert run(GateSpec("f1", ">", 0.5), both) == []


def test_one_evaluation_reported_twice_counts_once() -> None:
    spec = GateSpec("eval_loss", "<", 2.0, window=2)
    once = evaluation({"eval_loss": 3.0}, 10)
    assert run(spec, [once, once]) == []
    assert len(run(spec, [once, once, evaluation({"eval_loss": 3.0}, 20)])) == 1


def test_a_printed_metric_belongs_to_the_last_step_and_trips_once() -> None:
    spec = GateSpec("score", ">", 1.0, from_step=5)
    printed = [evaluation({"score": 0.0, "other": "text"}, None, rank=None, pid=1)]
    events = [step(n, loss_raw=1 / n) for n in range(1, 5)] + printed
    assert run(spec, events) == []
    events += [step(5, loss_raw=0.1), *printed]
    events += [evaluation({"score": -1.0}, None, rank=None, pid=1)]
    trips = run(spec, events)
    assert [(trip.step, trip.rank, trip.observed) for trip in trips] == [(5, None, 0.0)]


def test_every_step_field_can_be_bounded() -> None:
    fields: Dict[str, Any] = {
        "lr": [1.0, 5.0],
        "grad_norm": 1.0,
        "tokens": 1,
        "supervised_tokens": 1,
        "seconds": 1.0,
        "rss_bytes": 1,
        "device_bytes": 1,
    }
    for name, value in fields.items():
        assert len(run(GateSpec(name, ">", 1.5), [step(1, **{name: value})])) == 1, name
        assert run(GateSpec(name, "<", 1.5), [step(1, **{name: value})]) == [], name


def test_each_rank_and_each_gate_trips_for_itself() -> None:
    board = board_for(GateSpec("grad_norm", "<", 1.0), GateSpec("grad_norm", ">", 5.0))
    trips = [t for rank in (0, 1) for t in board.feed(step(1, rank, grad_norm=3.0))]
    assert [(trip.rank, trip.metric) for trip in trips] == [
        (0, "grad_norm < 1"),
        (0, "grad_norm > 5"),
        (1, "grad_norm < 1"),
        (1, "grad_norm > 5"),
    ]


def test_odd_metrics_are_passed_over() -> None:
    spec = GateSpec("accuracy", ">", 0.5)
    for metrics in (None, [], "x", {"accuracy": None}, {"accuracy": True}, {"accuracy": {}}):
        event = Event(0, "", 1.0, 7, 0, "eval", {"step": "odd", "metrics": metrics})
        assert board_for(spec).feed(event) == (), metrics
    assert board_for(spec).feed(Event(0, "", 1.0, 7, 0, "eval", {})) == ()
    assert board_for(GateSpec("lr", ">", 0)).feed(step(1, lr=[])) == ()
