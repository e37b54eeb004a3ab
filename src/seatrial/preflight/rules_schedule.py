"""Rules on bounds and cadence: how far the run goes, and what happens within these steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from seatrial.core.units import format_duration
from seatrial.preflight.rule import AD_HOC, SEEN, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.settings import Settings, settings_of, trainers_of


def _cap(subject: Subject) -> int | None:
    return subject.trial.bounds.max_steps if subject.trial is not None else None


def _all(subject: Subject) -> tuple[Settings, ...]:
    return settings_of(subject.script) if subject.script is not None else ()


def _reachable(settings: Settings, subject: Subject) -> tuple[float | None, str]:
    """The most steps that the run can make, with where that comes from; None: not known."""
    planned, cap = settings.planned_steps, _cap(subject)
    if planned.found and (cap is None or planned.value <= cap):
        return float(planned.value), f"max_steps={planned.value}"
    if cap is not None:
        return float(cap), f"the step cap of {cap}"
    return None, ""


@rule(
    "bounds.step_cap",
    severity="note",
    ad_hoc="note",
    title="the script plans more steps than the run has",
    detects="launch",
)
def step_cap(subject: Subject) -> Iterator[Answer]:
    """The script trains for epochs, or for more steps than the bound allows.

    Why it costs: little: the cap stops training and the outcome is `capped`. But schedules (warmup,
    decay) are those of the longer run, and what comes at its end is not seen.

    What it cannot see: how many steps the epochs are; loops without a Trainer.

    Remedy: give the script the number of steps of the trial, or raise `max_steps` of the bounds.

    Example: `num_train_epochs=3` under `max_steps = 200`.
    """
    cap = _cap(subject)
    for settings in _all(subject):
        planned = settings.planned_steps
        if planned.unknown:
            yield Open(settings.unsure("max_steps is computed"))
        elif planned.absent:
            stops = f"; the bound stops it at {cap} steps" if cap else "; nothing caps its steps"
            yield Hit(
                f"the script trains for epochs (max_steps is not set){stops}",
                line=settings.line,
                observed=settings.get("num_train_epochs").value,
                expected=cap,
                remedy=f"max_steps={cap}" if cap else "max_steps=..., for a smoke",
            )
        elif cap is not None and planned.value > cap:
            yield Hit(
                f"the script plans {planned.value} steps and the bound stops it at {cap}",
                line=planned.line or settings.line,
                observed=planned.value,
                expected=cap,
                remedy=f"plan {cap} steps, or raise the bound",
            )
        else:
            yield SEEN


@rule(
    "bounds.time_cap",
    severity="error",
    ad_hoc="warning",
    title="nothing caps the time of the run",
    detects="launch",
    needs_script=False,
)
def time_cap(subject: Subject) -> Iterator[Answer]:
    """A run without a deadline is paid until somebody looks.

    Why it costs: a hang costs as much as training.

    What it cannot see: deadlines of a machine or queue.

    Remedy: `wall = "10m"` under `[bounds]`.

    Example: a bound of infinite seconds.
    """
    if subject.trial is None:
        return
    wall = subject.trial.bounds.wall_s
    if math.isfinite(wall) and wall > 0:
        yield SEEN
    else:
        yield Hit(
            f"the run has no time cap (wall is {wall:g} s)",
            observed=str(wall),
            expected=format_duration(600),
            remedy='wall = "10m" under [bounds]',
        )


@rule(
    "eval_mode.no_evaluation",
    severity="warning",
    ad_hoc="note",
    title="nothing is evaluated while training",
)
def no_evaluation(subject: Subject) -> Iterator[Answer]:
    """The Trainer has no evaluation strategy, or no evaluation set.

    Why it costs: there is no best checkpoint and no sign of overfitting: only the training loss.

    What it cannot see: evaluations that a loop of the script makes itself.

    Remedy: `eval_strategy="steps"`, `eval_steps=...` and an `eval_dataset`.

    Example: `TrainingArguments(output_dir="out", max_steps=100)`
    """
    script = subject.script
    if script is None:
        return
    own = any(call.dotted.endswith("Trainer().evaluate") for call in script.calls)
    trained = [call.line for call in script.calls if call.dotted.endswith("Trainer().train")]
    for trainer in trainers_of(script):
        if trained and trainer.call.line > max(trained):
            continue  # made behind the training: it only evaluates
        settings = trainer.settings
        if settings is None:
            yield Open(f"line {trainer.call.line}: the configuration cannot be followed")
            continue
        strategy, rows = settings.eval_strategy, trainer.call.argument("eval_dataset")
        if strategy.unknown:
            yield Open(settings.unsure("the evaluation strategy is computed"))
        elif strategy.is_("no"):
            yield Hit(
                "the Trainer never evaluates while it trains (eval_strategy is 'no')"
                + (", the script does so itself" if own else ""),
                line=settings.line,
                observed="no",
                remedy='eval_strategy="steps", with eval_steps',
                severity="note" if own else "",
            )
        elif rows.absent or rows.is_(None):
            yield Hit(
                f"eval_strategy is {strategy.value!r} and the Trainer has no eval_dataset",
                line=trainer.call.line,
                remedy="eval_dataset=...",
            )
        else:
            yield SEEN


@rule(
    "eval_mode.never_within_steps",
    severity="warning",
    ad_hoc="note",
    title="the run ends before its first evaluation",
    detects="launch",
)
def never_within_steps(subject: Subject) -> Iterator[Answer]:
    """`eval_steps` is larger than the steps that are made.

    Why it costs: no evaluation at the intended cadence, so no best checkpoint. At most the library
    forces one at the planned end.

    What it cannot see: how many steps an epoch has; values that are computed.

    Remedy: a cadence that fits at least two evaluations into the run.

    Example: `max_steps=100, eval_steps=500`
    """
    for settings in _all(subject):
        strategy = settings.eval_strategy
        if strategy.is_("no"):
            continue
        every = settings.eval_steps.number
        delay = settings.get("eval_delay").number
        if every and delay and strategy.is_("steps"):
            every *= math.ceil(delay / every)  # evaluations before the delay are left out
        steps, why = _reachable(settings, subject)
        if strategy.unknown or (strategy.is_("steps") and every is None):
            yield Open(settings.unsure("the cadence of evaluation is computed"))
        elif strategy.is_("epoch"):
            yield Open(settings.unsure("how many steps an epoch has is not in the script"))
        elif steps is None or every is None:
            if settings.planned_steps.unknown:
                yield Open(settings.unsure("max_steps is computed"))
            else:
                yield SEEN
        elif every > steps:
            yield Hit(
                f"the first evaluation is at step {every:g}, and the run ends at {why}",
                line=settings.get("eval_steps").line or settings.line,
                observed=every,
                expected=steps,
                remedy=f"eval_steps={max(1, int(steps // 4))}",
            )
        else:
            yield SEEN


@rule(
    "checkpoint.never_within_steps",
    severity="warning",
    ad_hoc="note",
    title="the run ends before its first checkpoint",
    detects="launch",
)
def checkpoint_never(subject: Subject) -> Iterator[Answer]:
    """`save_steps` is larger than the steps that are made.

    Why it costs: there is no checkpoint to judge, unless the library forces one at the planned end
    or the script saves its model itself.

    What it cannot see: how many steps an epoch has; values that are computed.

    Remedy: a cadence that fits the run.

    Example: `max_steps=100` with the default of saving every 500 steps.
    """
    for settings in _all(subject):
        strategy = settings.save_strategy
        if strategy.is_("no", "best"):
            continue
        saved = settings.steps("save_steps", 500).number
        steps, why = _reachable(settings, subject)
        if strategy.unknown or (strategy.is_("steps") and saved is None):
            yield Open(settings.unsure("the cadence of saving is computed"))
        elif strategy.is_("epoch"):
            yield Open(settings.unsure("how many steps an epoch has is not in the script"))
        elif steps is None or saved is None or saved <= steps:
            yield SEEN
        else:
            own = any(
                call.name in ("save_model", "save_pretrained") for call in settings.script.calls
            )
            yield Hit(
                f"a checkpoint every {saved:g} steps, and the run ends at {why}",
                line=settings.get("save_steps").line or settings.line,
                observed=saved,
                expected=steps,
                remedy=f"save_steps={max(1, int(steps // 4))}",
                severity="note" if own or subject.mode == AD_HOC else "",
            )


RULES: tuple[Rule, ...] = (
    step_cap,
    time_cap,
    no_evaluation,
    never_within_steps,
    checkpoint_never,
)
