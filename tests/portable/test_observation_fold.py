"""Events folded into an observation: ranks, segments, curves, and everything that is odd."""

from __future__ import annotations

import math
import random
from typing import Any, List, Optional

from seatrial.core.event import EVENTS, Event
from seatrial.core.observation import Observation, observe


class Log:
    """Writes events as one process of one rank would."""

    def __init__(self, rank: Optional[int] = 0, pid: int = 7, start: float = 0.0) -> None:
        self.rank, self.pid, self.mono = rank, pid, start
        self.events: List[Event] = []

    def add(self, name: str, /, **data: Any) -> Log:
        self.mono += 1.0
        seq = len(self.events)
        self.events.append(Event(seq, "", self.mono, self.pid, self.rank, name, data))
        return self

    def steps(self, count: int, first: int = 1, **data: Any) -> Log:
        for step in range(first, first + count):
            self.add("step", **{"step": step, "loss_raw": 1.0 / step, "lr": [0.1], **data})
        return self

    def end(self, scope: str = "process", **data: Any) -> Log:
        return self.add("train.end", scope=scope, **data)


def test_nothing_seen_is_an_empty_observation() -> None:
    empty = observe([])
    assert empty == Observation()
    assert (empty.steps_done, empty.steps_planned, empty.framework) == (0, None, None)
    assert empty.env == {} and empty.lead is None and empty.curve("loss_raw") is None


def test_a_plain_run_is_seen_with_steps_curves_and_end() -> None:
    log = Log().add("env", device="cpu", torch="2.4").add("model", name="Net", parameters=10)
    log.steps(5, tokens=8, supervised_tokens=6, rss_bytes=100, seconds=0.1, source="torch")
    log.add("save", step=5, path="a.pt", kind="torch", tensors=2, bytes=80, digests={"w": "ab"})
    log.end("process", steps_done=5, reason="script_end")
    seen = observe(log.events)
    rank = seen.ranks[0]
    assert (rank.rank, rank.steps_done, rank.ended, rank.reason) == (0, 5, True, "script_end")
    assert (rank.tokens, rank.supervised_tokens, rank.seconds) == (40, 30, 8.0)
    assert seen.env["device"] == "cpu" and seen.framework == "torch"
    loss = seen.curve("loss_raw")
    assert loss is not None and loss.rank == 0 and loss.x_name == "step"
    assert loss.points == tuple((float(s), 1.0 / s) for s in range(1, 6))
    units = {curve.name: curve.unit for curve in seen.curves}
    assert units["rss_bytes"] == "B" and units["seconds"] == "s" and "lr" in units
    assert seen.saves[0].digests == {"w": "ab"} and seen.saves[0].error is None
    assert (seen.first_mono, seen.last_mono, seen.events) == (1.0, 9.0, 9)
    assert seen.models[0].data["name"] == "Net"


def test_segments_are_counted_and_planned_one_by_one() -> None:
    log = Log().steps(4, segment=0, source="trainer")
    best = {"metric": "eval_loss", "value": 0.5, "step": 3, "path": "out/checkpoint-3"}
    log.end("segment", segment=0, steps_done=4, steps_planned=4, reason="completed", best=best)
    log.steps(3, first=5, segment=1, source="trainer")
    log.end("segment", segment=1, steps_done=3, steps_planned=9, reason="step_cap")
    seen = observe(log.events)
    assert [(s.segment, s.steps_done, s.steps_planned, s.reason) for s in seen.segments] == [
        (0, 4, 4, "completed"),
        (1, 3, 9, "step_cap"),
    ]
    assert (seen.segments[1].first_step, seen.segments[1].last_step) == (5, 7)
    assert (seen.steps_done, seen.steps_planned) == (7, 13)
    assert seen.best == best and seen.framework == "transformers"
    assert seen.ranks[0].ended is False


def test_a_plan_told_with_the_steps_outlives_a_kill_and_ends_correct_it() -> None:
    log = Log().steps(2, segment=0, steps_planned=50).steps(1, first=3, segment=0)
    assert observe(log.events).steps_planned == 50
    log.end("segment", segment=0, steps_planned=40)
    assert observe(log.events).steps_planned == 40


def test_the_best_of_rank_0_counts_and_any_other_only_without_it() -> None:
    zero, one = {"step": 3, "metric": "a"}, {"step": 9, "metric": "b"}
    first = Log(rank=0, pid=7).steps(1).end("segment", best=zero)
    other = Log(rank=1, pid=8, start=50.0).steps(1).end("segment", best=one)
    assert observe(first.events + other.events).best == zero
    assert observe(other.events).best == one
    early = Log(rank=1, pid=8).steps(1).end("segment", best=one)
    late = Log(rank=0, pid=7, start=50.0).steps(1).end("segment", best=zero)
    assert observe(early.events + late.events).best == zero


def test_one_unknown_plan_makes_the_whole_plan_unknown() -> None:
    log = Log().steps(2, segment=0).end("segment", segment=0, steps_planned=2)
    log.steps(2, first=3, segment=1)
    assert observe(log.events).steps_planned is None


def test_two_processes_of_one_rank_follow_each_other() -> None:
    first = Log(pid=7).steps(3).end("process")
    second = Log(pid=8, start=100.0).steps(2, loss_raw=9.0)
    seen = observe(second.events + first.events)
    assert seen.ranks[0].pids == (7, 8)
    assert seen.steps_done == 5
    assert seen.ranks[0].ended is False
    loss = seen.curve("loss_raw")
    assert loss is not None
    assert loss.points[-2:] == ((4.0, 9.0), (5.0, 9.0))


def test_the_order_of_lines_does_not_matter() -> None:
    log = Log().add("env", device="cpu").steps(20).end("process", reason="script_end")
    other = Log(rank=1, pid=8).steps(18)
    events = log.events + other.events
    expected = observe(events)
    for seed in range(5):
        shuffled = list(events)
        random.Random(seed).shuffle(shuffled)
        assert observe(shuffled) == expected
    assert [rank.steps_done for rank in expected.ranks] == [20, 18]


def test_bad_values_stay_in_the_curve() -> None:
    log = Log().steps(1, loss_raw="nan", grad_norm="inf").steps(1, first=2)
    curve = observe(log.events).curve("loss_raw")
    assert curve is not None and math.isnan(curve.points[0][1])
    norm = observe(log.events).curve("grad_norm", rank=0)
    assert norm is not None and norm.points == ((1.0, math.inf),)
    assert observe(log.events).curve("grad_norm", rank=3) is None


def test_evaluations_become_curves_of_the_lowest_rank() -> None:
    events = []
    for rank in (1, 0):
        log = Log(rank=rank, pid=rank + 7).steps(4)
        metrics = {"eval_loss": 0.5 + rank, "note": "text", "ok": True}
        log.add("eval", step=4, metrics=metrics, source="trainer")
        events += log.events
    late = Log(rank=1, pid=8, start=40.0).steps(2, first=9)  # the furthest rank
    events += late.events
    printed = Log(rank=None, pid=1, start=50.0)
    printed.add("eval", metrics={"score": 3}, source="stdout")
    printed.add("eval", step=2, metrics={"score": 4}, source="stdout")
    seen = observe(events + printed.events)
    loss = seen.curve("eval_loss")
    assert loss is not None and (loss.rank, loss.points) == (0, ((4.0, 0.5),))
    score = seen.curve("score")
    assert score is not None and score.points == ((2.0, 4.0), (10.0, 3.0))
    assert len(seen.evaluations) == 4
    assert seen.evaluations[0].metrics == {"eval_loss": 0.5}
    assert seen.framework == "transformers"


def test_libraries_are_named_by_what_they_did() -> None:
    assert observe(Log().steps(1, source="torch").events).framework == "torch"
    trl = observe(Log().add("env", framework="trl").steps(1, source="trainer").events)
    assert trl.frameworks == ("trl", "transformers")
    assert observe(Log().steps(1, source="trl").events).framework == "trl"
    lora = observe(Log().add("model", lora={"r": 8}).steps(1).events)
    assert (lora.framework, lora.frameworks) == ("torch", ("torch", "peft"))
    idle = observe(Log().add("env", packages={"trl": "1"}).events)
    assert (idle.framework, len(idle.ranks)) == (None, 1)


def test_ends_errors_and_resumes_are_kept() -> None:
    log = Log().add("resume", step=10, path="out/checkpoint-10").steps(2, first=11)
    log.add("save", step=12, path="x", error="OSError: full")
    log.add("probe.error", where="step hook", error="KeyError: 'x'", count=4)
    log.add("probe.error")
    error = {"type": "ValueError", "message": "bad", "file": "x.py", "line": 3}
    log.end("process", reason="exception", exception=error)
    seen = observe(log.events)
    assert seen.resumes[0]["path"] == "out/checkpoint-10"
    assert seen.saves[0].error == "OSError: full"
    assert [(e.where, e.count) for e in seen.probe_errors] == [("step hook", 4), ("", 1)]
    assert seen.ranks[0].exception == error
    for nothing in ("", 0, [], {}, 7):
        unsaid = observe(Log().steps(1).end("process", exception=nothing).events)
        assert unsaid.ranks[0].exception is None, nothing
    text = observe(Log().steps(1).end("process", exception="boom").events)
    assert text.ranks[0].exception == {"message": "boom"}


def test_skipped_steps_and_optimizers_are_counted() -> None:
    log = Log().steps(2, skipped_before=1).steps(2, first=3, optimizer=1)
    seen = observe(log.events).segments[0]
    assert (seen.skipped, seen.optimizers, seen.steps_done) == (2, 2, 4)


def test_two_events_of_one_round_count_its_tokens_once() -> None:
    log = Log().add("step", step=1, tokens=10).add("step", step=1, tokens=10, optimizer="b")
    assert observe(log.events).ranks[0].tokens == 10


def test_a_step_without_a_number_follows_the_last() -> None:
    log = Log().steps(2).add("step", loss_raw=1.0)
    assert observe(log.events).steps_done == 3


def test_nothing_odd_breaks_the_fold() -> None:
    rng = random.Random(5)
    values: List[Any] = [None, "nan", "inf", -1, 0, 3, 10**400, 1.5, True, [], {}, "x", [None]]
    names = ["step", "segment", "scope", "loss_raw", "lr", "tokens", "metrics", "error", "best"]
    names += ["reason", "steps_done", "exception", "digests", "path", "count", "lora", "source"]
    events = [
        Event(
            n,
            "",
            rng.uniform(-5, 100),
            rng.choice([1, 2]),
            rng.choice([None, 0, 1]),
            rng.choice([*EVENTS, "of.a.later.version"]),
            {name: rng.choice(values) for name in rng.sample(names, 9)},
        )
        for n in range(4000)
    ]
    seen = observe(events)
    assert seen.events == 4000
    for curve in seen.curves:
        xs = [x for x, _y in curve.points]
        assert xs == sorted(set(xs)), curve.name


def test_what_a_trainer_logs_of_the_steps_again_is_no_second_curve():
    def event(seq, name, **data):
        return Event(seq, "2026-01-01T00:00:00Z", float(seq), 1, 0, name, data)

    logged = {"grad_norm": 1.5, "learning_rate": 0.1, "loss": 2.0}
    steps = [
        event(n, "step", step=n, segment=1, loss_raw=2.0, lr=[0.1], grad_norm=1.0) for n in (1, 2)
    ]
    both = observe([*steps, event(3, "eval", step=2, metrics=logged, source="log")])
    names = [curve.name for curve in both.curves]
    assert names.count("grad_norm") == 1
    assert "learning_rate" not in names
    assert "loss" in names
    alone = observe([event(3, "eval", step=2, metrics=logged, source="log")])
    assert {"grad_norm", "learning_rate", "loss"} <= {curve.name for curve in alone.curves}


def test_evaluations_around_a_training_are_told_from_those_in_it() -> None:
    log = Log().add("eval", step=0, segment=1, metrics={"eval_loss": 9.0})
    log.steps(2, segment=1).add("eval", step=2, segment=1, metrics={"eval_loss": 1.0})
    log.end("segment", segment=1).add("eval", step=2, segment=1, metrics={"eval_loss": 0.1})
    log.add("eval", step=2, segment=2, metrics={"eval_loss": 0.2})
    log.steps(1, 3, segment=2).add("eval", step=3, segment=2, metrics={"eval_loss": 0.3})
    seen = observe(log.events).evaluations
    assert [item.in_training for item in seen] == [False, True, False, False, True]
