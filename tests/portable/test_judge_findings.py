"""What a judgement says beside the outcome: ranks, probe, requirements, cost, best, hypothesis."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Callable, List, Optional, Sequence

from seatrial.core import strict_json
from seatrial.core.event import Event
from seatrial.core.finding import NotJudged
from seatrial.core.gates.settings import settings_for
from seatrial.core.judge import judge
from seatrial.core.judgement.trips import capitalised
from seatrial.core.launch import END_REASONS, Ended, Started
from seatrial.core.observation import observe
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.trial import Bounds, GateSpec, RunnerSpec, Trial
from seatrial.core.trip import STOP, WARN, Sample, Trip

PLAN = Plan("r1", "/rec/r1", ("python", "x.py"), "/w", 200, 900.0, 2**32, True)
ENDED = Ended("natural", "", 7200.0, exit_code=0)
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2"}


def rank_events(rank: int, count: int, env: Optional[dict[str, Any]] = None) -> List[Event]:
    events = [Event(0, "", 0.1, rank + 7, rank, "env", env or {})]
    events += [
        Event(n, "", float(n), rank + 7, rank, "step", {"step": n, "loss_raw": 1 / n, "tokens": 4})
        for n in range(1, count + 1)
    ]
    return events


def judged(
    events: List[Event],
    *trips: Trip,
    end: Optional[Ended] = ENDED,
    plan: Plan = PLAN,
    trial: Optional[Trial] = None,
    resources: Sequence[Sample] = (),
) -> RunResult:
    started = Started(7, "", 0.0)
    return judge(plan, started, end, observe(events), trips, resources, trial=trial)


def codes(result: RunResult) -> List[str]:
    return [finding.code for finding in result.findings]


def trial_with(**changes: Any) -> Trial:
    return Trial("t", RunnerSpec(("python", "x.py")), Bounds(200, 900.0, 2**32), **changes)


def lonely(rank: int, **env: Any) -> List[Event]:
    variables = {**TORCHRUN, "RANK": str(rank)}
    return rank_events(rank, 5, {"env": variables, "world_size": 1, "backend": None, **env})


def test_ranks_that_train_alone_are_an_error_when_proven() -> None:
    result = judged(lonely(0) + lonely(1))
    assert result.exit_code == 1 and result.outcome == "completed"
    told = result.findings[0]
    assert (told.code, told.family) == ("distributed.unsynchronised_copies", "distributed")
    assert (told.severity, told.confidence) == ("error", "proven")
    assert result.ranks == 2


def test_equal_gradients_of_different_losses_show_that_ranks_exchange_them() -> None:
    def ranks(norm_of: Callable[[int, int], Any]) -> List[Event]:
        events = lonely(0) + lonely(1)
        return [
            replace(
                e,
                data={
                    **e.data,
                    "loss_raw": 1 / e.data["step"] + (e.rank or 0) / 10,
                    "grad_norm": norm_of(e.rank or 0, e.data["step"]),
                },
            )
            if e.event == "step"
            else e
            for e in events
        ]

    assert codes(judged(ranks(lambda _rank, step: 2.0 / step))) == []
    alone = ["distributed.unsynchronised_copies"]
    assert codes(judged(ranks(lambda rank, step: 2.0 / step + rank))) == alone
    assert codes(judged(ranks(lambda rank, step: 2.0 + rank * (step > 1)))) == alone
    # A null norm is an optimizer without a gradient: that is told beside it.
    nothing = codes(judged(ranks(lambda _rank, _step: None)))
    assert sorted(nothing) == [*alone, "optimizer.no_gradient"]
    assert codes(judged(ranks(lambda _rank, _step: "nan"))) == alone


def test_ranks_in_a_group_or_without_a_launcher_are_not_alone() -> None:
    joined = lonely(0, world_size=2, backend="gloo") + lonely(1, world_size=2, backend="gloo")
    assert codes(judged(joined)) == []
    one = lonely(0) + lonely(1, backend="gloo")
    assert codes(judged(one)) == []
    for data in ({"wrappers": ["DistributedDataParallel"]}, {"fsdp": 2}, {"zero_stage": 3}):
        wrapped = [Event(50, "", 0.2, r + 7, r, "model", data) for r in (0, 1)]
        assert codes(judged(lonely(0) + lonely(1) + wrapped)) == [], data
    bare = [Event(50, "", 0.2, 7, 0, "model", {"wrappers": [], "fsdp": None, "zero_stage": None})]
    assert codes(judged(lonely(0) + lonely(1) + bare)) != []
    assert codes(judged(rank_events(0, 5) + rank_events(1, 5))) == []
    odd = {"env": {"RANK": "0", "WORLD_SIZE": "many"}}
    assert codes(judged(rank_events(0, 5, odd) + rank_events(1, 5, odd))) == []


def test_ranks_with_different_numbers_of_steps_are_a_warning() -> None:
    result = judged(rank_events(0, 9) + rank_events(1, 7))
    told = result.findings[0]
    assert (told.code, told.severity, told.place.rank) == ("distributed.ranks_differ", "warning", 1)
    assert told.evidence.observed == {"0": 9, "1": 7}
    assert (result.done, result.exit_code) == (9, 0)
    killed = Ended("step_cap", "", 1.0, exit_code=None, signal=15)
    assert codes(judged(rank_events(0, 9) + rank_events(1, 8), end=killed)) == []
    assert codes(judged(rank_events(0, 9) + rank_events(1, 5), end=killed)) != []
    assert "distributed.ranks_differ" in codes(judged(rank_events(0, 9) + rank_events(1, 8)))
    assert codes(judged(rank_events(0, 9) + rank_events(1, 8), end=None)) == ["run.lost"]


def test_trips_of_several_ranks_become_one_finding() -> None:
    def nan(rank: int, step: int, action: str = STOP, gate: str = "gate.non_finite_loss") -> Trip:
        return Trip(
            gate, action, "gradients", "the raw loss is nan", "loss_raw", "nan", "", step, rank
        )

    result = judged(
        rank_events(0, 9),
        nan(0, 4, WARN),
        nan(1, 6),
        nan(0, 6),
        nan(0, 6, gate="gate.non_finite_gradient"),
    )
    assert codes(result) == ["gate.non_finite_loss", "gate.non_finite_gradient"]
    first = result.findings[0]
    assert (first.place.rank, first.place.step, first.severity) == (0, 6, "error")
    assert first.message == "The raw loss is nan (also on rank 1)."
    assert first.symptoms == ("gate.non_finite_gradient",)


def test_what_came_first_is_the_cause() -> None:
    gradient = Trip("gate.non_finite_gradient", STOP, "gradients", "inf", step=3)
    loss = Trip("gate.non_finite_loss", STOP, "gradients", "nan", step=4)
    result = judged(rank_events(0, 5), loss, gradient)
    assert codes(result) == ["gate.non_finite_gradient", "gate.non_finite_loss"]
    unknown = judged(rank_events(0, 5), Trip("gate.new", WARN, "of a later version", ""))
    assert (unknown.findings[0].family, unknown.findings[0].message) == (
        "bounds",
        "gate.new tripped.",
    )


def test_a_fault_of_the_probe_never_fails_the_run() -> None:
    data = {"where": "step hook", "error": "KeyError: 'x'", "count": 3}
    result = judged([*rank_events(0, 5), Event(9, "", 6.0, 7, 0, "probe.error", data)])
    assert (result.exit_code, codes(result)) == (0, ["probe.error"])
    assert result.findings[0].severity == "warning" and "(3 times)" in result.findings[0].message


def test_skipped_steps_are_a_note_and_masked_labels_a_warning() -> None:
    events = rank_events(0, 9)
    events[3] = replace(events[3], data={**events[3].data, "skipped_before": 2})
    result = judged(events)
    assert (codes(result), result.findings[0].severity) == (["precision.skipped_steps"], "note")
    masked = [
        replace(e, data={**e.data, "supervised_tokens": 0}) if e.event == "step" else e
        for e in rank_events(0, 9)
    ]
    result = judged(masked)
    assert (codes(result), result.findings[0].family) == (["labels.no_supervised_tokens"], "labels")


def test_processes_that_would_not_go_are_named() -> None:
    result = judged(rank_events(0, 3), end=replace(ENDED, left_running=(12, 13)))
    assert result.findings[0].remedy == "kill -9 12 13"


def test_what_a_trial_requires_and_nobody_judges_is_exit_3() -> None:
    plain = judged(rank_events(0, 5))
    assert plain.exit_code == 0
    assert {entry.code for entry in plain.not_judged} >= {"resume", "heldout", "checkpoint"}
    assert not any(entry.required for entry in plain.not_judged)
    for name, code in (("heldout", "heldout"), ("freeze", "inputs"), ("resume", "resume")):
        result = judged(rank_events(0, 5), trial=trial_with(require=(name,)))
        assert result.exit_code == 3, name
        required = [entry.code for entry in result.not_judged if entry.required]
        assert required == [code]
        assert result.not_judged[0].code == code
    unknown = judged(rank_events(0, 5), trial=trial_with(require=("packing.mask", "oracle")))
    assert unknown.not_judged[0] == NotJudged(
        "oracle", "environment", "this version has no check of this name", True
    )
    assert unknown.not_judged[1].family == "packing"
    known = trial_with(require=("probe.steps", "gate.stall"))
    assert judged(rank_events(0, 5), trial=known).exit_code == 0
    for told in ({"require": ["resume"]}, {"checks": {"require": ["resume"]}}):
        assert judged(rank_events(0, 5), plan=replace(PLAN, trial=told)).exit_code == 3
    assert judged(rank_events(0, 5), plan=replace(PLAN, trial={"require": 3})).exit_code == 0


def test_a_gate_of_the_project_without_values_is_not_judged() -> None:
    trial = trial_with(gates=(GateSpec("accuracy", ">", 0.5, from_step=2, window=2),))
    plan = replace(PLAN, gates=settings_for(trial).to_json())

    def evaluated(*at: int) -> List[Event]:
        return rank_events(0, 9) + [
            Event(50 + n, "", float(n), 7, 0, "eval", {"step": n, "metrics": {"eval_accuracy": 1}})
            for n in at
        ]

    for at, text in (((), "never emitted"), ((1,), "never emitted"), ((1, 4), "emitted 1 times")):
        result = judged(evaluated(*at), plan=plan, trial=trial)
        assert result.exit_code == 3, at
        assert text in result.not_judged[0].reason
    assert judged(evaluated(4, 6), plan=plan, trial=trial).exit_code == 0


def test_a_hypothesis_is_disproved_only_by_a_gate_of_the_project() -> None:
    stated = trial_with(hypothesis="it learns")
    assert judged(rank_events(0, 5)).hypothesis == "not stated"
    assert judged(rank_events(0, 5), trial=stated).hypothesis == "not disproved"
    other = Trip("gate.stall", STOP, "performance", "idle")
    assert judged(rank_events(0, 5), other, trial=stated).hypothesis == "not disproved"
    own = Trip("gate.project", STOP, "bounds", "accuracy is 0.1")
    assert judged(rank_events(0, 5), own, trial=stated).hypothesis == "disproved"
    told = replace(PLAN, trial={"hypothesis": " it learns "})
    assert judged(rank_events(0, 5), plan=told).hypothesis == "not disproved"


def test_best_is_what_the_trainer_recorded_and_its_hash_stays_unknown() -> None:
    best = {"metric": "eval_loss", "value": 0.4, "step": 4, "path": "out/checkpoint-4", "more": 1}
    end = {"scope": "segment", "steps_done": 5, "steps_planned": 5, "best": best}
    result = judged([*rank_events(0, 5), Event(99, "", 6.0, 7, 0, "train.end", end)])
    assert result.best is not None
    assert result.best == {
        **{k: best[k] for k in ("metric", "value", "step", "path")},
        "sha256": None,
    }
    assert judged(rank_events(0, 5)).best is None


def test_cost_time_and_memory() -> None:
    paid = replace(PLAN, price_per_hour="1.50", money="5.00 EUR")
    samples = [Sample(1.0, rss_bytes=900), Sample(2.0, rss_bytes=700)]
    events = rank_events(0, 3)
    events.append(Event(50, "", 4.0, 7, 0, "step", {"step": 4, "rss_bytes": 950}))
    result = judged(events, plan=paid, resources=samples)
    assert (result.cost, result.currency, result.seconds) == ("3.0000", "EUR", 7200.0)
    assert result.peak_memory_bytes == 950
    free = judged(rank_events(0, 3))
    assert (free.cost, free.currency) == ("0", "USD")
    assert judged(rank_events(0, 3), plan=replace(PLAN, price_per_hour="?")).cost == "0"


def test_the_result_is_the_contracts_object_and_reads_back() -> None:
    result = judged(rank_events(0, 5), Trip("gate.stall", WARN, "performance", "idle", step=3))
    value = strict_json.loads(strict_json.dumps(result.to_json()))
    assert RunResult.from_json(value) == result
    assert value["steps"] == {"planned": None, "done": 5}


def test_no_record_however_odd_breaks_the_judgement() -> None:
    rng = random.Random(9)
    tails = ["", "Traceback (most recent call last):\nValueError\n", "\x00\ufffd\nKilled\n"]
    for _ in range(400):
        end = rng.choice(
            [
                None,
                Ended(
                    rng.choice(END_REASONS),
                    "",
                    rng.uniform(0, 99),
                    exit_code=rng.choice([None, 0, 1, 127, -9]),
                    signal=rng.choice([None, 9, 250]),
                    oom_killed=rng.random() < 0.1,
                    trigger=rng.choice([None, {}, {"gate": 3}, {"gate": "gate.wall"}]),
                ),
            ]
        )
        trips = [
            Trip(
                rng.choice(["gate.stall", "gate.wall", "gate.memory", "gate.project"]),
                rng.choice([STOP, WARN]),
                "bounds",
                "x",
            )
            for _ in range(rng.randrange(3))
        ]
        events = rank_events(0, rng.randrange(3)) if rng.random() < 0.7 else []
        for reason in rng.sample(["step_cap", "wall", "exhausted", "stop_request", None], 2):
            data = {"scope": rng.choice(["segment", "process"]), "reason": reason}
            data.update(steps_planned=rng.choice([None, 1, 50, "odd"]))
            data.update(exception=rng.choice([None, "boom", {"type": "MemoryError"}, 3, {}]))
            events.append(Event(90, "", 9.0, 7, 0, "train.end", data))
        plan = replace(PLAN, ad_hoc=rng.random() < 0.5)
        result = judge(plan, None, end, observe(events), trips, stderr_tail=rng.choice(tails))
        errors = any(finding.severity == "error" for finding in result.findings)
        assert result.exit_code in (0, 1, 3, 130)
        assert errors or result.exit_code != 1
        assert not errors or result.exit_code in (1, 130)
        assert result.exit_code != 0 or result.done > 0
        strict_json.dumps(result.to_json())


def test_the_name_of_a_metric_is_not_changed_at_the_head_of_a_sentence() -> None:
    assert capitalised("safety/refusal_rate is 0.95 at step 1") == (
        "safety/refusal_rate is 0.95 at step 1"
    )
    assert capitalised("grad_norm is 3") == "grad_norm is 3"
    assert capitalised("the raw loss is nan") == "The raw loss is nan"
