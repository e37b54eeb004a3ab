"""Each gate trips on its planted fault with the right code, family, value and step."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from decimal import Decimal
from typing import Any, Dict, List, Optional

from seatrial.core.event import Event
from seatrial.core.gates.board import GateBoard
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import Sample, Trip

AD_HOC = GateSettings(wall_s=900, max_steps=10_000, memory_bytes=2**30)
TRIAL = replace(AD_HOC, ad_hoc=False)
Row = Dict[str, Any]


def event(name: str, data: Row, mono: float = 1.0, rank: Optional[int] = 0, pid: int = 7) -> Event:
    return Event(0, "", mono, pid, rank, name, data)


def fed(rows: List[Row], settings: GateSettings = AD_HOC, rank: int = 0) -> List[Trip]:
    board = GateBoard(settings, 0.0)
    trips: List[Trip] = []
    for step, row in enumerate(rows, start=1):
        trips += board.feed(event("step", {"step": step, **row}, step * 0.5, rank))
    return trips


def only(trips: List[Trip], gate: str) -> Trip:
    assert [trip.gate for trip in trips] == [gate], trips
    return trips[0]


def falling(steps: int = 60, norm: Optional[float] = 1.0) -> List[Row]:
    rng = random.Random(3)
    return [
        {
            "loss_raw": 2 + 2 * math.exp(-t / 30) + rng.gauss(0, 0.05),
            "grad_norm": norm,
            "lr": [1e-3],
        }
        for t in range(steps)
    ]


def with_fault(rows: List[Row], step: int, **fault: Any) -> List[Row]:
    changed = list(rows)
    changed[step - 1] = {**rows[step - 1], **fault}
    return changed


def test_a_consumed_nan_loss_stops_even_an_ad_hoc_run() -> None:
    for bad in ("nan", "inf", "-inf", math.nan):
        trips = fed(with_fault(falling(), 9, loss_raw=bad, grad_norm="nan"))
        assert [(t.gate, t.action, t.step) for t in trips] == [
            ("gate.non_finite_loss", "stop", 9),
            ("gate.non_finite_gradient", "stop", 9),
        ]
        assert trips[0].family == "gradients"
        assert not math.isfinite(trips[0].observed)
        assert "step 9" in trips[0].message


def test_a_nan_loss_with_an_unknown_gradient_counts_as_consumed() -> None:
    trip = only(fed(with_fault(falling(norm=None), 4, loss_raw="nan")), "gate.non_finite_loss")
    assert (trip.action, trip.step) == ("stop", 4)


def test_a_nan_loss_with_a_finite_gradient_warns_and_three_in_a_row_stop() -> None:
    rows = falling()
    assert only(fed(with_fault(rows, 5, loss_raw="inf")), "gate.non_finite_loss").action == "warn"
    for step in (20, 21, 22, 23):
        rows = with_fault(rows, step, loss_raw="nan")
    trips = fed(rows)
    assert [(t.gate, t.action, t.step) for t in trips] == [
        ("gate.non_finite_loss", "warn", 20),
        ("gate.non_finite_loss", "stop", 22),
    ]


def test_a_consumed_infinite_gradient_stops() -> None:
    trip = only(fed(with_fault(falling(), 7, grad_norm="inf")), "gate.non_finite_gradient")
    assert (trip.action, trip.family, trip.step) == ("stop", "gradients", 7)
    assert trip.observed == math.inf
    assert fed(with_fault(falling(), 7, skipped_before=1)) == []


def test_divergence_is_seen_and_only_warned_of_without_a_trial() -> None:
    rows = falling(40) + [{"loss_raw": 4 * 1.15**t, "grad_norm": 9.0} for t in range(1, 60)]
    trip = only(fed(rows), "gate.divergence")
    assert (trip.action, trip.family) == ("warn", "optimizer")
    assert trip.step is not None and 60 <= trip.step <= 75
    limit = float(trip.expected.removeprefix("at most "))
    start = max(row["loss_raw"] for row in rows[:5])
    assert math.isclose(limit, 2 * start, rel_tol=1e-5) and trip.observed > limit
    assert f"the first was {rows[0]['loss_raw']:.6g}" in trip.message
    assert only(fed(rows, TRIAL), "gate.divergence").action == "stop"


def test_an_explosion_needs_no_patience() -> None:
    rows = falling(30) + [{"loss_raw": 10.0**t, "grad_norm": 9.0} for t in range(1, 9)]
    trip = only(fed(rows), "gate.divergence")
    assert trip.step == 35
    assert "100 times" in trip.message
    signed = [{"loss_raw": (-1) ** t * 0.01} for t in range(30)]
    signed += [{"loss_raw": 1e4 * (-1) ** t} for t in range(5)]
    assert only(fed(signed), "gate.divergence").step == 33


def test_a_model_that_forgets_everything_has_diverged() -> None:
    rows = [{"loss_raw": 10.4 - 7 * (1 - math.exp(-t / 20))} for t in range(80)]
    rows += [{"loss_raw": 10.39 + 0.01 * (t % 3)} for t in range(60)]
    trip = only(fed(rows), "gate.divergence")
    assert trip.step == 110
    assert "back where it began" in trip.message


def test_a_second_optimizer_on_the_same_loss_hides_no_fault() -> None:
    def rows(losses: List[Any]) -> List[Row]:
        return [
            row
            for loss in losses
            for row in (
                {"loss_raw": loss, "grad_norm": 1.0, "optimizer": 0},
                {"loss_raw": None, "grad_norm": 1.0, "optimizer": 1},
            )
        ]

    diverging = rows([2.0 + t / 1000 if t < 30 else 30.0 for t in range(80)])
    assert only(fed(diverging), "gate.divergence").action == "warn"
    trips = fed(rows([2.0, 1.9, "nan", "nan", "nan"]))
    assert [(trip.gate, trip.action) for trip in trips] == [
        ("gate.non_finite_loss", "warn"),
        ("gate.non_finite_loss", "stop"),
    ]


def test_values_that_are_no_losses_end_no_series() -> None:
    rows = [*falling(20), {"loss_raw": None}, {"loss_raw": "text"}, *falling(20)]
    assert fed(rows) == []


def test_growing_batches_do_not_hide_a_divergence() -> None:
    rows = [
        {"loss_raw": (2.0 + t / 1000) * (1 if t < 30 else 50), "tokens": 1000 + t}
        for t in range(80)
    ]
    assert only(fed(rows), "gate.divergence").step in range(45, 51)


def test_a_loss_that_never_moves_is_constant() -> None:
    rows: List[Row] = [{"loss_raw": 5.0, "grad_norm": 1.0, "lr": [0.0]} for _ in range(10)]
    rows += [{"loss_raw": 5.0, "grad_norm": 1.0, "lr": [1e-3]} for _ in range(40)]
    trip = only(fed(rows), "gate.constant_loss")
    assert (trip.action, trip.family, trip.step, trip.observed) == ("warn", "optimizer", 35, 5.0)
    assert only(fed(rows, TRIAL), "gate.constant_loss").action == "stop"


def test_a_gradient_cut_from_the_graph_has_vanished() -> None:
    rng = random.Random(1)
    rows = [
        {"loss_raw": 3 + rng.gauss(0, 0.1), "grad_norm": 1.0 if t < 20 else 0.0, "lr": [1e-3]}
        for t in range(40)
    ]
    trip = only(fed(rows), "gate.vanished_gradient")
    assert (trip.action, trip.family, trip.step, trip.observed) == ("warn", "gradients", 25, 0.0)
    from_start = [{**row, "grad_norm": 0.0} for row in rows]
    assert only(fed(from_start, TRIAL), "gate.vanished_gradient").step == 5


def test_data_that_ends_early_is_told_with_both_numbers() -> None:
    board = GateBoard(TRIAL, 0.0)
    end = {"scope": "segment", "reason": "exhausted", "steps_done": 31, "steps_planned": 100}
    trip = only(list(board.feed(event("train.end", end))), "gate.loader_exhausted")
    assert (trip.action, trip.family) == ("stop", "inputs")
    assert (trip.observed, trip.expected, trip.step) == (31, 100, 31)
    for twin in (
        {**end, "steps_done": 100},
        {**end, "reason": "completed"},
        {**end, "steps_planned": None},
    ):
        assert GateBoard(TRIAL, 0.0).feed(event("train.end", twin)) == ()
    assert GateBoard(replace(TRIAL, loader=False), 0.0).feed(event("train.end", end)) == ()


def test_no_first_step_trips_once() -> None:
    board = GateBoard(replace(AD_HOC, first_step_s=60), 100.0)
    assert board.tick(159.0, Sample(159.0)) == ()
    trip = only(list(board.tick(160.0, Sample(160.0))), "gate.first_step")
    assert (trip.action, trip.family, trip.observed) == ("warn", "performance", 60.0)
    assert board.tick(200.0, Sample(200.0)) == ()
    in_time = GateBoard(replace(AD_HOC, first_step_s=60), 100.0)
    in_time.feed(event("step", {"step": 1}, 150.0))
    assert in_time.tick(200.0, Sample(200.0)) == ()
    off = GateBoard(replace(AD_HOC, first_step_s=None), 100.0)
    assert off.tick(800.0, Sample(800.0)) == ()


def stalled(busy_cores: float, settings: GateSettings = TRIAL, seconds: int = 200) -> List[Trip]:
    board = GateBoard(settings, 0.0)
    trips: List[Trip] = []
    mono, cpu = 0.0, 0.0
    for step in range(1, 11):
        mono, cpu = mono + 2.0, cpu + 2.0
        trips += board.feed(event("step", {"step": step, "loss_raw": 1.0 / step}, mono))
    for _ in range(seconds):
        mono, cpu = mono + 1.0, cpu + busy_cores
        trips += board.tick(mono, Sample(mono, cpu_seconds=cpu))
    return trips


def test_silence_of_idle_processes_is_a_stall_and_of_busy_ones_is_not() -> None:
    trip = only(stalled(0.01), "gate.stall")
    assert (trip.action, trip.family, trip.step) == ("stop", "performance", 10)
    assert 60 <= trip.observed <= 70
    assert stalled(0.5) == []
    assert only(stalled(0.01, AD_HOC), "gate.stall").action == "warn"


def test_slow_steps_get_a_longer_deadline_and_too_few_none() -> None:
    board = GateBoard(TRIAL, 0.0)
    for step in range(1, 6):
        board.feed(event("step", {"step": step}, step * 30.0))
    assert board.tick(150.0 + 299, Sample(449.0)) == ()
    assert only(list(board.tick(451.0, Sample(451.0))), "gate.stall").expected == 300.0
    third = GateBoard(TRIAL, 0.0)
    for step in range(1, 4):
        third.feed(event("step", {"step": step}, float(step)))
    assert third.tick(62.9, Sample(62.9)) == ()
    assert only(list(third.tick(63.0, Sample(63.0))), "gate.stall").observed == 60.0
    early = GateBoard(TRIAL, 0.0)
    early.feed(event("step", {"step": 1}, 1.0))
    early.feed(event("step", {"step": 2}, 2.0))
    assert early.tick(590.0, Sample(590.0)) == ()


def test_a_child_that_leaves_the_cpu_sum_is_no_work() -> None:
    board = GateBoard(TRIAL, 0.0)
    for step in range(1, 6):
        board.feed(event("step", {"step": step}, float(step)))
    trips: List[Trip] = []
    for second in range(6, 90):
        cpu = 500.0 if second < 30 else 20.0
        trips += board.tick(float(second), Sample(float(second), cpu_seconds=cpu))
    assert only(trips, "gate.stall").action == "stop"


def test_wall_memory_and_money_stop_every_run() -> None:
    board = GateBoard(replace(AD_HOC, first_step_s=900.0), 1000.0)
    assert board.tick(1899.0, Sample(1899.0, rss_bytes=2**30)) == ()
    trips = board.tick(1900.0, Sample(1900.0, rss_bytes=2**30 + 1))
    kinds = {trip.gate: trip for trip in trips}
    assert set(kinds) == {"gate.first_step", "gate.memory", "gate.wall"}
    assert kinds["gate.first_step"].action == "warn"
    assert kinds["gate.memory"].action == kinds["gate.wall"].action == "stop"
    assert kinds["gate.memory"].observed == 2**30 + 1
    assert kinds["gate.wall"].observed == 900.0
    assert {trip.family for trip in (kinds["gate.memory"], kinds["gate.wall"])} == {"bounds"}

    paid = replace(AD_HOC, money=Decimal("0.50"), price_per_hour=Decimal("6.00"))
    board = GateBoard(paid, 0.0)
    assert board.tick(299.0, Sample(299.0)) == ()
    trip = only(list(board.tick(300.0, Sample(300.0))), "gate.money")
    assert (trip.action, trip.observed, trip.expected) == ("stop", "0.5000", "0.50")
    free = replace(paid, price_per_hour=Decimal(0))
    assert GateBoard(free, 0.0).tick(300.0, Sample(300.0)) == ()


def test_the_step_cap_may_be_reached_but_not_passed() -> None:
    settings = replace(AD_HOC, max_steps=20)
    assert fed(falling(20), settings) == []
    trip = only(fed(falling(23), settings), "gate.step_cap")
    assert (trip.action, trip.step, trip.expected) == ("stop", 21, 20)


def test_accelerator_memory_is_bounded_only_when_asked() -> None:
    rows = with_fault(falling(), 12, device_bytes=9 * 2**30)
    assert fed(rows) == []
    trip = only(fed(rows, replace(AD_HOC, device_memory_bytes=2**33)), "gate.device_memory")
    assert (trip.action, trip.step, trip.observed) == ("warn", 12, 9 * 2**30)
    strict = replace(TRIAL, device_memory_bytes=2**33)
    assert only(fed(rows, strict), "gate.device_memory").action == "stop"
    assert fed(falling(), strict) == []
    assert fed(with_fault(falling(), 12, device_bytes=2**33), strict) == []


def test_a_floor_of_speed_counts_neither_warm_up_nor_evaluations() -> None:
    def run(seconds: float, floor: float) -> List[Trip]:
        board = GateBoard(replace(TRIAL, min_steps_per_second=floor), 0.0)
        trips: List[Trip] = []
        mono = 100.0  # compilation
        for step in range(1, 60):
            mono += seconds if step > 3 else 20.0
            trips += board.feed(event("step", {"step": step, "loss_raw": 1 / step}, mono))
            if step % 10 == 0:
                mono += 500.0
                trips += board.feed(event("eval", {"step": step, "metrics": {}}, mono))
        return trips

    assert run(0.5, floor=1.0) == []
    trip = only(run(2.0, floor=1.0), "gate.throughput")
    assert (trip.family, trip.observed) == ("performance", 0.5)
    assert trip.step is not None and trip.step <= 30


def test_a_save_that_fails_and_one_that_never_comes() -> None:
    board = GateBoard(AD_HOC, 0.0)
    bad = {"step": 5, "path": "out/model.pt", "error": "OSError: No space left on device"}
    trip = only(list(board.feed(event("save", bad))), "gate.bad_checkpoint")
    assert (trip.action, trip.family, trip.step) == ("warn", "checkpoint", 5)
    assert "No space left" in trip.message and "out/model.pt" in trip.message

    settings = replace(TRIAL, checkpoint_by_step=10)
    trip = only(fed(falling(15), settings), "gate.no_checkpoint")
    assert (trip.action, trip.family, trip.step) == ("stop", "checkpoint", 11)
    saved = GateBoard(settings, 0.0)
    saved.feed(event("step", {"step": 10}))
    assert saved.feed(event("save", {"step": 10, "path": "x", "error": None})) == ()
    assert saved.feed(event("step", {"step": 11})) == ()
    failed = GateBoard(settings, 0.0)
    failed.feed(event("save", bad))
    assert only(list(failed.feed(event("step", {"step": 11}))), "gate.no_checkpoint")


# A real optimization, small enough for pure Python: softmax regression on separable points.
def really_trained(seed: int, rate: float, freeze: bool = False, steps: int = 80) -> List[Row]:
    rng = random.Random(seed)
    classes, features, batch = 4, 6, 16
    truth = [[rng.gauss(0, 2) for _ in range(features)] for _ in range(classes)]
    weights = [[rng.gauss(0, 0.3) for _ in range(features)] for _ in range(classes)]
    rows: List[Row] = []
    for t in range(steps):
        gradient = [[0.0] * features for _ in range(classes)]
        loss = 0.0
        for _ in range(batch):
            x = [rng.gauss(0, 1) for _ in range(features)]
            scores = [sum(a * b for a, b in zip(row, x)) + rng.gauss(0, 1) for row in truth]
            label = scores.index(max(scores))
            logits = [sum(a * b for a, b in zip(row, x)) for row in weights]
            top = max(logits)
            shares = [math.exp(z - top) for z in logits]
            total = sum(shares)
            loss += (math.log(total) - logits[label] + top) / batch
            for c in range(classes):
                push = (shares[c] / total - (c == label)) / batch
                gradient[c] = [g + push * value for g, value in zip(gradient[c], x)]
        norm = math.sqrt(sum(g * g for row in gradient for g in row))
        now = 0.0 if t == 0 else rate  # the first step of a warmup
        if not freeze:
            weights = [
                [w - now * g for w, g in zip(row, grads)] for row, grads in zip(weights, gradient)
            ]
        rows.append({"loss_raw": loss, "grad_norm": norm, "lr": [now], "tokens": batch})
    return rows


def test_a_real_optimization_is_silent_and_its_twin_with_a_huge_rate_diverges() -> None:
    for seed in range(8):
        assert fed(really_trained(seed, rate=0.5), TRIAL) == [], seed
        for rate in (200.0, 2000.0):
            trip = only(fed(really_trained(seed, rate), TRIAL), "gate.divergence")
            assert trip.step is not None and trip.step <= 75, (seed, rate)
