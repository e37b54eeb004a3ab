"""Gradient norms before clipping, as the clipping functions themselves see them."""

from __future__ import annotations

from typing import Any, Iterable, List, Tuple

from seatrial.probe import tensors
from seatrial.probe.backward import Scales
from seatrial.probe.import_hooks import AfterImport
from seatrial.probe.session import Session
from seatrial.probe.tally import Clip, Tally
from seatrial.probe.wrapping import wrap


class ClipWatch:
    """Wraps what clips gradients and remembers the norm that it found.

    Args:
        torch: the module.
        session: the probe's state.
        tally: gets the norms.
        scales: knows the factor that gradients carry.
    """

    def __init__(self, torch: Any, session: Session, tally: Tally, scales: Scales) -> None:
        self._torch = torch
        self._session = session
        self._tally = tally
        self._scales = scales
        guard = session.faults.guard
        self._members = guard("clip", self._with_grads, [])
        self._measure = guard("clip", self._norm_of, ([], None))
        self._note = guard("clip", self._remember)

    def install(self, hooks: AfterImport) -> None:
        """Watch ``clip_grad_norm_`` and ``clip_grad_value_``, and FSDP1's own method."""
        utils = self._torch.nn.utils
        wrap([utils, utils.clip_grad], "clip_grad_norm_", self._make_norm)
        wrap([utils, utils.clip_grad], "clip_grad_value_", self._make_value)

        def install_fsdp1(module: Any) -> None:
            wrap([module.FullyShardedDataParallel], "clip_grad_norm_", self._make_sharded)

        hooks.add("torch.distributed.fsdp.fully_sharded_data_parallel", install_fsdp1)

    def _with_grads(self, parameters: Any) -> List[Any]:
        one = isinstance(parameters, self._torch.Tensor)
        listed: Iterable[Any] = [parameters] if one else parameters
        return [p for p in listed if p.grad is not None]

    def _norm_of(self, parameters: Any) -> Tuple[List[Any], Any]:
        members = self._with_grads(parameters)
        return members, tensors.total_norm(self._torch, [p.grad for p in members])

    def _remember(self, members: List[Any], norm: Any) -> None:
        if members and norm is not None:
            names = frozenset(id(p) for p in members)
            self._tally.clips.append(Clip(names, norm, self._scales.scale_of_gradients()))

    def _make_norm(self, original: Any) -> Any:
        torch, session = self._torch, self._session

        def clip_grad_norm_(
            parameters: Any, max_norm: Any, norm_type: Any = 2.0, *args: Any, **kwargs: Any
        ) -> Any:
            if torch.compiler.is_compiling() or session.busy:
                return original(parameters, max_norm, norm_type, *args, **kwargs)
            members, norm = [], None
            parameters = _listed(parameters)
            if norm_type == 2:  # then the result is the figure that is wanted
                members = self._members(parameters)
            else:
                members, norm = self._measure(parameters)
            result = original(parameters, max_norm, norm_type, *args, **kwargs)
            self._note(members, result if norm is None else norm)
            return result

        return clip_grad_norm_

    def _make_value(self, original: Any) -> Any:
        torch, session = self._torch, self._session

        def clip_grad_value_(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or session.busy:
                return original(parameters, *args, **kwargs)
            parameters = _listed(parameters)
            members, norm = self._measure(parameters)
            result = original(parameters, *args, **kwargs)
            self._note(members, norm)
            return result

        return clip_grad_value_

    def _make_sharded(self, original: Any) -> Any:
        def clip_grad_norm_(self_: Any, *args: Any, **kwargs: Any) -> Any:
            members, norm = self._measure(list(self_.parameters()))
            result = original(self_, *args, **kwargs)
            self._note(members, norm)
            return result

        return clip_grad_norm_


def _listed(parameters: Any) -> Any:
    """Parameters as something that can be walked twice.

    An empty generator stays what it is, because torch warns about it.
    """
    if not hasattr(parameters, "__next__"):
        return parameters
    return list(parameters) or parameters
