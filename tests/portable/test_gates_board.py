"""The board: settings and their JSON, policy, once per rank, records of every gate."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import Any, List

from seatrial.core import strict_json
from seatrial.core.event import EVENTS, Event
from seatrial.core.finding import FAMILIES
from seatrial.core.gates import GATES
from seatrial.core.gates.base import Gate
from seatrial.core.gates.board import GateBoard
from seatrial.core.gates.settings import GateSettings, settings_for
from seatrial.core.trial import Bounds, GateSpec, RunnerSpec, Trial
from seatrial.core.trip import STOP, WARN, Sample, Trip
from seatrial.core.units import Money

BASE = GateSettings(wall_s=900, max_steps=200, memory_bytes=2**30)


def trial(**changes: Any) -> Trial:
    given = {"name": "t", "runner": RunnerSpec(("python", "x.py")), **changes}
    given.setdefault("bounds", Bounds(100, 600.0, 2**30, Money(Decimal("2.00"), "EUR")))
    return Trial(**given)


def nan_step(rank: int, grad_norm: object = "nan", number: int = 3) -> Event:
    data = {"step": number, "loss_raw": "nan", "grad_norm": grad_norm}
    return Event(number, "", float(number), 7 + rank, rank, "step", data)


def test_settings_survive_strict_json_and_ignore_what_is_new() -> None:
    settings = replace(
        BASE,
        money=Decimal("2.50"),
        price_per_hour=Decimal("1.10"),
        project=(GateSpec("loss", "<", 2.0, 10, 5),),
        disabled=("gate.stall",),
        checkpoint_by_step=50,
    )
    value = strict_json.loads(strict_json.dumps(settings.to_json()))
    assert GateSettings.from_json({**value, "of_a_later_version": 1}) == settings
    value["project"][0]["new"] = 1
    assert GateSettings.from_json(value) == settings
    bare = GateSettings.from_json({"wall_s": 900, "max_steps": 200, "memory_bytes": 2**30})
    assert bare == BASE


def test_a_trial_gives_its_bounds_gates_and_policy() -> None:
    spec = GateSpec("eval_loss", "<", 3.0)
    settings = settings_for(trial(gates=(spec,), disable=("gate.stall", "labels")), Decimal("4.00"))
    assert (settings.wall_s, settings.max_steps, settings.memory_bytes) == (600.0, 100, 2**30)
    assert settings.first_step_s == 400.0
    assert (settings.money, settings.currency) == (Decimal("2.00"), "EUR")
    assert settings.project == (spec,)
    assert settings.disabled == ("gate.stall",)
    assert settings.ad_hoc is False
    assert settings.hung_after_s == 30.0
    free = settings_for(trial(ad_hoc=True), Decimal(0))
    assert free.money is None and free.ad_hoc is True
    long = trial(bounds=Bounds(100, 86_400.0, 2**30))
    assert settings_for(long).first_step_s == 1800.0


def test_a_gate_trips_once_for_each_rank() -> None:
    board = GateBoard(BASE, 0.0)
    assert [t.rank for t in board.feed(nan_step(0)) if t.gate == "gate.non_finite_loss"] == [0]
    assert board.feed(nan_step(0, number=4)) == ()
    assert [t.rank for t in board.feed(nan_step(1)) if t.gate == "gate.non_finite_loss"] == [1]


def test_a_warning_may_become_a_stop_and_never_the_other_way() -> None:
    board = GateBoard(BASE, 0.0)
    first = board.feed(nan_step(0, grad_norm=1.0))
    assert [trip.action for trip in first] == [WARN]
    assert board.feed(nan_step(0, grad_norm=1.0, number=4)) == ()
    second = board.feed(nan_step(0, number=5))
    assert (second[0].gate, second[0].action) == ("gate.non_finite_loss", STOP)
    assert board.feed(nan_step(0, grad_norm=1.0, number=6)) == ()


def test_a_disabled_gate_is_silent_but_bounds_are_not_for_disabling() -> None:
    codes = tuple(gate.info.code for gate in GATES)
    board = GateBoard(replace(BASE, disabled=codes, max_steps=2), 0.0)
    assert [trip.gate for trip in board.feed(nan_step(0))] == ["gate.step_cap"]
    late = board.tick(901.0, Sample(901.0, rss_bytes=2**31))
    assert [trip.gate for trip in late] == ["gate.memory", "gate.wall"]
    paid = replace(BASE, disabled=codes, money=Decimal(1), price_per_hour=Decimal(3600))
    assert [t.gate for t in GateBoard(paid, 0.0).tick(2.0, Sample(2.0))] == ["gate.money"]


def test_only_non_finite_values_and_bounds_stop_an_ad_hoc_run() -> None:
    stopping = {gate.info.code for gate in GATES if gate.info.stops_ad_hoc}
    assert stopping == {
        "gate.non_finite_loss",
        "gate.non_finite_gradient",
        "gate.wall",
        "gate.memory",
        "gate.step_cap",
        "gate.money",
        "gate.project",  # only a trial file can declare one
    }
    for gate in GATES:
        trip = gate(BASE, 0.0).trip("x")
        assert trip.action == (STOP if gate.info.stops_ad_hoc else WARN), gate
        assert gate(replace(BASE, ad_hoc=False), 0.0).trip("x").action == STOP, gate


def test_every_gate_carries_a_record_that_can_be_printed() -> None:
    codes = [gate.info.code for gate in GATES]
    assert len(set(codes)) == len(codes)
    for gate in GATES:
        text = gate.explanation()
        for heading in ("What it watches:", "Why:", "What it cannot see:"):
            assert heading in text, (gate, heading)
        assert gate.info.code.startswith("gate.")
        assert gate.info.family in FAMILIES
        assert gate.info.title


def test_a_gate_that_overrides_nothing_says_nothing() -> None:
    class Silent(Gate):
        """A gate."""

    assert Silent(BASE, 0.0).feed(nan_step(0)) == ()
    assert Silent(BASE, 0.0).tick(1.0, Sample(1.0)) == ()


def odd_events(rng: random.Random, count: int) -> List[Event]:
    values: List[Any] = [None, "nan", "inf", -1, 0, 3, 10**400, 1.5, True, [], {}, "x", [None]]
    names = ["step", "segment", "loss_raw", "grad_norm", "lr", "tokens", "metrics", "error"]
    names += [
        "reason",
        "steps_done",
        "steps_planned",
        "optimizer",
        "skipped_before",
        "device_bytes",
    ]
    return [
        Event(
            n,
            "",
            rng.uniform(0, 100),
            rng.choice([1, 2]),
            rng.choice([None, 0, 1]),
            rng.choice([*EVENTS, "of.a.later.version"]),
            {name: rng.choice(values) for name in rng.sample(names, 8)},
        )
        for n in range(count)
    ]


def test_odd_events_never_break_a_gate_and_the_same_input_gives_the_same_trips() -> None:
    settings = replace(
        BASE,
        ad_hoc=False,
        min_steps_per_second=1.0,
        checkpoint_by_step=1,
        device_memory_bytes=1,
        project=(GateSpec("accuracy", ">", 1), GateSpec("loss", "<", 1, window=2)),
    )

    def trips() -> List[Trip]:
        rng = random.Random(11)
        board, found = GateBoard(settings, 0.0), []  # type: GateBoard, List[Trip]
        for event in odd_events(rng, 3000):
            found += board.feed(event)
            found += board.tick(event.mono, Sample(event.mono, cpu_seconds=rng.uniform(0, 9)))
        return found

    first = trips()
    assert repr(first) == repr(trips())
    assert first
    for trip in first:
        assert (
            Trip.from_json(strict_json.loads(strict_json.dumps(trip.to_json()))).gate == trip.gate
        )
