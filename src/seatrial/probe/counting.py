"""Tokens and supervised tokens of one model call. Counts stay on their device until read."""

from __future__ import annotations

from typing import Any, Dict, List

from seatrial.probe import tensors

_IGNORED_LABEL = -100
# Only these hold the model in an attribute; a user's own class may call any layer ``module``.
_WRAPPER_CLASSES = {
    "DistributedDataParallel": "DDP",
    "DataParallel": "DataParallel",
    "FullyShardedDataParallel": "FSDP1",
    "OptimizedModule": "torch.compile",
    "DeepSpeedEngine": "DeepSpeed",
}


def first_call(torch: Any, args: Any, kwargs: Any) -> Dict[str, Any]:
    """Tensors of the call by name; positional ones are called arg0, arg1, ..."""
    fed: Dict[str, Any] = {}
    for index, value in enumerate(args):
        if isinstance(value, torch.Tensor):
            fed[f"arg{index}"] = value
        elif hasattr(value, "items"):
            fed.update((str(k), v) for k, v in value.items() if isinstance(v, torch.Tensor))
    fed.update((k, v) for k, v in kwargs.items() if isinstance(v, torch.Tensor))
    return fed


def tokens_of(fed: Dict[str, Any]) -> Any:
    """Tokens that are not padding, as a count or a 0-d tensor; None for inputs without tokens."""
    names = ("input_ids", "decoder_input_ids", "idx", "tokens", "arg0")
    ids = next((fed[name] for name in names if name in fed), None)
    if ids is None or not tensors.is_integer(ids) or not ids.dim():
        return None
    mask = fed.get("attention_mask")
    if mask is not None and mask.shape == ids.shape:
        return (mask != 0).sum()
    return ids.numel()


def supervised_tokens(module: Any, fed: Dict[str, Any]) -> Any:
    """Labels that count in the loss; causal language models never see the first of a row."""
    labels = fed.get("labels")
    if labels is None or not tensors.is_integer(labels):
        return None
    ids = fed.get("input_ids")
    names = class_names(module)
    shifts = "CausalLM" in names or "LMHeadModel" in names
    if shifts and ids is not None and labels.dim() == 2:
        labels = labels[..., 1:]
    return (labels != _IGNORED_LABEL).sum()


def loss_targets(counts: List[Any]) -> Any:
    """Sum of the targets of the losses computed inside a model; None without any."""
    return sum(counts[1:], counts[0]) if counts else None


def unwrapped(module: Any) -> List[Any]:
    """The module and what it wraps, from the outside in."""
    found = [module]
    while len(found) < 8 and type(found[-1]).__name__ in _WRAPPER_CLASSES:
        inner = getattr(found[-1], "_orig_mod", None)
        inner = inner if inner is not None else getattr(found[-1], "module", None)
        if inner is None or not hasattr(inner, "named_parameters"):
            break
        found.append(inner)
    return found


def class_names(module: Any) -> str:
    """Class names of the module, of what it wraps, and of their bases."""
    return " ".join(cls.__name__ for item in unwrapped(module) for cls in type(item).__mro__)


def wrapper_names(chain: List[Any]) -> List[str]:
    """What the wrappers of an unwrapped chain are called in events."""
    names = (type(item).__name__ for item in chain)
    return [_WRAPPER_CLASSES[name] for name in names if name in _WRAPPER_CLASSES]
