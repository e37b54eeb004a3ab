"""Gates on learning that does not happen: a loss that never moves, a gradient that is zero."""

from __future__ import annotations

import math
from typing import Dict, Iterable, List, Optional

from seatrial.core.event import Event
from seatrial.core.event_data import Lane, lane, learns, number, whole
from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import Trip

# A gradient this far below its largest has come to rest; its exact zero is an arrival, no fault.
_AT_REST = 1e-3
_ZERO = 1e-30


class _FirstLosses:
    def __init__(self) -> None:
        self.count = 0
        self.first: Optional[float] = None
        self.moved = False


class ConstantLossGate(Gate):
    """The loss has not moved at all since training began.

    What it watches: the raw losses of the first steps with a learning rate above zero. All of
    them alike, to the last digits of float32, is a trip. A loss of exactly zero is left alone
    (it is reached, or zero by construction), and so is one that moved before it came to rest.

    Why: the optimizer holds other parameters than the model, the loss does not depend on the
    model, or the loader repeats one batch into a frozen model.

    What it cannot see: a frozen model on changing batches, whose loss moves with the batches.
    """

    info = GateInfo("gate.constant_loss", "optimizer", "Loss never moves")

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._lanes: Dict[Lane, _FirstLosses] = {}

    def feed(self, event: Event) -> Iterable[Trip]:
        """Compare one step's loss with the first of its segment."""
        if event.event != "step" or not learns(event.data):
            return ()
        loss = number(event.data, "loss_raw")
        seen = self._lanes.setdefault(lane(event), _FirstLosses())
        if loss is None or seen.moved:
            return ()
        if not math.isfinite(loss) or loss == 0:
            seen.moved = True
            return ()
        seen.first = loss if seen.first is None else seen.first
        seen.moved = abs(loss - seen.first) > self.settings.constant_loss_rtol * abs(seen.first)
        seen.count += 1
        if seen.moved or seen.count < self.settings.constant_loss_steps:
            return ()
        step = whole(event.data, "step")
        return [
            self.trip(
                f"the loss is {loss:.6g} in each of the first {seen.count} steps with a learning"
                " rate above 0",
                metric="loss_raw",
                observed=loss,
                expected="a loss that moves",
                step=step,
                rank=event.rank,
                remedy="Check that the optimizer holds the parameters of the model that is"
                " trained, and that the loss depends on them.",
            )
        ]


class _Norms:
    def __init__(self) -> None:
        self.zeros = 0
        self.largest = 0.0
        self.last = math.inf


class VanishedGradientGate(Gate):
    """The gradient is exactly zero, step after step, while there is a loss to reduce.

    What it watches: ``grad_norm`` of steps with a learning rate above zero and a loss that is not
    zero. A gradient that became small before it became zero has converged and is left alone.

    Why: the graph is cut (``detach``, ``no_grad``), every unit is dead, or gradients were cleared
    before the step; nothing will ever be learnt.

    What it cannot see: single parameters without gradient (a LoRA factor at its first step has
    none, rightly), and losses without any signal such as equal rewards, whose loss is zero too.
    """

    info = GateInfo("gate.vanished_gradient", "gradients", "Gradient vanished")

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._lanes: Dict[Lane, _Norms] = {}

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at one step's gradient norm."""
        if event.event != "step" or not learns(event.data):
            return ()
        norm, loss = number(event.data, "grad_norm"), number(event.data, "loss_raw")
        if norm is None or loss is None:
            return ()
        seen = self._lanes.setdefault(lane(event), _Norms())
        if not norm <= _ZERO or loss == 0:
            seen.zeros = 0
            if math.isfinite(norm) and norm > _ZERO:
                seen.last, seen.largest = norm, max(norm, seen.largest)
            return ()
        at_rest = seen.largest > 0 and seen.last < _AT_REST * seen.largest
        seen.zeros += 0 if at_rest else 1
        if seen.zeros < self.settings.vanished_gradient_steps:
            return ()
        step = whole(event.data, "step")
        trips: List[Trip] = [
            self.trip(
                f"the gradient was zero in {seen.zeros} steps in a row up to step {step}; the loss"
                f" is {loss:.6g}",
                metric="grad_norm",
                observed=norm,
                expected="above 0",
                step=step,
                rank=event.rank,
                remedy="Look for detach, no_grad or zero_grad between backward and step, and for"
                " units that are dead or saturated.",
            )
        ]
        return trips
