"""Runs in which nothing was learnt: planted, with healthy twins that stay silent."""

from __future__ import annotations

from typing import Any, List, Tuple

from seatrial.core.event import Event
from seatrial.core.judgement.learning import findings_of_learning
from seatrial.core.observation import observe


def run(steps: int, **data: Any) -> Tuple[Any, ...]:
    """Findings of a run whose steps all carry the same data (a list gives one value a step)."""
    events: List[Event] = []
    for number in range(1, steps + 1):
        values = {"loss_raw": 2.0 / number, "lr": [0.1], "grad_norm": 1.0, "segment": 1}
        for name, value in data.items():
            values[name] = value[number - 1] if isinstance(value, tuple) else value
        events.append(Event(number, "", float(number), 1, 0, "step", {"step": number, **values}))
    return findings_of_learning(observe(events))


def codes(found: Tuple[Any, ...]) -> List[Tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in found]


def test_a_healthy_run_and_one_that_says_little_have_no_findings() -> None:
    assert run(50) == ()
    assert run(50, tokens=100, supervised_tokens=7) == ()
    assert run(50, supervised_tokens=None, tokens=None) == ()


def test_an_optimizer_without_any_gradient_is_an_error() -> None:
    assert codes(run(5, grad_norm=None)) == [("optimizer.no_gradient", "error")]
    assert run(4, grad_norm=None) == ()
    # One gradient anywhere, a step without a backward pass: no proof of anything.
    assert run(6, grad_norm=(None, None, None, None, None, 0.5)) == ()
    assert run(9, grad_norm=None, loss_raw=None) == ()


def test_a_partitioned_optimizer_and_a_blind_probe_are_not_accused() -> None:
    step = {"step": 1, "segment": 1, "loss_raw": 1.0, "lr": [0.1], "grad_norm": None}
    steps = [Event(n, "", float(n), 1, 0, "step", {**step, "step": n}) for n in range(1, 9)]
    zero = Event(90, "", 9.0, 1, 0, "model", {"zero_stage": 2})
    blind = Event(91, "", 9.0, 1, 0, "probe.error", {"where": "step.values", "error": "x"})
    assert codes(findings_of_learning(observe(steps))) == [("optimizer.no_gradient", "error")]
    assert findings_of_learning(observe([*steps, zero])) == ()
    assert findings_of_learning(observe([*steps, blind])) == ()


def test_a_learning_rate_of_zero_from_first_to_last_step() -> None:
    assert codes(run(20, lr=[0.0])) == [("schedule.no_learning_rate", "error")]
    assert codes(run(6, lr=[0.0, 0.0])) == [("schedule.no_learning_rate", "warning")]
    assert run(20, lr=[0.0, 0.1]) == ()
    assert run(20, lr=tuple([0.0] if n < 19 else [1e-9] for n in range(20))) == ()
    assert run(4, lr=[0.0]) == ()
    assert run(20, lr=[]) == ()


def test_labels_that_are_all_masked() -> None:
    nan = "nan"
    (proven,) = run(5, tokens=10, supervised_tokens=0, loss_raw=nan)
    assert (proven.code, proven.severity) == ("labels.no_supervised_tokens", "error")
    assert "gate.non_finite_loss" in proven.symptoms
    assert codes(run(5, supervised_tokens=0, loss_raw=0.0)) == [
        ("labels.no_supervised_tokens", "error")
    ]
    # Another loss may train on: that is for a person to say.
    assert codes(run(5, tokens=10, supervised_tokens=0)) == [
        ("labels.no_supervised_tokens", "warning")
    ]
    assert run(5, tokens=10, supervised_tokens=(0, 0, 0, 0, 1), loss_raw=nan) == ()
