"""What could not be judged. It never counts as passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, Mapping, Tuple

from seatrial.core.finding import FAMILIES, NO_SUCH_CHECK, NotJudged
from seatrial.core.gates.project import metric_names
from seatrial.core.judgement.case import Case
from seatrial.core.trial import GateSpec

STEPS = "probe.steps"
# Checks that a trial may require, with their family and what it means that none was made.
_CHECKS: Mapping[str, Tuple[str, str]] = {
    "checkpoint": ("checkpoint", "the saved checkpoints were not looked at"),
    "best_checkpoint": ("best_checkpoint", "which checkpoint is best was not recomputed"),
    "resume": ("resume", f"{NO_SUCH_CHECK}: no check interrupts and resumes the run"),
    "heldout": ("eval_mode", "no held-out cases were evaluated"),
    "shadow": ("gradients", f"{NO_SUCH_CHECK}: no step is recomputed by a plain loop"),
    "inputs": ("inputs", "no lock says what the inputs should be"),
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
    made = {report.name: report for report in case.checks}
    for name, (family, reason) in _CHECKS.items():
        required = name in asked or (name == "heldout" and case.has_heldout)
        if name in case.disable:
            yield NotJudged(name, family, "the trial disables it", False)
        elif name not in made:
            yield NotJudged(name, family, reason, required)
    for report in case.checks:
        required = report.name in asked
        for entry in report.not_judged:
            yield replace(entry, required=entry.required or required)
    for name in sorted(asked - set(_CHECKS)):
        if name != STEPS and not name.startswith("gate."):
            head = name.partition(".")[0]
            family = head if head in FAMILIES else "environment"
            yield NotJudged(name, family, "this version has no check of this name", required=True)
