"""Gradient norms before clipping, as the clipping functions themselves see them."""

from __future__ import annotations

from typing import Any, Iterable, List

from seatrial.probe import tensors
from seatrial.probe.backward import Scales
from seatrial.probe.session import Session
from seatrial.probe.tally import Clip, Tally
from seatrial.probe.wrapping import wrap


def _listed(parameters: Any) -> Any:
    """Parameters as something that can be walked twice.

    An empty generator stays one, because torch warns about it.
    """
    if not hasattr(parameters, "__next__"):
        return parameters
    return list(parameters) or (p for p in ())


def _with_grads(torch: Any, parameters: Any) -> List[Any]:
    listed: Iterable[Any] = [parameters] if isinstance(parameters, torch.Tensor) else parameters
    return [p for p in listed if p.grad is not None]


def install(torch: Any, session: Session, tally: Tally, scales: Scales) -> None:
    """Watch ``clip_grad_norm_`` and ``clip_grad_value_``."""

    def before(parameters: Any) -> Any:
        members = _with_grads(torch, parameters)
        return members, tensors.total_norm(torch, [p.grad for p in members])

    def note(members: Any, norm: Any) -> None:
        if members and norm is not None:
            names = frozenset(id(p) for p in members)
            tally.clips.append(Clip(names, norm, scales.scale_of_gradients()))

    members_of = session.faults.guard("clip", lambda p: _with_grads(torch, p), [])
    measure = session.faults.guard("clip", before, ([], None))
    note_guarded = session.faults.guard("clip", note)

    def make_norm(original: Any) -> Any:
        def clip_grad_norm_(
            parameters: Any, max_norm: Any, norm_type: Any = 2.0, *args: Any, **kwargs: Any
        ) -> Any:
            if session.busy or torch.compiler.is_compiling():
                return original(parameters, max_norm, norm_type, *args, **kwargs)
            members, norm = [], None
            parameters = _listed(parameters)
            if norm_type == 2:
                members = members_of(parameters)
            else:
                members, norm = measure(parameters)
            result = original(parameters, max_norm, norm_type, *args, **kwargs)
            note_guarded(members, result if norm is None else norm)
            return result

        return clip_grad_norm_

    def make_value(original: Any) -> Any:
        def clip_grad_value_(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if session.busy or torch.compiler.is_compiling():
                return original(parameters, *args, **kwargs)
            parameters = _listed(parameters)
            members, norm = measure(parameters)
            result = original(parameters, *args, **kwargs)
            note_guarded(members, norm)
            return result

        return clip_grad_value_

    owners = [torch.nn.utils, torch.nn.utils.clip_grad]
    wrap(owners, "clip_grad_norm_", make_norm)
    wrap(owners, "clip_grad_value_", make_value)
