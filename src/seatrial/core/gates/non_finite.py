"""Values that are no numbers any more, and were used all the same."""

from __future__ import annotations

import math
from typing import Dict, Iterable, List

from seatrial.core.event import Event
from seatrial.core.event_data import Lane, lane, number, whole
from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import WARN, Trip


class NonFiniteLossGate(Gate):
    """The raw loss of an optimizer step is nan or infinite.

    What it watches: ``loss_raw`` of each step, which is what backward was called on, before any
    filter of a trainer's log. With a finite gradient beside it (a masked row, a loss with a nan
    constant) a single one is a warning; several in a row stop.

    Why: one applied nan update makes every later weight nan; the rest of the run is wasted, and a
    log filter may hide it behind a running mean.

    What it cannot see: a nan in a loss that backward is never called on, and one inside a kernel
    that a later operation masks.
    """

    info = GateInfo(
        "gate.non_finite_loss", "gradients", "Loss is nan or infinite", stops_ad_hoc=True
    )

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._in_a_row: Dict[Lane, int] = {}

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at one step's raw loss."""
        if event.event != "step":
            return ()
        loss = number(event.data, "loss_raw")
        if loss is None:  # a second optimizer of the same round: the loss was told with the first
            return ()
        if math.isfinite(loss):
            self._in_a_row[lane(event)] = 0
            return ()
        in_a_row = self._in_a_row.get(lane(event), 0) + 1
        self._in_a_row[lane(event)] = in_a_row
        norm = number(event.data, "grad_norm")
        harmless = norm is not None and math.isfinite(norm)
        if harmless and in_a_row < self.settings.non_finite_loss_steps:
            about = "its gradient was finite"
        else:
            about = "an optimizer step used it"
        step = whole(event.data, "step")
        return [
            self.trip(
                f"the raw loss of step {step} is {loss}; {about}",
                action=WARN if about.startswith("its") else None,
                metric="loss_raw",
                observed=loss,
                expected="a finite number",
                step=step,
                rank=event.rank,
                remedy="Look at the batch of this step, lower the learning rate, and compute the"
                " loss in float32.",
            )
        ]


class NonFiniteGradientGate(Gate):
    """The gradient that an optimizer step consumed is nan or infinite.

    What it watches: ``grad_norm`` of each step, the total norm before clipping. A step that a
    scaler skipped consumed nothing: it is no step, and no event.

    Why: the update writes nan into the weights, or clipping by an infinite norm turns it into
    zero or nan, while the loss may still look fine for one more step.

    What it cannot see: gradients of optimizers that report none, and of parameters that other
    ranks hold.
    """

    info = GateInfo(
        "gate.non_finite_gradient", "gradients", "Gradient is nan or infinite", stops_ad_hoc=True
    )

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at one step's gradient norm."""
        if event.event != "step":
            return ()
        norm = number(event.data, "grad_norm")
        if norm is None or math.isfinite(norm):
            return ()
        step = whole(event.data, "step")
        trips: List[Trip] = [
            self.trip(
                f"the gradient norm of step {step} is {norm}; an optimizer step used it",
                metric="grad_norm",
                observed=norm,
                expected="a finite number",
                step=step,
                rank=event.rank,
                remedy="Use a GradScaler with float16, or bfloat16 without one; look at the batch"
                " of this step and at divisions and logarithms in the loss.",
            )
        ]
        return trips
