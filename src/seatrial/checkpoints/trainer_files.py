"""What a Trainer wrote beside its weights: ``trainer_state.json`` and ``training_args.bin``."""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import Any

from seatrial.checkpoints.open_file import UnreadableError, read_json_object
from seatrial.checkpoints.plain_pickle import read_training_args
from seatrial.core.best import Evaluated, Recorded, Wish
from seatrial.core.strict_json import decode_number

STATE = "trainer_state.json"
ARGS = "training_args.bin"
_MAX_ENTRIES = 200_000


@dataclass(frozen=True)
class TrainerState:
    """One ``trainer_state.json``.

    Attributes:
        path: the file.
        global_step: optimizer steps when it was written.
        evaluations: of its log, in order.
        recorded: its best fields.
    """

    path: str
    global_step: int
    evaluations: tuple[Evaluated, ...]
    recorded: Recorded


def _number(value: Any) -> float | None:
    try:
        return decode_number(value)
    except OverflowError:  # a whole number beyond every float
        return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_state(path: str) -> TrainerState:
    """Read a state file; the literals NaN and Infinity, which the Trainer writes, are numbers.

    Raises:
        UnreadableError: it is no such file.
    """
    value = read_json_object(path, allow_nan=True)
    step, log = _whole(value.get("global_step")), value.get("log_history")
    if step is None or not isinstance(log, list):
        raise UnreadableError("it has no global_step and log_history")
    if len(log) > _MAX_ENTRIES:
        raise UnreadableError(f"its log has {len(log)} entries; at most {_MAX_ENTRIES} are read")
    at = value.get("best_model_checkpoint")
    return TrainerState(
        path=path,
        global_step=step,
        evaluations=tuple(item for entry in log for item in _evaluation(entry)),
        recorded=Recorded(
            value=_number(value.get("best_metric")),
            step=_whole(value.get("best_global_step")),
            path=at if isinstance(at, str) and at else None,
        ),
    )


def _evaluation(entry: Any) -> list[Evaluated]:
    """The evaluation metrics of one entry of the log, if it has any."""
    if not isinstance(entry, dict):
        return []
    step = _whole(entry.get("step"))
    metrics = {
        str(name): number
        for name, value in entry.items()
        if str(name).startswith("eval_")
        for number in [_number(value)]
        if number is not None
    }
    return [Evaluated(step, metrics)] if step is not None and metrics else []


def newest_state(folders: list[str]) -> tuple[TrainerState | None, list[tuple[str, str]]]:
    """The state with the highest ``global_step``, and the files that could not be read, with why.

    Args:
        folders: a run's folder and its checkpoints, in any order; of equals the longer log wins.
    """
    best: TrainerState | None = None
    problems = []
    for folder in folders:
        path = os.path.join(folder, STATE)
        if not os.path.lexists(path) or os.path.islink(path):
            continue
        try:
            state = read_state(path)
        except UnreadableError as error:
            problems.append((path, str(error)))
            continue
        rank = (state.global_step, len(state.evaluations))
        if best is None or rank > (best.global_step, len(best.evaluations)):
            best = state
    return best, problems


def read_wish(folder: str) -> Wish | None:
    """What the training was told, from ``training_args.bin``; None when it cannot be read."""
    path = os.path.join(folder, ARGS)
    if os.path.islink(path):
        return None
    try:
        fields = read_training_args(path)
    except UnreadableError:
        return None
    metric, saves = fields.get("metric_for_best_model"), fields.get("save_strategy")
    greater, load = fields.get("greater_is_better"), fields.get("load_best_model_at_end")
    return Wish(
        metric=metric if isinstance(metric, str) else None,
        greater=greater if isinstance(greater, bool) else None,
        load_best=load if isinstance(load, bool) else None,
        limit=_whole(fields.get("save_total_limit")),
        saves=saves if isinstance(saves, str) else None,
    )
