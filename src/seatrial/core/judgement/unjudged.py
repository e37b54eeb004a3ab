"""What could not be judged. It never counts as passed."""

from __future__ import annotations

from typing import Iterator, Mapping, Tuple

from seatrial.core.finding import FAMILIES, NO_SUCH_CHECK, NotJudged
from seatrial.core.gates.project import metric_names
from seatrial.core.judgement.case import Case
from seatrial.core.trial import GateSpec

STEPS = "probe.steps"
# Checks that a trial may require and that this version does not make, with their family.
_CHECKS: Mapping[str, Tuple[str, str]] = {
    "checkpoint": ("checkpoint", "no check reloads a checkpoint in a fresh process"),
    "best_checkpoint": ("best_checkpoint", "no check recomputes which checkpoint is best"),
    "resume": ("resume", "no check interrupts and resumes the run"),
    "heldout": ("eval_mode", "no held-out cases are evaluated"),
    "shadow": ("gradients", "no step is recomputed by a plain loop"),
    "inputs": ("inputs", "inputs are not frozen to content hashes"),
}
_ALIASES = {
    "freeze": "inputs",
    "lock": "inputs",
    "held-out": "heldout",
    "held_out": "heldout",
    "shadow_step": "shadow",
    "reload": "checkpoint",
}


def not_judged(case: Case, outcome: str, environment_fault: bool) -> Tuple[NotJudged, ...]:
    """Everything that this run leaves open, what was required first.

    Args:
        case: the run.
        outcome: as judged.
        environment_fault: nothing ran for a reason outside the script.
    """
    entries = [
        *_steps(case, outcome, environment_fault),
        *_project_gates(case),
        *_checks(case),
    ]
    return tuple(sorted(entries, key=lambda entry: not entry.required))


def _steps(case: Case, outcome: str, environment_fault: bool) -> Iterator[NotJudged]:
    if outcome == "lost":
        yield NotJudged("run.end", "environment", "the end of the run was not recorded", True)
    if environment_fault:
        yield NotJudged("run.start", "environment", "the training never started", True)
    if case.steps == 0:
        yield NotJudged(STEPS, "environment", _why_unseen(case), required=True)


def _why_unseen(case: Case) -> str:
    if not case.attached:
        return "the probe never attached to a training process" + (
            f": {case.attach_reason}" if case.attach_reason else ""
        )
    reason = "the probe attached but saw no optimizer step"
    errors = case.observation.probe_errors
    return f"{reason}; it had a fault of its own: {errors[0].error}" if errors else reason


def _project_gates(case: Case) -> Iterator[NotJudged]:
    for spec in case.settings.project:
        seen = _points_seen(case, spec)
        if seen >= spec.window:
            continue
        reason = (
            f"{spec.metric} was never emitted from step {spec.from_step} on ({_seen(case)}); a"
            f' script emits it with seatrial.emit.emit({{"{spec.metric}": value}})'
            if not seen
            else f"{spec.metric} was emitted {seen} times; the window needs {spec.window}"
        )
        yield NotJudged(f"gate.project:{spec.metric}", "bounds", reason, required=True)


def _seen(case: Case) -> str:
    """The metrics that a gate could have been about, for the person who mistyped one."""
    names = sorted({name for item in case.observation.evaluations for name in item.metrics})
    return "metrics seen: " + (", ".join(names[:12]) if names else "none but those of the steps")


def _points_seen(case: Case, spec: GateSpec) -> int:
    """How many values of the metric were seen from ``from_step`` on, of one rank."""
    for name in metric_names(spec.metric):
        curve = case.observation.curve(name)
        if curve is not None:
            return sum(1 for x, _y in curve.points if x >= spec.from_step)
    return 0


def _checks(case: Case) -> Iterator[NotJudged]:
    asked = {_ALIASES.get(name, name) for name in case.require}
    for name, (family, reason) in _CHECKS.items():
        yield NotJudged(name, family, f"{NO_SUCH_CHECK}: {reason}", name in asked)
    for name in sorted(asked - set(_CHECKS)):
        if name != STEPS and not name.startswith("gate."):
            head = name.partition(".")[0]
            family = head if head in FAMILIES else "environment"
            yield NotJudged(name, family, "this version has no check of this name", required=True)
