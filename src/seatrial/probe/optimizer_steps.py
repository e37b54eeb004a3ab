"""One event per optimizer step, through torch's global optimizer hooks."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any, Callable, Dict, List, Optional

from seatrial.probe.backward import Scales
from seatrial.probe.memory import device_bytes, rss_bytes
from seatrial.probe.session import Session
from seatrial.probe.stopping import StopTraining
from seatrial.probe.tally import Tally
from seatrial.probe.wrapping import wrap

EVENTS_PER_ROUND = 8  # an optimizer per parameter would write hundreds
_TRAINER_OVERRUN = 3  # rounds after which a loop that ignores the Trainer's control is ended


class _Open:
    """A step that began and has not ended."""

    def __init__(self, optimizer: int) -> None:
        self.optimizer = optimizer
        self.values: Optional[Dict[str, Any]] = None
        self.inner_steps = 0
        self.skipped = False


class StepWatch:
    """Counts, measures and, when it is time, ends.

    Args:
        torch: the module.
        session: the probe's state.
        tally: what the step consumes.
        scales: the scaler's factors.
        before_first: called with the optimizer before the first step event.
    """

    def __init__(
        self,
        torch: Any,
        session: Session,
        tally: Tally,
        scales: Scales,
        before_first: Callable[[Any], None],
    ) -> None:
        self._torch = torch
        self._session = session
        self._tally = tally
        self._scales = scales
        self._before_first = before_first
        self._open: List[_Open] = []
        self._alive: weakref.WeakSet[Any] = weakref.WeakSet()
        self._checked_step = 0
        self._segment_is_open = False
        guard = session.faults.guard
        self._begin_guarded = guard("step.begin", self._begin)
        self._end_guarded = guard("step.end", self._end, False)
        self._measure_guarded = guard("step.values", tally.values)
        self._due_guarded = guard("stop", session.stop.due)

    def install(self) -> None:
        """Register the hooks and note every optimizer that is made."""
        # Only Exceptions are caught there: a StopTraining passes.
        guard = self._session.faults.guard
        optimizer = sys.modules["torch.optim.optimizer"]  # torch.optim hides its own submodule
        optimizer.register_optimizer_step_pre_hook(self._eager(guard("step.before", self.pre)))
        optimizer.register_optimizer_step_post_hook(self._eager(guard("step.after", self.post)))
        created = guard("optimizer", self._created)

        def make(original: Any) -> Any:
            def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
                original(self, *args, **kwargs)
                created(self)

            return __init__

        wrap([self._torch.optim.Optimizer], "__init__", make)

    def _eager(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """The hook, absent while a step is being compiled.

        Traced, it would cut the graph and make torch warn. A step that the script compiled is not
        seen: nothing may be put into a graph of the user's.
        """
        torch = self._torch

        def call(optimizer: Any, args: Any, kwargs: Any) -> Any:
            return None if torch.compiler.is_compiling() else hook(optimizer, args, kwargs)

        return call

    def _created(self, optimizer: Any) -> None:
        self._alive.add(optimizer)
        self._session.rounds.created(id(optimizer))

    # -- around a step ---------------------------------------------------------------------------

    def pre(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        """Torch's hook before a step: measure what it will consume."""
        rounds = self._session.rounds
        if not self._open and rounds.step and rounds.begins_round(id(optimizer)):
            self._stop_if_due()
        return self._begin_guarded(optimizer, args, kwargs)

    def _begin(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        key = id(optimizer)
        if any(entry.optimizer == key for entry in self._open):
            self._open.clear()  # that step raised; nothing closed it
        entry = _Open(key)
        self._open.append(entry)
        if len(self._open) > 1:
            return None
        if self._session.rounds.begins_round(key):
            self._tally.last_loss = None  # an earlier round's says nothing about this one
        found_inf = getattr(optimizer, "found_inf", None)
        entry.skipped = found_inf is not None and bool(found_inf.item())
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if callable(closure):
            return self._with_closure(entry, optimizer, closure, args, kwargs)
        entry.values = self._measure(optimizer)
        return None

    def _measure(self, optimizer: Any) -> Dict[str, Any]:
        scale = getattr(optimizer, "grad_scale", None)
        values = self._measure_guarded(self._torch, optimizer, scale)
        return (
            values
            if values is not None
            else dict.fromkeys(
                ("loss_raw", "grad_norm", "tokens", "supervised_tokens", "micro_batches"), None
            )
            | {"lr": []}
        )

    def _with_closure(
        self, entry: _Open, optimizer: Any, closure: Any, args: Any, kwargs: Any
    ) -> Any:
        """Measure after the closure's first call: it computes the gradients of this step."""

        def measured() -> Any:
            result = closure()
            if entry.values is None:
                entry.values = self._measure(optimizer)
            return result

        if kwargs.get("closure") is closure:
            return args, {**kwargs, "closure": measured}
        return (args[0], measured, *args[2:]), kwargs

    def post(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Torch's hook after a step: count it, write it, end the run when it is time."""
        self._session.steps_seen += 1
        if self._end_guarded(optimizer) and not self._session.in_backward:
            self._stop_after_round()

    def _end(self, optimizer: Any) -> bool:
        key = id(optimizer)
        while self._open and self._open[-1].optimizer != key:
            self._open.pop()
        entry = self._open.pop() if self._open else _Open(key)
        if self._open:
            outer = self._open[0]
            outer.inner_steps += 1
            if outer.inner_steps > 1:  # the outer step raised long ago
                self._open.clear()
            return False
        if entry.skipped:
            self.skipped(optimizer)
            return False
        self._write(optimizer, key, entry.values or self._measure(optimizer))
        return True

    def _write(self, optimizer: Any, key: int, values: Dict[str, Any]) -> None:
        session, tally = self._session, self._tally
        self._before_first(optimizer)
        if session.rounds.begins_segment(key):
            self.close_segment()
        seconds = tally.seconds()
        counted = session.rounds.stepped(key)
        self._segment_is_open = not session.rounds.in_trainer
        if counted.nth <= EVENTS_PER_ROUND:
            data = {
                "step": counted.step,
                "segment": counted.segment,
                "optimizer": counted.optimizer,
                **values,
                "seconds": round(seconds, 6),
                "rss_bytes": rss_bytes(),
                "device_bytes": device_bytes(self._torch),
                "source": "trainer" if session.rounds.in_trainer else "loop",
            }
            if session.rounds.in_trainer and counted.step == session.rounds.segment_first_step:
                data["steps_planned"] = session.segment_planned
            if tally.skipped_before:
                data["skipped_before"] = tally.skipped_before
            session.write("step", data, plain=True)
        tally.skipped_before = 0
        tally.clear()
        tally.finished()
        self._scales.forget()

    def skipped(self, _optimizer: Any) -> None:
        """A scaler left a step out: what it would have consumed is dropped."""
        self._open.clear()
        self._tally.skipped_before += 1
        self._session.skipped += 1
        self._tally.clear()
        self._scales.forget()

    def close_segment(self, reason: str = "completed") -> None:
        """End the running segment of a plain loop, if there is one."""
        if self._segment_is_open:
            self._segment_is_open = False
            self._session.end_segment(reason)

    # -- stops -----------------------------------------------------------------------------------

    def after_backward(self) -> None:
        """End the run after a backward pass in which optimizers stepped."""
        if self._session.rounds.step > self._checked_step and self._session.stop.reason is None:
            self._stop_after_round()

    def _stop_after_round(self) -> None:
        if self._session.rounds.round_is_complete(len(self._alive)):
            self._stop_if_due()

    def _stop_if_due(self) -> None:
        """Raise when the run must end.

        Raises:
            StopTraining: it is time.
        """
        session = self._session
        rounds, stop = session.rounds, session.stop
        if rounds.step == self._checked_step and stop.reason is None:
            return
        if rounds.in_trainer:
            cap = session.settings.max_steps
            if cap is None or rounds.step <= cap + _TRAINER_OVERRUN:
                return
        self._checked_step = rounds.step
        if not session.may_speak():
            return
        reason = self._due_guarded(rounds.step)
        if reason is None:
            return
        if not stop.raised:
            session.faults.guard("stop.segment", self.close_segment)(reason)
        if not stop.may_raise_again():
            self._leave(reason)
        raise StopTraining(0)

    def _leave(self, reason: str) -> None:
        """The script swallowed the stop again and again: flush and go."""
        self._session.faults.guard("end", self._session.end_process)(reason)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):  # noqa: PERF203 - two streams
                continue
        os._exit(0)
