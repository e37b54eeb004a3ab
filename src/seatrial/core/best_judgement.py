"""Whether the checkpoint that was recorded as the best one is the best one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import FrozenSet, Iterator, List, Mapping, Optional, Tuple

from seatrial.core.best import (
    History,
    Recorded,
    Wish,
    better,
    known_direction,
    same,
    true_best,
)
from seatrial.core.finding import Evidence, Finding, Place

FAMILY = "best_checkpoint"


@dataclass(frozen=True)
class BestCase:
    """Everything that the question needs.

    Attributes:
        history: the metric's evaluations.
        greater: direction in force (see ``core.best.direction_of``); None when unknown.
        wish: as the training was configured.
        recorded: as the trainer recorded it; ``path`` is absolute.
        saved: step to folder, of the complete checkpoints that are there now.
        ever_saved: steps that a checkpoint was saved at, also those rotated away since.
        gone: the recorded path does not exist.
        stale: folders of ``saved`` that are older than this run and not what it resumed from.
        resumed_at: step that the run resumed at; None when it began anew.
        ad_hoc: there is no trial file, so that what is merely absent is a note.
    """

    history: History
    greater: Optional[bool]
    wish: Wish
    recorded: Recorded
    saved: Mapping[int, str] = field(default_factory=dict)
    ever_saved: FrozenSet[int] = field(default_factory=frozenset)
    gone: bool = False
    stale: FrozenSet[str] = field(default_factory=frozenset)
    resumed_at: Optional[int] = None
    ad_hoc: bool = True

    @property
    def absence(self) -> str:
        """Severity of what is merely not there."""
        return "note" if self.ad_hoc else "warning"

    @property
    def best(self) -> Optional[Tuple[int, float]]:
        """The best of all evaluated steps."""
        return None if self.greater is None else true_best(self.history.points, self.greater)

    @property
    def best_saved(self) -> Optional[Tuple[int, float]]:
        """The best of the evaluated steps whose checkpoint is there now."""
        if self.greater is None:
            return None
        points = [point for point in self.history.points if point[0] in self.saved]
        return true_best(points, self.greater)

    def told(self, point: Optional[Tuple[int, float]]) -> str:
        """A point in words."""
        return "none" if point is None else f"step {point[0]} ({self.history.metric} {point[1]:g})"


def judge_best(case: BestCase) -> Tuple[Finding, ...]:
    """Every way in which the recorded best is not the true one; empty for a sound run."""
    points = case.history.points
    found: List[Finding] = []
    found += _direction(case)
    if not points:
        return (*found, *_no_evaluation(case))
    if not case.history.finite:
        return (*found, _all_nan(case))
    found += _some_nan(case)
    if case.best is not None:
        found += _recorded(case, case.best)
    return tuple(found)


def _finding(
    code: str,
    severity: str,
    message: str,
    remedy: str,
    *,
    step: Optional[int] = None,
    file: Optional[str] = None,
    observed: object = None,
    expected: object = None,
) -> Finding:
    return Finding(
        f"best_checkpoint.{code}",
        FAMILY,
        severity,
        message,
        Place(file=file, step=step),
        Evidence(observed, expected, None),
        remedy,
        "proven",
    )


def _direction(case: BestCase) -> Iterator[Finding]:
    known, metric = known_direction(case.history.metric), case.history.metric
    if case.greater is None or known is None or case.greater == known:
        return
    if not (case.wish.asked or case.recorded.value is not None):
        return
    word = "lower" if not known else "greater"
    yield _finding(
        "wrong_direction",
        "error",
        f"of {metric}, {word} is better, and this run keeps the "
        f"{'highest' if case.greater else 'lowest'}: it keeps the worst checkpoint"
        + (f", {case.told(case.best)}" if case.best is not None else ""),
        f"set greater_is_better={known} beside metric_for_best_model={metric!r}; unset, it is True "
        "for every name that does not end in 'loss'",
        step=case.best[0] if case.best is not None else None,
        observed=f"greater_is_better={case.greater}",
        expected=f"greater_is_better={known}",
    )


def _no_evaluation(case: BestCase) -> Iterator[Finding]:
    if case.recorded.path is not None or not case.wish.load_best:
        return
    yield _finding(
        "no_evaluation",
        case.absence,
        f"the best by {case.history.metric} was to be loaded at the end, and the run made no "
        "evaluation: what it holds at its end are its last weights",
        "let eval_steps and save_steps fit into the steps of the run",
    )


def _all_nan(case: BestCase) -> Finding:
    steps = [step for step, _value in case.history.points]
    return _finding(
        "all_nan",
        "error" if case.wish.asked else "warning",
        f"{case.history.metric} is nan at every evaluation (steps "
        f"{', '.join(map(str, steps[:8]))}): no checkpoint can be the best, and none was recorded",
        "find the first non-finite loss; a comparison with nan is never true, so the Trainer keeps "
        "its last weights without a word",
        step=steps[0],
        observed="nan",
    )


def _some_nan(case: BestCase) -> Iterator[Finding]:
    broken = [step for step, value in case.history.points if math.isnan(value)]
    if broken:
        yield _finding(
            "nan_evaluation",
            "warning",
            f"{case.history.metric} is nan at step {broken[0]}"
            + (f" and {len(broken) - 1} more evaluations" if len(broken) > 1 else "")
            + "; the best is chosen among the others",
            "look at the data and the weights of that step",
            step=broken[0],
            observed="nan",
        )


def _recorded(case: BestCase, best: Tuple[int, float]) -> Iterator[Finding]:
    recorded = case.recorded
    value = recorded.value
    if recorded.path in case.stale and not _was_resumed_from(case, recorded.path_step):
        yield _finding(
            "stale",
            "error",
            f"the recorded best {recorded.path} is older than this run: it is of an earlier one",
            "use an empty output folder for each run",
            step=recorded.path_step,
            file=recorded.path,
        )
        return
    if value is None and recorded.path is None:
        yield from _nothing_recorded(case, best)
        return
    if value is not None and math.isfinite(value):
        if _is_old_best(case, best):
            yield from _old_best(case, best)
            return
        wrong = _wrong_fields(case, best)
        if wrong is not None:
            yield wrong
            return
    elif value is not None:
        yield _finding(
            "not_best",
            "error",
            f"the recorded best value is {value}, although {case.told(best)} is the best "
            "evaluation",
            _REMEDY_FIELDS,
            step=best[0],
            observed=str(value),
            expected=best[1],
        )
        return
    yield from _path(case, best)


_REMEDY_FIELDS = (
    "take the checkpoint of the step named here; do not select by the fields of trainer_state.json"
)
_REMEDY_CADENCE = (
    "set save_steps equal to eval_steps (or save_strategy='best'), so that every evaluated step "
    "has a checkpoint"
)


def _is_old_best(case: BestCase, best: Tuple[int, float]) -> bool:
    """Whether the recorded value is from before this run and beats all that this run evaluated."""
    recorded = case.recorded
    if recorded.value is None or recorded.step is None:
        return False
    seen = case.history.value_at(recorded.step)
    unseen = seen is None and better(recorded.value, best[1], bool(case.greater))
    earlier = case.resumed_at is not None and recorded.step <= case.resumed_at
    return unseen or (earlier and seen is not None and recorded.path is None)


def _old_best(case: BestCase, best: Tuple[int, float]) -> Iterator[Finding]:
    recorded = case.recorded
    there = recorded.step in case.saved or (recorded.path is not None and not case.gone)
    if there:
        return
    after = [p for p in case.history.points if p[0] > (case.resumed_at or 0)]
    now = true_best([p for p in after if p[0] in case.ever_saved], bool(case.greater))
    yield _finding(
        "old_best",
        "error" if case.wish.asked else "warning",
        f"the recorded best is {case.history.metric} {recorded.value:g} of step {recorded.step}, "
        "from before this run, and its checkpoint is gone; nothing that this run evaluated beats "
        f"it, so it has no best at all; its own best saved is {case.told(now or best)}",
        "resume from a folder that still holds the old best, or begin anew so that best_metric "
        "starts empty",
        step=recorded.step,
        observed=recorded.step,
        expected=(now or best)[0],
    )


def _wrong_fields(case: BestCase, best: Tuple[int, float]) -> Optional[Finding]:
    """``best_metric`` and ``best_global_step`` against the history."""
    recorded, value = case.recorded, case.recorded.value
    assert value is not None
    right_value = same(value, best[1])
    seen = case.history.value_at(recorded.step)
    right_step = recorded.step is None or (seen is not None and same(seen, best[1]))
    if right_value and right_step:
        return None
    if recorded.step in case.history.unclear or best[0] in case.history.unclear:
        return None  # the step was evaluated twice: which value was compared is not known
    at = f"step {recorded.step}" if recorded.step is not None else "no step"
    return _finding(
        "not_best",
        "error",
        f"the recorded best is {at} with {case.history.metric} {value:g}"
        + (f" (the evaluation of that step says {seen:g})" if _differs(seen, value) else "")
        + f"; the true best is {case.told(best)}",
        _REMEDY_FIELDS,
        step=recorded.step,
        observed={"step": recorded.step, "value": value},
        expected={"step": best[0], "value": best[1]},
    )


def _differs(seen: Optional[float], value: float) -> bool:
    return seen is not None and not same(seen, value)


def _nothing_recorded(case: BestCase, best: Tuple[int, float]) -> Iterator[Finding]:
    if not case.wish.asked:
        if case.saved or case.ever_saved:
            yield _finding(
                "not_recorded",
                "note",
                f"the run evaluated and saved, and recorded no best; by {case.history.metric} it "
                f"is {case.told(case.best_saved or best)}",
                "set metric_for_best_model or load_best_model_at_end=True to have it recorded",
                step=(case.best_saved or best)[0],
            )
        return
    if case.wish.saves == "no":
        return
    yield _finding(
        "none_recorded",
        "error" if case.wish.load_best else "warning",
        f"a best by {case.history.metric} was asked for and none is recorded, although "
        f"{case.told(best)} was evaluated",
        _REMEDY_CADENCE,
        step=best[0],
        expected=best[0],
    )


def _path(case: BestCase, best: Tuple[int, float]) -> Iterator[Finding]:
    recorded = case.recorded
    step = recorded.step if recorded.step is not None else best[0]
    if recorded.path is None:
        yield from _no_path(case, best, step)
        return
    named = recorded.path_step
    if named is not None and named != step:
        seen = case.history.value_at(named)
        if seen is None or not same(seen, best[1]):
            yield _other_folder(case, best, named)
            return
    if case.gone:
        yield _gone(case, named if named is not None else step)


def _was_resumed_from(case: BestCase, step: Optional[int]) -> bool:
    return case.resumed_at is not None and step is not None and step <= case.resumed_at


def _no_path(case: BestCase, best: Tuple[int, float], step: int) -> Iterator[Finding]:
    if step in case.saved and step in case.ever_saved and case.wish.load_best:
        yield _finding(
            "none_recorded",
            "error",
            f"step {step} is the best and its checkpoint is there ({case.saved[step]}), and the "
            "recorded best_model_checkpoint is null: the best was not loaded",
            f"take {case.saved[step]}",
            step=step,
            file=case.saved[step],
        )
    elif case.wish.saves == "no" or not (case.saved or case.ever_saved):
        return  # nothing is saved, as configured: there is no checkpoint to be the best
    elif step not in case.ever_saved:
        other = case.best_saved
        yield _finding(
            "not_saved",
            "error" if case.wish.load_best else "warning",
            f"the best is {case.told(best)}, and no checkpoint was saved at that step; "
            f"best_model_checkpoint is null"
            + (", so the best was not loaded" if case.wish.load_best else "")
            + (f"; the best that was saved is {case.told(other)}" if other is not None else ""),
            _REMEDY_CADENCE,
            step=best[0],
            observed=None if other is None else other[0],
            expected=best[0],
        )


def _other_folder(case: BestCase, best: Tuple[int, float], named: int) -> Finding:
    recorded = case.recorded
    seen, saved = case.history.value_at(named), case.best_saved
    highest = max(case.saved, default=None) == named
    its = f" ({case.history.metric} {seen:g})" if seen is not None else ", which was not evaluated"
    parts = [
        f"best_model_checkpoint is step {named}{its}",
        f"the true best is {case.told(best)}"
        + ("" if best[0] in case.ever_saved else ", which was not saved"),
    ]
    if saved is not None and saved[0] not in (named, best[0]):
        parts.append(f"of the checkpoints that are there the best is {case.told(saved)}")
    if highest:
        parts.append(f"step {named} is the highest-numbered folder")
    if case.wish.load_best:
        parts.append(f"load_best_model_at_end loaded step {named}")
    return _finding(
        "not_best",
        "error",
        "; ".join(parts),
        _REMEDY_CADENCE if best[0] not in case.ever_saved else _REMEDY_FIELDS,
        step=named,
        file=recorded.path,
        observed={"step": named, "value": seen},
        expected={"step": best[0], "value": best[1]},
    )


def _gone(case: BestCase, step: int) -> Finding:
    if step in case.saved:
        return _finding(
            "moved",
            "note",
            f"the recorded best {case.recorded.path} is not there; the folder of step {step} is "
            f"{case.saved[step]}, and that one was judged",
            f"use {case.saved[step]}",
            step=step,
            file=case.saved[step],
        )
    return _finding(
        "folder_gone",
        "error",
        f"the recorded best {case.recorded.path} does not exist, and no folder of step {step} was "
        "found under the run's folder",
        "keep it: raise save_total_limit, and let no script clean the output folder before the end",
        step=step,
        file=case.recorded.path,
    )
