"""What the checks beside a run change in its judgement: findings, open points, facts, exit code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Tuple

from seatrial.core import strict_json
from seatrial.core.check_report import CheckReport
from seatrial.core.event import Event
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.judge import HELDOUT_GATE, judge
from seatrial.core.launch import Ended, Started
from seatrial.core.observation import observe
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.scope import not_tested
from seatrial.core.trial import Bounds, HeldoutGate, HeldoutSpec, InputSpec, RunnerSpec, Trial
from seatrial.core.trial_json import trial_of_plan, trial_to_json

HELDOUT = HeldoutSpec("/w/cases.jsonl", validator="/w/v.py:validate",
                      gates=(HeldoutGate("legal", ">=", 0.9),))  # fmt: skip
TRIAL = Trial(
    "t",
    RunnerSpec(("python", "x.py"), ("python", "x.py", "--dry"), {"A": "1"}, ("TOKEN",), "/w"),
    Bounds(200, 900.0, 2**32),
    hypothesis="It learns.",
    inputs=(InputSpec("train", "train", path="/w/t.jsonl"),),
    heldout=HELDOUT,
    require=("inputs",),
    file="/w/trial.toml",
)
PLAN = Plan("r1", "/rec/r1", ("python", "x.py"), "/w", 200, 900.0, 2**32, False, name="t",
            trial=trial_to_json(TRIAL), lock_sha256="ab" * 32)  # fmt: skip
EVENTS = [
    Event(n, "", float(n), 7, 0, "step", {"step": n, "loss_raw": 1 / n, "lr": [0.1], "tokens": 4})
    for n in range(1, 6)
]
CLEAN = (
    CheckReport("inputs"),
    CheckReport("checkpoint"),
    CheckReport(
        "best_checkpoint",
        facts={"best": {"metric": "eval_loss", "value": 0.1, "step": 5, "path": "/w/out/c-5",
                        "sha256": "cd" * 32, "kind": "hf"}},
    ),
    CheckReport("heldout", facts={"cases": 3, "models": {"trained": {}}, "gates": [1]}),
)  # fmt: skip


def judged(checks: Tuple[CheckReport, ...], plan: Plan = PLAN) -> RunResult:
    ended = Ended("natural", "", 9.0, exit_code=0)
    return judge(plan, Started(7, "", 0.0), ended, observe(EVENTS), (), checks=checks)


def with_finding(name: str, code: str, severity: str) -> Tuple[CheckReport, ...]:
    found = Finding(code, "eval_mode", severity, "legal is 0.5.")
    return tuple(
        replace(report, findings=(found,)) if report.name == name else report for report in CLEAN
    )


def required(result: RunResult) -> List[str]:
    return [entry.code for entry in result.not_judged if entry.required]


def test_clean_checks_pass_and_lend_their_facts_to_the_result() -> None:
    result = judged(CLEAN)
    assert (result.exit_code, required(result)) == (0, [])
    assert result.best == {"metric": "eval_loss", "value": 0.1, "step": 5, "path": "/w/out/c-5",
                           "sha256": "cd" * 32}  # fmt: skip
    assert result.heldout["cases"] == 3
    assert result.lock_sha256 == "ab" * 32
    assert result.hypothesis == "not disproved"
    told = "A run of 5 optimizer steps and 3 held-out cases did not disprove this setup."
    assert result.conclusion == told


def test_an_error_of_a_check_fails_the_run_and_a_missed_threshold_the_hypothesis() -> None:
    wrong_best = judged(with_finding("best_checkpoint", "best_checkpoint.not_best", "error"))
    assert (wrong_best.exit_code, wrong_best.hypothesis) == (1, "not disproved")
    missed = judged(with_finding("heldout", HELDOUT_GATE, "error"))
    assert (missed.exit_code, missed.hypothesis) == (1, "disproved")
    warned = judged(with_finding("heldout", "eval_mode.heldout_seen_before", "warning"))
    assert (warned.exit_code, warned.hypothesis) == (0, "not disproved")


def test_a_check_that_is_missing_or_could_not_look_is_no_pass() -> None:
    without = judged(CLEAN[:3])  # the trial has held-out cases: nobody needs to require them
    assert (without.exit_code, required(without)) == (3, ["heldout"])
    drift = CheckReport("inputs", not_judged=(NotJudged("inputs", "inputs", "drifted", True),))
    drifted = judged((drift, *CLEAN[1:]))
    assert (drifted.exit_code, required(drifted)) == (3, ["inputs"])
    # Not required by the check itself, but asked for by the trial.
    unknown = CheckReport("inputs", not_judged=(NotJudged("inputs.x", "inputs", "unreadable"),))
    assert required(judged((unknown, *CLEAN[1:]))) == ["inputs.x"]
    # Not asked for: told, and no more than that.
    scan = CheckReport("checkpoint", not_judged=(NotJudged("checkpoint", "checkpoint", "big"),))
    assert judged((CLEAN[0], scan, *CLEAN[2:])).exit_code == 0


def test_a_disabled_check_is_said_to_be() -> None:
    trial = trial_to_json(replace(TRIAL, disable=("heldout",)))
    result = judged(CLEAN[:3], replace(PLAN, trial=trial))
    assert result.exit_code == 0
    assert "the trial disables it" in [e.reason for e in result.not_judged if e.code == "heldout"]


def test_an_interrupted_check_is_an_interrupted_run() -> None:
    stopped = CheckReport(
        "heldout",
        not_judged=(NotJudged("heldout", "eval_mode", "stopped after 2 of 3 cases", True),),
        facts={"interrupted": True},
    )
    assert judged((*CLEAN[:3], stopped)).exit_code == 130


def test_what_was_not_tested_follows_the_checks() -> None:
    observation = observe(EVENTS)
    before = " ".join(not_tested(PLAN, observation, judged(())))
    after = " ".join(not_tested(PLAN, observation, judged(CLEAN), CLEAN))
    assert "held-out cases were not tested" in before
    assert "Other cases than the 3 held-out ones" in after
    assert "held-out cases were not tested" not in after


def test_a_report_and_a_trial_survive_json() -> None:
    report = CheckReport(
        "heldout",
        (Finding("a.b", "inputs", "note", "m", Place("f", 3), Evidence(1, 2), "r"),),
        (NotJudged("c", "inputs", "why", True),),
        {"n": [1, {"x": None}]},
        1.5,
    )
    again: Any = strict_json.loads(strict_json.dumps(report.to_json()))
    assert CheckReport.from_json(again) == report
    plan = Plan.from_json(strict_json.loads(strict_json.dumps(PLAN.to_json())))
    back = trial_of_plan(plan)
    assert back == replace(TRIAL, runner=replace(TRIAL.runner, env={"A": ""}))
