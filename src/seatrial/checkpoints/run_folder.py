"""One output folder of a Trainer: what it recorded about its best, and what its evaluations say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.checkpoints.find import Checkpoint, step_of
from seatrial.checkpoints.trainer_files import TrainerState, newest_state, read_wish
from seatrial.core.best import (
    Evaluated,
    History,
    Recorded,
    Wish,
    direction_of,
    full_name,
    history_of,
    same,
)
from seatrial.core.best_judgement import BestCase
from seatrial.core.observation.values import EvaluationView, Observation, SegmentView
from seatrial.core.strict_json import decode_number


@dataclass(frozen=True)
class RunFolder:
    """What belongs to one output folder.

    Attributes:
        path: the output folder.
        steps: of every checkpoint that this run saved in it.
        segments: the ``train()`` calls that saved in it, in order.
        checkpoints: what lies in it now, by step.
    """

    path: str
    steps: frozenset[int]
    segments: tuple[SegmentView, ...] = ()
    checkpoints: Mapping[int, Checkpoint] = field(default_factory=dict)

    def resumes(self, observation: Observation) -> bool:
        """Whether one of its trainings resumed from a checkpoint."""
        numbers = {part.segment for part in self.segments}
        return any(item.get("segment") in numbers for item in observation.resumes)


@dataclass(frozen=True)
class BestAnswer:
    """A case for ``core.best_judgement``, and what it was made from."""

    case: BestCase
    metric: str
    state: TrainerState | None
    problems: tuple[tuple[str, str], ...] = ()


def run_folders(
    observation: Observation, checkpoints: Iterable[Checkpoint]
) -> tuple[RunFolder, ...]:
    """The output folders of this run's Trainers, in the order in which they were last used.

    Args:
        observation: of the run.
        checkpoints: everything that was found.
    """
    steps: dict[str, set[int]] = {}
    numbers: dict[str, set[int]] = {}
    for save in observation.saves:
        step = step_of(save.path) if save.kind == "trainer" else None
        if step is None:
            continue
        folder = os.path.dirname(save.path)
        known = steps.pop(folder, set())
        steps[folder] = known | {step}  # the folder that was used last goes last
        if save.step is not None:
            numbers.setdefault(folder, set()).add(save.step)
    listed = list(checkpoints)
    return tuple(
        RunFolder(
            folder,
            frozenset(saved),
            _segments(observation, numbers.get(folder, set())),
            _by_step(folder, listed, set(steps)),
        )
        for folder, saved in steps.items()
    )


def _by_step(folder: str, listed: Sequence[Checkpoint], others: set[str]) -> dict[int, Checkpoint]:
    """What lies in the folder by step; of what was moved further down, only where none is left."""
    found: dict[int, Checkpoint] = {}
    below = sorted(
        (item for item in listed if item.path.startswith(folder + os.sep)),
        key=lambda item: (item.path.count(os.sep), item.path),
    )
    for item in below:
        parent = os.path.dirname(item.path)
        if item.step is not None and (parent == folder or parent not in others):
            found.setdefault(item.step, item)
    return found


def _segments(observation: Observation, saved_at: set[int]) -> tuple[SegmentView, ...]:
    """The segments of the lowest rank in whose rounds something was saved to the folder."""
    lead = observation.lead.rank if observation.lead is not None else 0
    return tuple(
        part
        for part in observation.segments
        if part.rank == lead
        and part.first_step is not None
        and part.last_step is not None
        and any(part.first_step <= step <= part.last_step for step in saved_at)
    )


def best_answer(
    folder: RunFolder,
    observation: Observation,
    *,
    usable: Mapping[int, str],
    stale: frozenset[str],
    cwd: str,
    ad_hoc: bool,
) -> BestAnswer:
    """Gather what decides about the best of one output folder.

    Args:
        folder: as found.
        observation: of the run.
        usable: step to folder of the complete checkpoints that are there.
        stale: folders older than the run that it did not resume from.
        cwd: the runner's working directory, for relative paths.
        ad_hoc: there is no trial file.
    """
    # What a stale folder says is of another run.
    fresh = [item for item in folder.checkpoints.values() if item.path not in stale]
    places = [folder.path, *(item.path for item in fresh)]
    state, problems = newest_state(places)
    if state is not None and state.global_step not in folder.steps and folder.steps:
        state = state if state.global_step >= max(folder.steps, default=0) else None
    resumed = _resumed_at(folder, observation)
    recorded, metric = _recorded(folder, state, cwd)
    wish = _wish(places, metric)
    evaluations = [
        *_in_training(state, folder, observation),
        *_own(folder, observation, state.global_step if state is not None else 0),
    ]
    name = wish.metric or metric or "eval_loss"
    history = history_of(name, evaluations, recorded)
    case = BestCase(
        history=history,
        greater=direction_of(wish, history, recorded),
        wish=wish,
        recorded=recorded,
        saved=usable,
        ever_saved=folder.steps | frozenset(usable),
        gone=recorded.path is not None and not os.path.isdir(recorded.path),
        stale=stale,
        resumed_at=resumed,
        ad_hoc=ad_hoc,
    )
    return BestAnswer(case, history.metric, state, tuple(problems))


def _resumed_at(folder: RunFolder, observation: Observation) -> int | None:
    numbers = {part.segment for part in folder.segments}
    steps = [
        resume.get("step") for resume in observation.resumes if resume.get("segment") in numbers
    ]
    known = [step for step in steps if isinstance(step, int) and not isinstance(step, bool)]
    return max(known, default=None)


def _recorded(
    folder: RunFolder, state: TrainerState | None, cwd: str
) -> tuple[Recorded, str | None]:
    """As the last ``train()`` call said at its end; of one that was cut off, as its state file."""
    ended = [part for part in folder.segments if part.reason is not None]
    if ended and ended[-1] is folder.segments[-1]:
        best: Mapping[str, Any] = ended[-1].best or {}
        step, path, metric = best.get("step"), best.get("path"), best.get("metric")
        return (
            Recorded(
                value=decode_number(best.get("value")),
                step=step if isinstance(step, int) and not isinstance(step, bool) else None,
                path=path if isinstance(path, str) and path else None,
            ),
            metric if isinstance(metric, str) else None,
        )
    if state is None:
        return Recorded(), None
    said = state.recorded
    path = os.path.abspath(os.path.join(cwd, said.path)) if said.path is not None else None
    return Recorded(said.value, said.step, path), None


def _wish(places: Sequence[str], metric: str | None) -> Wish:
    newest = sorted(places, key=lambda place: step_of(place) or 0, reverse=True)
    for place in newest:
        wish = read_wish(place)
        if wish is not None:
            return wish
    return Wish(metric=metric)


def _in_training(
    state: TrainerState | None, folder: RunFolder, observation: Observation
) -> list[Evaluated]:
    """The log of a state file without what was evaluated before or after the training.

    A script that evaluates its test set after ``train()`` and then calls ``save_state()`` has that
    in the log, under the last step; the trainer chose nothing by it.
    """
    outside = [
        (global_step(item, folder.segments, observation), item.metrics)
        for item in observation.evaluations
        if item.source == "trainer" and not item.in_training
    ]
    return [
        item
        for item in (state.evaluations if state is not None else ())
        if not any(at == item.step and _are_one(seen, item.metrics) for at, seen in outside)
    ]


def _are_one(seen: Mapping[str, float], logged: Mapping[str, float]) -> bool:
    """Whether an evaluation that was seen is the one that was logged: all its figures are."""
    return all(name in seen and same(seen[name], value) for name, value in logged.items())


def _own(folder: RunFolder, observation: Observation, beyond: int) -> list[Evaluated]:
    """Evaluations that the probe saw after the newest state file was written."""
    found = []
    for item in observation.evaluations:
        if item.source != "trainer" or not item.in_training:
            continue
        step = global_step(item, folder.segments, observation)
        if step is not None and step > beyond:
            found.append(Evaluated(step, item.metrics))
    return found


def global_step(
    item: EvaluationView, segments: Sequence[SegmentView], observation: Observation
) -> int | None:
    """The Trainer's own step number of an evaluation; None when it is of another ``train()``."""
    for part in segments:
        if part.segment == item.segment and part.rank == item.rank and item.step is not None:
            resumed = [
                resume.get("step")
                for resume in observation.resumes
                if resume.get("segment") == part.segment
            ]
            base = resumed[0] if resumed and isinstance(resumed[0], int) else 0
            return item.step - ((part.first_step or 1) - 1) + base
    return None


def filtered_nan(
    folder: RunFolder, observation: Observation, history: History
) -> tuple[int, float] | None:
    """A step whose evaluation was emitted as nan by the script and logged as a number."""
    for item in observation.evaluations:
        if item.source not in ("emit", "stdout") or item.step is None:
            continue
        for name, value in item.metrics.items():
            if full_name(name) != history.metric or value == value:
                continue
            parts = folder.segments
            step = next(
                (
                    item.step - ((part.first_step or 1) - 1)
                    for part in parts
                    if (part.first_step or 0) <= item.step <= (part.last_step or 0)
                ),
                item.step,
            )
            logged = history.value_at(step)
            if logged is not None and logged == logged:
                return step, logged
    return None
