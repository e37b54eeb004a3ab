"""What enters the model: batches, tokens, supervised tokens.

Global module hooks look at the outermost call that builds a graph. They are global, not of one
module, because hooks of a module travel into whatever the script pickles or copies. As soon as
something is compiled they go away: a traced hook would change how the graph is cut, and with it
the numbers. Token counts are then unknown.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from seatrial.probe import tensors
from seatrial.probe.counting import first_call, loss_targets, supervised_tokens, tokens_of
from seatrial.probe.session import Session
from seatrial.probe.tally import Tally
from seatrial.probe.wrapping import wrap

_FIRST_BATCHES = 64
_THEN_EVERY = 50
_DIGEST_LIMIT = 1 << 20
_MAX_ROOTS = 8


class _Fed(NamedTuple):
    """One call of a model: what it was given and what was counted in it."""

    tensors: Dict[str, Any]
    tokens: Any
    supervised: Any


class InputWatch:
    """Remembers the models and counts what they are fed with.

    Attributes:
        roots: weak references to the modules that were called outermost, in order; the scripts that
            call more (a GAN, an encoder and a decoder) are few, so only the first eight are kept.
    """

    def __init__(self, torch: Any, session: Session, tally: Tally) -> None:
        self._torch = torch
        self._session = session
        self._tally = tally
        self._handles: List[Any] = []
        self._running: Optional[int] = None
        self._loss_targets: List[Any] = []
        self._uncertain: List[_Fed] = []
        self._batches = 0
        self.roots: List[Callable[[], Any]] = []

    def install(self) -> None:
        """Register the hooks."""
        modules = self._torch.nn.modules.module
        guard = self._session.faults.guard
        enter, leave = guard("forward.begin", self._enter), guard("forward.end", self._leave)
        session = self._session

        def before(module: Any, _args: Any) -> None:
            if not session.busy:
                enter(module)

        def after(module: Any, args: Any, kwargs: Any, output: Any = None) -> None:
            # A call that raised comes here too, with its (absent) output in place of kwargs.
            if self._running == id(module):
                self._running = None
                session.busy -= 1
                if output is not None:
                    leave(module, args, kwargs)

        self._handles = [
            modules.register_module_forward_pre_hook(before),
            modules.register_module_forward_hook(after, with_kwargs=True, always_call=True),
        ]
        self._watch_compile()
        self._watch_cross_entropy()

    def remove(self) -> None:
        """Take the hooks away; nothing more is counted."""
        modules = self._torch.nn.modules.module
        for handle in self._handles:
            handle.remove()
            # torch leaves this entry behind, and warns at each compiled call as long as it is there
            getattr(modules, "_global_forward_hooks_with_kwargs", {}).pop(handle.id, None)
        self._handles = []
        if self._running is not None:
            self._running = None
            self._session.busy -= 1

    def remember(self, module: Any) -> None:
        """Take a module for a model."""
        if len(self.roots) < _MAX_ROOTS and all(known() is not module for known in self.roots):
            self.roots.append(weakref.ref(module))

    def _enter(self, module: Any) -> None:
        torch = self._torch
        if (
            not torch.is_grad_enabled()
            or torch._C._get_tracing_state() is not None  # noqa: SLF001 - there is no other way
            or next(module.parameters(), None) is None  # a loss, an activation
        ):
            return
        self._running = id(module)
        self._session.busy += 1
        self._loss_targets.clear()
        if not self._batches:
            self._tally.finished()  # the first step's time counts from its first batch
        if module.training:
            self._uncertain.clear()

    def _leave(self, module: Any, args: Any, kwargs: Any) -> None:
        if self._session.is_data_worker():
            return
        fed = first_call(self._torch, args, kwargs)
        supervised = supervised_tokens(module, fed)
        if supervised is None:
            supervised = loss_targets(self._loss_targets)
        self._loss_targets.clear()
        self.remember(module)
        entry = _Fed(fed, tokens_of(fed), supervised)
        if module.training:
            self._count(entry)
        else:  # an evaluation that forgot no_grad, or training that forgot train()
            self._uncertain = [*self._uncertain[-_MAX_ROOTS:], entry]

    def backward_begins(self) -> None:
        """What a model in evaluation mode was fed with is trained on after all."""
        for entry in self._uncertain:
            self._count(entry)
        self._uncertain.clear()

    def _count(self, entry: _Fed) -> None:
        if entry.tokens is not None:
            self._tally.tokens.append(entry.tokens)
        if entry.supervised is not None:
            self._tally.supervised.append(entry.supervised)
        self._tally.micro += 1
        self._batches += 1
        if self._batches <= _FIRST_BATCHES or self._batches % _THEN_EVERY == 0:
            self._write_batch(entry)

    def _write_batch(self, entry: _Fed) -> None:
        tokens, supervised = entry.tokens, entry.supervised
        self._session.write(
            "data.batch",
            {
                "step": self._session.rounds.step + 1,
                "micro": self._tally.micro,
                "shapes": {name: list(tensor.shape) for name, tensor in entry.tensors.items()},
                "tokens": None if tokens is None else int(tokens),
                "supervised_tokens": None if supervised is None else int(supervised),
                "digest": tensors.inputs_digest(entry.tensors, _DIGEST_LIMIT),
            },
            plain=True,
        )

    def _watch_cross_entropy(self) -> None:
        """Count targets of losses that are computed outside a model that was given labels."""
        torch, session = self._torch, self._session

        def note(target: Any, ignore_index: Any) -> None:
            if torch._C._get_tracing_state() is not None:  # noqa: SLF001 - as above
                return
            if target.dtype.is_floating_point:  # class probabilities: one row, one target
                count: Any = target.shape[0] if target.dim() else 1
            else:
                count = (target != ignore_index).sum()
            (self._loss_targets if session.busy else self._tally.supervised).append(count)

        noted = session.faults.guard("cross_entropy", note)

        def make(original: Any) -> Any:
            def cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - torch's name
                result = original(input, target, *args, **kwargs)
                if torch.compiler.is_compiling() or not self._handles:
                    return result
                if not session.in_backward and torch.is_grad_enabled() and result.requires_grad:
                    noted(target, args[2] if len(args) > 2 else kwargs.get("ignore_index", -100))
                return result

            return cross_entropy

        wrap([torch.nn.functional], "cross_entropy", make)

    def _watch_compile(self) -> None:
        remove = self._session.faults.guard("compile", self.remove)
        remember = self._session.faults.guard("compile", self._remember_compiled)

        def make_compile(original: Any) -> Any:
            def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001 - torch's name
                remove()
                remember(args[0] if args else kwargs.get("model"))
                return original(*args, **kwargs)

            return compile

        wrap([self._torch], "compile", make_compile)
        wrap([self._torch.nn.Module], "compile", make_compile)

    def _remember_compiled(self, model: Any) -> None:
        if isinstance(model, self._torch.nn.Module):
            self.remember(model)
