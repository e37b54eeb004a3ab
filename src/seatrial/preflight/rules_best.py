"""Rules on the best checkpoint: the metric is there, its direction is right, the best is saved."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.preflight.metric_names import bare, emitted, library_default, lower_is_better
from seatrial.preflight.rule import SEEN, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.settings import Settings, TrainerCall, settings_of, trainers_of
from seatrial.preflight.values import Value


def _metric(settings: Settings) -> Value:
    """``metric_for_best_model`` as the library completes it."""
    found = settings.get("metric_for_best_model")
    if (found.absent or found.is_(None)) and settings.keeps_best.is_(True):
        return Value("found", "loss", settings.line)
    return Value("not_found") if found.is_(None) else found


def _sites(subject: Subject) -> Iterator[tuple[TrainerCall, Settings]]:
    if subject.script is not None:
        for trainer in trainers_of(subject.script):
            if trainer.settings is not None:
                yield trainer, trainer.settings


def _configurations(subject: Subject) -> tuple[Settings, ...]:
    return settings_of(subject.script) if subject.script is not None else ()


@rule(
    "best_checkpoint.metric_not_emitted",
    severity="error",
    ad_hoc="warning",
    title="metric_for_best_model is no metric that the evaluation emits",
)
def metric_not_emitted(subject: Subject) -> Iterator[Answer]:
    """The name is compared with what the Trainer emits and with the keys of `compute_metrics`.

    Why it costs: the first evaluation ends the run with a KeyError, after training was paid. With
    several evaluation sets every name carries the name of its set.

    What it cannot see: keys that are computed, trainers and callbacks of the script's own, and
    whether a model returns a loss at all.

    Remedy: a name that is emitted: `eval_loss`, or a key that `compute_metrics` returns.

    Example: `metric_for_best_model="accuracy"` without `compute_metrics`.
    """
    for trainer, settings in _sites(subject):
        metric = _metric(settings)
        evaluates = settings.eval_strategy
        if metric.absent or evaluates.is_("no"):
            continue
        name = metric.text
        names = emitted(trainer, settings)
        if name is None:
            yield Open(settings.unsure("metric_for_best_model is computed"))
        elif isinstance(names, str):
            yield Open(settings.unsure(f"whether {name!r} is emitted is unknown: {names}"))
        elif bare(name) in names:
            yield SEEN
        else:
            shown = sorted(f"eval_{known}" for known in names)
            yield Hit(
                f"metric_for_best_model={name!r} is not emitted: the first evaluation ends with "
                "a KeyError",
                line=metric.line or settings.line,
                observed=name,
                expected=shown[:30],
                remedy="name a key that compute_metrics returns, or eval_loss",
            )


@rule(
    "best_checkpoint.direction_wrong",
    severity="error",
    ad_hoc="warning",
    title="the best checkpoint is chosen the wrong way round",
)
def direction_wrong(subject: Subject) -> Iterator[Answer]:
    """`greater_is_better`, given or by default, does not fit the metric.

    Why it costs: the worst checkpoint is kept and loaded. The default is True for every name that
    does not end in `loss`, also for perplexity, wer, cer, rmse, mae and other errors.

    What it cannot see: which way a metric of an unusual name is better; then it says nothing is
    known.

    Remedy: `greater_is_better=False` for errors and losses, True for accuracies.

    Example: `metric_for_best_model="wer"` with no `greater_is_better`.
    """
    for settings in _configurations(subject):
        metric = _metric(settings)
        if metric.absent:
            continue
        name, given = metric.text, settings.get("greater_is_better")
        if name is None or given.unknown:
            yield Open(settings.unsure("the metric or greater_is_better is computed"))
            continue
        lower = lower_is_better(name)
        if lower is None:
            yield Open(settings.unsure(f"the name {name!r} does not say which way is better"))
            continue
        default = given.absent or given.is_(None)
        greater = library_default(name) if default else bool(given.value)
        if greater is not lower:
            yield SEEN
            continue
        how = "by default" if default else "as given"
        yield Hit(
            f"{name!r} is better when it is {'lower' if lower else 'higher'}, and "
            f"greater_is_better is {greater} {how}: the worst checkpoint would be kept",
            line=given.line or metric.line or settings.line,
            observed=greater,
            expected=not greater,
            remedy=f"greater_is_better={not greater}",
        )


@rule(
    "best_checkpoint.strategies_refused",
    severity="error",
    ad_hoc="warning",
    title="load_best_model_at_end with saving and evaluation that do not go together",
)
def strategies_refused(subject: Subject) -> Iterator[Answer]:
    """The library refuses to load the best when saving and evaluation differ in strategy.

    With steps, `save_steps` must be a multiple of `eval_steps`.

    Why it costs: a ValueError when the configuration is made, on the paid machine.

    What it cannot see: values that are computed.

    Remedy: the same strategy, and equal steps.

    Example: `load_best_model_at_end=True, eval_strategy="epoch"` with the default of saving, steps.
    """
    for settings in _configurations(subject):
        best, evaluation, saving = (
            settings.keeps_best,
            settings.eval_strategy,
            settings.save_strategy,
        )
        if best.is_(False) or saving.is_("best"):
            continue
        if best.unknown or evaluation.unknown or saving.unknown:
            yield Open(settings.unsure("strategies or load_best_model_at_end are computed"))
        elif evaluation.value != saving.value:
            yield Hit(
                f"load_best_model_at_end with evaluation by {evaluation.value!r} and saving by "
                f"{saving.value!r}: the library refuses that with a ValueError",
                line=settings.line,
                observed=[evaluation.value, saving.value],
                remedy=f'save_strategy="{evaluation.value}"'
                if evaluation.value != "no"
                else 'eval_strategy="steps", with eval_steps equal to save_steps',
            )
        elif evaluation.is_("steps"):
            yield from _multiple(settings)
        else:
            yield SEEN


def _is_share(number: float | None) -> bool:
    return number is not None and 0 < number < 1


def _multiple(settings: Settings) -> Iterator[Answer]:
    every, saved = settings.eval_steps.number, settings.steps("save_steps", 500).number
    shares = [_is_share(settings.get(name).number) for name in ("eval_steps", "save_steps")]
    if shares[0] != shares[1] and settings.get("eval_steps").number is not None:
        yield Hit(
            "eval_steps and save_steps are a share of the run and a number of steps: with "
            "load_best_model_at_end the library refuses that with a ValueError",
            line=settings.line,
            observed=settings.get("save_steps").value,
            expected=settings.get("eval_steps").value,
            remedy="give both the same form",
        )
    elif every is None or saved is None or every <= 0:
        yield Open(settings.unsure("eval_steps or save_steps are computed"))
    elif saved % every:
        yield Hit(
            f"save_steps={saved:g} is no multiple of eval_steps={every:g}: with "
            "load_best_model_at_end the library refuses that with a ValueError",
            line=settings.line,
            observed=saved,
            expected=every,
            remedy=f"save_steps={every:g}",
        )
    else:
        yield SEEN


@rule(
    "best_checkpoint.save_misses_evaluation",
    severity="warning",
    ad_hoc="warning",
    title="not every evaluated step is saved, so the best may be a step that is on no disk",
)
def save_misses_evaluation(subject: Subject) -> Iterator[Answer]:
    """`save_steps` is larger than `eval_steps` while a best is recorded.

    Why it costs: `best_metric` moves on at a step that is not saved, and `best_model_checkpoint`
    stays on an older, worse folder, or on none; that one is loaded, without a warning.

    What it cannot see: values that are computed.

    Remedy: equal steps, or `save_strategy="best"`.

    Example: `eval_steps=10, save_steps=20, load_best_model_at_end=True`
    """
    for settings in _configurations(subject):
        if _metric(settings).absent:
            continue
        evaluation, saving = settings.eval_strategy, settings.save_strategy
        if evaluation.unknown or saving.unknown:
            yield Open(settings.unsure("the strategy of saving or evaluation is computed"))
            continue
        if not (evaluation.is_("steps") and saving.is_("steps")):
            if not evaluation.is_("no"):
                yield SEEN
            continue
        every, saved = settings.eval_steps.number, settings.steps("save_steps", 500).number
        if every is None or saved is None:
            yield Open(settings.unsure("eval_steps or save_steps are computed"))
        elif saved != every and not (saved < every and every % saved == 0):
            yield Hit(
                f"evaluation every {every:g} steps and saving every {saved:g}: the recorded best "
                "may be a step that was not saved",
                line=settings.line,
                observed=saved,
                expected=every,
                remedy=f'save_steps={every:g}, or save_strategy="best"',
            )
        else:
            yield SEEN


@rule(
    "best_checkpoint.limit_drops_best",
    severity="note",
    ad_hoc="note",
    title="old checkpoints are deleted and no best is recorded",
)
def limit_drops_best(subject: Subject) -> Iterator[Answer]:
    """`save_total_limit` keeps the newest ones; without a recorded best that may delete it.

    Why it costs: the checkpoint with the best evaluation is gone when it is asked for.

    What it cannot see: copies that the script makes.

    Remedy: `load_best_model_at_end=True` or `metric_for_best_model`, then the best is kept.

    Example: `save_total_limit=1, eval_strategy="steps"` and nothing about the best.
    """
    for settings in _configurations(subject):
        limit = settings.get("save_total_limit")
        if limit.absent or limit.is_(None) or settings.eval_strategy.is_("no"):
            continue
        metric = _metric(settings)
        if limit.unknown or metric.unknown or settings.keeps_best.unknown:
            yield Open(settings.unsure("save_total_limit or the metric is computed"))
        elif metric.absent and not settings.save_strategy.is_("best", "no"):
            yield Hit(
                f"save_total_limit={limit.value} deletes older checkpoints, and none is recorded "
                "as best",
                line=limit.line or settings.line,
                observed=limit.value,
                remedy="load_best_model_at_end=True, or metric_for_best_model",
            )
        else:
            yield SEEN


RULES: tuple[Rule, ...] = (
    metric_not_emitted,
    direction_wrong,
    strategies_refused,
    save_misses_evaluation,
    limit_drops_best,
)
