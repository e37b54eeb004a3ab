"""The model as it is really set up: sizes, dtypes, devices, wrappers, sharding, adapters."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

from seatrial.probe.counting import unwrapped, wrapper_names

_MAX_PLACEMENTS = 8


def summarize(module: Any, optimizer: Any) -> Dict[str, Any]:
    """The data of a ``model`` event.

    Args:
        module: the outermost module, None when it was never seen.
        optimizer: whose parameters count when there is no module.
    """
    named = _parameters(module, optimizer)
    dtypes: Dict[str, int] = {}
    devices: Dict[str, int] = {}
    trainable = total = 0
    for _, parameter in named:
        size = parameter.numel()
        total += size
        trainable += size if parameter.requires_grad else 0
        dtype, device = str(parameter.dtype).replace("torch.", ""), str(parameter.device)
        dtypes[dtype] = dtypes.get(dtype, 0) + size
        devices[device] = devices.get(device, 0) + size
    chain = unwrapped(module) if module is not None else []
    modules = list(module.modules()) if module is not None else []
    return {
        "name": _name(chain[-1]) if chain else None,
        "parameters": total,
        "trainable": trainable,
        "dtypes": dtypes,
        "devices": devices,
        "wrappers": _wrappers(chain, modules),
        "fsdp": _fsdp(modules),
        "zero_stage": _zero_stage(chain),
        "placements": _placements([parameter for _, parameter in named]),
        "lora": _lora(modules, named),
        "checkpointing": any(getattr(m, "gradient_checkpointing", False) is True for m in modules),
        "training": bool(module.training) if module is not None else None,
    }


def _parameters(module: Any, optimizer: Any) -> List[Any]:
    if module is not None:
        return list(module.named_parameters())
    if optimizer is None:
        return []
    return [
        (f"group{index}.{place}", parameter)
        for index, group in enumerate(optimizer.param_groups)
        for place, parameter in enumerate(group["params"])
    ]


def _name(module: Any) -> str:
    """The class's name; FSDP2 makes a class of its own in front of the model's."""
    classes = [cls.__name__ for cls in type(module).__mro__]
    own = [name for name in classes[1:] if name != "FSDPModule"]
    return own[0] if "FSDPModule" in classes and own else classes[0]


def _wrappers(chain: List[Any], modules: List[Any]) -> List[str]:
    found = wrapper_names(chain)
    if _fsdp(modules) == "fsdp2":
        found.append("FSDP2")
    return found


def _fsdp(modules: List[Any]) -> Optional[str]:
    """``fsdp1``, ``fsdp2`` or None, by the classes that are really there."""
    names = [cls.__name__ for module in modules for cls in type(module).__mro__]
    if "FullyShardedDataParallel" in names:
        return "fsdp1"
    return "fsdp2" if "FSDPModule" in names else None


def _zero_stage(chain: List[Any]) -> Optional[int]:
    for module in chain:
        stage = getattr(module, "zero_optimization_stage", None)
        if callable(stage) and type(module).__name__ == "DeepSpeedEngine":
            return int(stage())
    return None


def _placements(parameters: List[Any]) -> List[str]:
    found: List[str] = []
    for parameter in parameters:
        placements = getattr(parameter, "placements", None)
        text = str(tuple(placements)) if placements is not None else ""
        if text and text not in found:
            found.append(text)
    return found[:_MAX_PLACEMENTS]


def _lora(modules: List[Any], named: List[Any]) -> Optional[Dict[str, Any]]:
    """Adapters that PEFT really put in: names, rank, layers, trainable share."""
    layers = [module for module in modules if hasattr(module, "lora_A") and hasattr(module, "r")]
    if not layers or "peft" not in sys.modules:
        return None
    first = layers[0]
    ranks = first.r if isinstance(first.r, dict) else {"default": first.r}
    active = getattr(first, "active_adapters", None) or list(ranks)
    adapters = list(active() if callable(active) else active)
    lora = [p for name, p in named if "lora_" in name]
    return {
        "adapters": [str(name) for name in adapters],
        "rank": {str(name): int(rank) for name, rank in ranks.items()},
        "layers": len(layers),
        "parameters": sum(p.numel() for p in lora),
        "trainable": sum(p.numel() for p in lora if p.requires_grad),
        "other_trainable": sum(p.numel() for n, p in named if p.requires_grad and "lora_" not in n),
    }
