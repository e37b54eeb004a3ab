"""What enters the model: batches, tokens, supervised tokens.

Global module hooks look at the outermost call in training mode. They are global, not of one
module, because hooks of a module travel into whatever the script pickles or copies. As soon as
something is compiled they go away: a traced hook would change how the graph is cut, and with it
the numbers. Token counts are then unknown.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional

from seatrial.probe import tensors
from seatrial.probe.session import Session
from seatrial.probe.tally import Tally
from seatrial.probe.wrapping import wrap

_FIRST_BATCHES = 64
_THEN_EVERY = 50
_DIGEST_LIMIT = 1 << 20
_IGNORED_LABEL = -100


class InputWatch:
    """Remembers the model and counts what it is fed with.

    Attributes:
        root: weak reference to the module that was called outermost last; None before.
    """

    def __init__(self, torch: Any, session: Session, tally: Tally) -> None:
        self._torch = torch
        self._session = session
        self._tally = tally
        self._handles: List[Any] = []
        self._running: Optional[int] = None
        self._loss_targets: List[Any] = []
        self._batches = 0
        self.root: Optional[Callable[[], Any]] = None

    def install(self) -> None:
        """Register the hooks."""
        modules = self._torch.nn.modules.module
        guard = self._session.faults.guard
        enter, leave = guard("forward.begin", self._enter), guard("forward.end", self._leave)

        def before(module: Any, _args: Any) -> None:
            enter(module)

        def after(module: Any, args: Any, kwargs: Any, _output: Any) -> None:
            if self._running == id(module):
                leave(module, args, kwargs)

        self._handles = [
            modules.register_module_forward_pre_hook(before),
            modules.register_module_forward_hook(after, with_kwargs=True, always_call=True),
        ]
        self._watch_compile()
        self._watch_cross_entropy()

    def remove(self) -> None:
        """Take the hooks away; nothing more is counted."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._running is not None:
            self._running = None
            self._session.busy -= 1

    def remember(self, module: Any) -> None:
        """Take a module for the model."""
        self.root = weakref.ref(module)

    def _enter(self, module: Any) -> None:
        if self._session.busy or not module.training or not self._torch.is_grad_enabled():
            return
        self._running = id(module)
        self._session.busy += 1
        self._loss_targets.clear()
        if self.root is None or self.root() is not module:
            self.remember(module)

    def _leave(self, module: Any, args: Any, kwargs: Any) -> None:
        self._running = None
        self._session.busy -= 1
        if self._session.is_data_worker():
            return
        fed = self._fed(args, kwargs)
        tokens = _tokens(self._torch, fed)
        supervised = _supervised(self._torch, module, fed)
        if supervised is None and self._loss_targets:
            supervised = sum(self._loss_targets[1:], self._loss_targets[0])
        self._loss_targets.clear()
        if tokens is not None:
            self._tally.tokens.append(tokens)
        if supervised is not None:
            self._tally.supervised.append(supervised)
        self._tally.micro += 1
        self._batches += 1
        if self._batches <= _FIRST_BATCHES or self._batches % _THEN_EVERY == 0:
            self._write_batch(fed, tokens, supervised)

    def _fed(self, args: Any, kwargs: Any) -> Dict[str, Any]:
        """Tensors of the call by name; positional ones are called arg0, arg1, ..."""
        fed: Dict[str, Any] = {}
        for index, value in enumerate(args):
            if isinstance(value, self._torch.Tensor):
                fed[f"arg{index}"] = value
            elif hasattr(value, "items"):
                fed.update(
                    (str(k), v) for k, v in value.items() if isinstance(v, self._torch.Tensor)
                )
        fed.update((k, v) for k, v in kwargs.items() if isinstance(v, self._torch.Tensor))
        return fed

    def _write_batch(self, fed: Dict[str, Any], tokens: Any, supervised: Any) -> None:
        self._session.write(
            "data.batch",
            {
                "step": self._session.rounds.step + 1,
                "micro": self._tally.micro,
                "shapes": {name: list(tensor.shape) for name, tensor in fed.items()},
                "tokens": None if tokens is None else int(tokens),
                "supervised_tokens": None if supervised is None else int(supervised),
                "digest": tensors.inputs_digest(self._torch, fed, _DIGEST_LIMIT),
            },
        )

    def _watch_cross_entropy(self) -> None:
        """Count targets of losses that are computed outside a model that was given labels."""
        torch, session = self._torch, self._session

        def note(target: Any, ignore_index: Any) -> None:
            if target.dtype.is_floating_point:  # class probabilities: one row, one target
                count: Any = target.shape[0] if target.dim() else 1
            else:
                count = (target != ignore_index).sum()
            (self._loss_targets if session.busy else self._tally.supervised).append(count)

        noted = session.faults.guard("cross_entropy", note)

        def make(original: Any) -> Any:
            def cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - torch's name
                result = original(input, target, *args, **kwargs)
                if (
                    self._handles
                    and not session.in_backward
                    and not torch.compiler.is_compiling()
                    and torch.is_grad_enabled()
                ):
                    ignored = args[2] if len(args) > 2 else kwargs.get("ignore_index", -100)
                    noted(target, ignored)
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


def _first(fed: Dict[str, Any], *names: str) -> Any:
    return next((fed[name] for name in names if name in fed), None)


def _tokens(torch: Any, fed: Dict[str, Any]) -> Any:
    """Tokens that are not padding, as a count or a 0-d tensor; None for inputs without tokens."""
    ids = _first(fed, "input_ids", "decoder_input_ids", "idx")
    if ids is None:
        ids = fed.get("arg0")
        if ids is None or not tensors.is_integer(torch, ids):
            return None
    mask = fed.get("attention_mask")
    if mask is not None and mask.shape == ids.shape:
        return (mask != 0).sum()
    return ids.numel()


def _supervised(torch: Any, module: Any, fed: Dict[str, Any]) -> Any:
    """Labels that count in the loss; causal language models never see the first of a row."""
    labels = fed.get("labels")
    if labels is None or not tensors.is_integer(torch, labels):
        return None
    ids = fed.get("input_ids")
    if "CausalLM" in class_names(module) and ids is not None and labels.dim() == 2:
        labels = labels[..., 1:]
    return (labels != _IGNORED_LABEL).sum()


def unwrapped(module: Any) -> List[Any]:
    """The module and what it wraps, from the outside in."""
    found = [module]
    while len(found) < 8:
        inner = getattr(found[-1], "module", None) or getattr(found[-1], "_orig_mod", None)
        if inner is None or not hasattr(inner, "named_parameters"):
            break
        found.append(inner)
    return found


def class_names(module: Any) -> str:
    """Class names of the module and of what it wraps."""
    return " ".join(type(item).__name__ for item in unwrapped(module))
