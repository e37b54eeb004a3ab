"""Trainer and TRL: a callback of ours among the defaults of every ``Trainer`` that is made.

It reads and writes events; of the control object it touches ``should_training_stop`` alone, and
only when a bound is reached or a stop was asked for, so that the script's code after ``train()``
still runs.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional

from seatrial.core.strict_json import decode_number
from seatrial.probe.session import Session
from seatrial.probe.tally import Tally


class TrainerWatch:
    """What the callback does, apart from the base class that only transformers has.

    Args:
        session: the probe's state.
        tally: its clock is reset after evaluations and saves.
        close_segment: ends a plain loop's running segment.
        remember: takes the model.
    """

    def __init__(
        self,
        session: Session,
        tally: Tally,
        close_segment: Callable[[], None],
        remember: Callable[[Any], None],
    ) -> None:
        self._session = session
        self._tally = tally
        self._close_segment = close_segment
        self._remember = remember
        self._planned: Optional[int] = None
        self._stopped: Optional[str] = None
        self._epoch_first_step = 0
        self._empty_epoch = False

    def train_begin(self, _args: Any, state: Any, _control: Any, kwargs: Dict[str, Any]) -> None:
        """A ``train()`` call begins: a segment of its own with a plan of its own."""
        session = self._session
        self._close_segment()
        segment = session.rounds.begin_trainer()
        self._stopped = None
        self._empty_epoch = False
        self._planned = max(0, int(state.max_steps) - int(state.global_step))
        session.planned = (session.planned or 0) + self._planned
        session.segment_planned = self._planned
        self._tally.finished()
        if kwargs.get("model") is not None:
            self._remember(kwargs["model"])
        if state.global_step:
            session.write("resume", {"step": state.global_step, "segment": segment, "path": None})

    def epoch_begin(self, *_rest: Any) -> None:
        """Remember where an epoch began, to notice one without a single batch."""
        self._epoch_first_step = self._session.rounds.step

    def epoch_end(self, _args: Any, _state: Any, control: Any, _kwargs: Any) -> None:
        """An epoch without a step in which training is ended: the data ran out."""
        if control.should_training_stop and self._session.rounds.step == self._epoch_first_step:
            self._empty_epoch = True

    def step_end(self, _args: Any, _state: Any, control: Any, _kwargs: Any) -> None:
        """Ask the Trainer to stop when a bound is reached or a stop was asked for."""
        reason = self._session.stop.due(self._session.rounds.step)
        if reason is not None:
            self._stopped = reason
            control.should_training_stop = True

    def log(self, _args: Any, state: Any, _control: Any, kwargs: Dict[str, Any]) -> None:
        """Metrics as the Trainer logs them; evaluations come through ``evaluate``."""
        logs = kwargs.get("logs") or {}
        if "train_runtime" in logs or any(str(name).startswith("eval_") for name in logs):
            return
        self._metrics(logs, "log", state)

    def evaluate(self, _args: Any, state: Any, _control: Any, kwargs: Dict[str, Any]) -> None:
        """Metrics of an evaluation."""
        self._metrics(kwargs.get("metrics") or {}, "trainer", state)
        self._tally.finished()

    def save(self, args: Any, state: Any, _control: Any, _kwargs: Any) -> None:
        """A checkpoint folder is complete; its files were reported as they were written."""
        folder = os.path.join(str(args.output_dir), f"checkpoint-{state.global_step}")
        self._session.write(
            "save",
            {
                "step": self._session.rounds.step,
                "segment": self._session.rounds.segment,
                "path": os.path.abspath(folder),
                "kind": "trainer",
                "tensors": None,
                "bytes": None,
                "digests": {},
                "seconds": None,
                "error": None,
            },
        )
        self._tally.finished()

    def train_end(self, args: Any, state: Any, control: Any, _kwargs: Any) -> None:
        """The ``train()`` call is over; say why."""
        session = self._session
        session.end_segment(self._reason(state, control), self._planned, _best(args, state))
        session.rounds.end_trainer()

    def _reason(self, state: Any, control: Any) -> str:
        if state.global_step >= state.max_steps:
            return "completed"
        if self._stopped is not None:
            return self._stopped
        if control.should_training_stop and not self._empty_epoch:
            return "early_stopping"
        return "exhausted"

    def _metrics(self, given: Any, source: str, state: Any) -> None:
        metrics = {}
        for name, value in dict(given).items():
            item = value.item() if hasattr(value, "item") and hasattr(value, "dtype") else value
            number = decode_number(item)
            if number is not None and name != "epoch":
                metrics[str(name)] = number
        if metrics:
            session = self._session
            session.write(
                "eval",
                {
                    "step": session.rounds.step,
                    "segment": session.rounds.segment,
                    "global_step": state.global_step,
                    "metrics": metrics,
                    "source": source,
                },
            )


def _best(args: Any, state: Any) -> Optional[Dict[str, Any]]:
    """The best checkpoint as the Trainer recorded it, and how it was to choose.

    None when no metric was named and nothing recorded; a metric without a record is told.
    """
    path = getattr(state, "best_model_checkpoint", None)
    value = getattr(state, "best_metric", None)
    metric = getattr(args, "metric_for_best_model", None)
    if path is None and value is None and metric is None:
        return None
    return {
        "metric": metric,
        "value": value,
        "step": getattr(state, "best_global_step", None),
        "path": None if path is None else os.path.abspath(path),
        "greater_is_better": getattr(args, "greater_is_better", None),
        "load_best": bool(getattr(args, "load_best_model_at_end", False)),
        "limit": getattr(args, "save_total_limit", None),
        "global_step": getattr(state, "global_step", None),
    }


def add_to_defaults(module: Any, watch: TrainerWatch, session: Session) -> None:
    """Put the callback among ``transformers.trainer.DEFAULT_CALLBACKS``.

    Args:
        module: ``transformers.trainer``.
        watch: what the callback does.
        session: guards every hook.
    """
    guard = session.faults.guard

    def hook(name: str) -> Any:
        act = guard(f"trainer.{name}", getattr(watch, name))

        def on(_self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            act(args, state, control, kwargs)

        return on

    hooks = {
        f"on_{name}": hook(name)
        for name in (
            "train_begin", "epoch_begin", "epoch_end", "step_end", "log", "evaluate", "save",
            "train_end",
        )
    }  # fmt: skip
    callback = type("SeatrialCallback", (module.TrainerCallback,), hooks)
    module.DEFAULT_CALLBACKS.append(callback)
