"""The raw loss: what ``backward`` is called on, and a GradScaler's factor in it."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from seatrial.probe.session import Session
from seatrial.probe.tally import Root, Tally
from seatrial.probe.wrapping import wrap


class Scales:
    """Remembers which tensors came out of ``GradScaler.scale`` and by which factor."""

    def __init__(self) -> None:
        self._factors: Dict[int, Tuple[Any, Any]] = {}
        self.scaler: Any = None
        self.last: Any = None

    def note(self, scaler: Any, outputs: Any) -> None:
        """Remember the outputs of one call."""
        factor = getattr(scaler, "_scale", None)
        if factor is None:
            return
        self.scaler = scaler
        self.last = factor.detach().clone()
        for output in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
            key = id(output)
            self._factors[key] = (weakref.ref(output), self.last)
        if len(self._factors) > 256:
            self._factors = {k: v for k, v in self._factors.items() if v[0]() is not None}

    def factor_of(self, root: Any) -> Any:
        """The factor in a root. One that was computed from a scaled tensor carries it too."""
        known = self._factors.pop(id(root), None)
        if known is not None and known[0]() is root:
            return known[1]
        return self.last

    def scale_of_gradients(self) -> Any:
        """The factor that gradients carry now, None once some optimizer's were unscaled."""
        if self.last is None or self.scaler is None:
            return None
        states = getattr(self.scaler, "_per_optimizer_states", {})
        unscaled = any(getattr(s.get("stage"), "value", 0) == 1 for s in list(states.values()))
        return None if unscaled else self.last

    def forget(self) -> None:
        """A step was made or skipped: no factor is in flight."""
        self._factors.clear()
        self.last = None


def _roots(torch: Any, roots: Any, gradients: Any) -> List[Tuple[Any, Any]]:
    """Scalar real roots with the gradient that was given for each."""
    listed = list(roots) if isinstance(roots, (list, tuple)) else [roots]
    given = list(gradients) if isinstance(gradients, (list, tuple)) else [gradients] * len(listed)
    return [
        (root, gradient)
        for root, gradient in zip(listed, given)
        if isinstance(root, torch.Tensor)
        and root.numel() == 1
        and root.dtype.is_floating_point
        and (gradient is None or gradient.numel() == 1)
    ]


def note_roots(torch: Any, tally: Tally, scales: Scales, roots: Any, gradients: Any) -> None:
    """Take one backward call down: values at once on the CPU, references elsewhere."""
    tally.backwards += 1
    for root, gradient in _roots(torch, roots, gradients):
        value = root.detach()
        if gradient is not None:
            value = value * gradient.detach()
        scale = scales.factor_of(root)
        if value.device.type == "cpu":
            value = value.item()
            scale = None if scale is None else float(scale)
        tally.roots.append(Root(value, scale))


def install(
    torch: Any,
    session: Session,
    tally: Tally,
    scales: Scales,
    before: Callable[[], None],
    after: Callable[[], None],
) -> None:
    """Watch ``torch.autograd.backward`` (``Tensor.backward`` goes through it).

    Args:
        torch: the module.
        session: the probe's state.
        tally: gets the roots.
        scales: knows the scaler's factors.
        before: called when an outermost backward pass begins.
        after: called when an outermost backward pass is over.
    """
    note = session.faults.guard("backward", note_roots)
    begins = session.faults.guard("backward.begin", before)
    ends = session.faults.guard("backward.end", after)  # a StopTraining passes

    def make(original: Any) -> Any:
        def backward(
            tensors: Any,
            grad_tensors: Optional[Any] = None,
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            if session.in_backward:  # reentrant checkpointing
                return original(tensors, grad_tensors, *args, **kwargs)
            begins()
            note(torch, tally, scales, tensors, grad_tensors)
            session.in_backward += 1
            session.busy += 1
            try:
                result = original(tensors, grad_tensors, *args, **kwargs)
            finally:
                session.in_backward -= 1
                session.busy -= 1
            ends()
            return result

        return backward

    wrap([torch.autograd], "backward", make)


def install_scaler(
    torch: Any, session: Session, scales: Scales, skipped: Callable[[Any], None]
) -> None:
    """Watch ``GradScaler``: the factors it puts in, and the steps it skips.

    Args:
        torch: the module.
        session: the probe's state.
        scales: gets the factors.
        skipped: called with an optimizer whose step the scaler left out.
    """
    note = session.faults.guard("scaler", scales.note)
    left_out = session.faults.guard("scaler", skipped)

    def make_scale(original: Any) -> Any:
        def scale(self: Any, outputs: Any) -> Any:
            result = original(self, outputs)
            note(self, result)
            return result

        return scale

    def make_step(original: Any) -> Any:
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            before = session.steps_seen
            result = original(self, optimizer, *args, **kwargs)
            if session.steps_seen == before and getattr(self, "_enabled", True):
                left_out(optimizer)
            return result

        return step

    scaler = torch.amp.GradScaler
    wrap([scaler], "scale", make_scale)
    wrap([scaler], "step", make_step)
