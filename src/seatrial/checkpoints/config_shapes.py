"""Tensor shapes against ``config.json``, for the architectures whose names this version knows.

Padded vocabularies, tied embeddings and packed (quantised) weights are no faults; anything unknown
is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.checkpoints.scan import TensorScan

_LLAMA_LIKE = frozenset({"llama", "mistral", "qwen2"})
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_LLAMA_LAYER = re.compile(r"^model\.layers\.(\d{1,6})\.(.+)$")
_GPT2_LAYER = re.compile(r"^(?:transformer\.)?h\.(\d{1,6})\.(.+)$")


@dataclass(frozen=True)
class ShapeFault:
    """A tensor, or the lack of one, that does not fit the configuration."""

    message: str
    tensor: str
    observed: Any
    expected: Any


def is_known(config: Mapping[str, Any]) -> bool:
    """Whether the shapes of this configuration can be judged."""
    return config.get("model_type") in _LLAMA_LIKE | {"gpt2"} and not config.get(
        "quantization_config"
    )


def shape_faults(config: Mapping[str, Any], tensors: Mapping[str, TensorScan]) -> list[ShapeFault]:
    """What does not fit; empty when all does, or when there is nothing to compare.

    Args:
        config: of a known architecture.
        tensors: all tensors of the checkpoint, by name.
    """
    plain = {name: entry for name, entry in tensors.items() if entry.dtype in _FLOATS}
    if config.get("model_type") == "gpt2":
        return _gpt2(config, plain)
    return _llama(config, plain)


def _size(config: Mapping[str, Any], name: str) -> int | None:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _llama(config: Mapping[str, Any], tensors: Mapping[str, TensorScan]) -> list[ShapeFault]:
    hidden, inner = _size(config, "hidden_size"), _size(config, "intermediate_size")
    vocabulary = _size(config, "vocab_size")
    wanted: dict[str, tuple[int | None, ...]] = {
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "self_attn.q_proj.weight": (None, hidden),
        "self_attn.o_proj.weight": (hidden, None),
        "input_layernorm.weight": (hidden,),
    }
    found = []
    layers = set()
    for name, entry in tensors.items():
        part = _LLAMA_LAYER.match(name)
        if part is not None:
            layers.add(int(part.group(1)))
            if part.group(2) in wanted:
                found += _compare(entry, wanted[part.group(2)])
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in tensors:
            found += _embedding(tensors[name], vocabulary, hidden)
    found += _layers(layers, _size(config, "num_hidden_layers"), "model.layers")
    if layers and "model.embed_tokens.weight" not in tensors:
        found.append(
            ShapeFault(
                "it has layers and no model.embed_tokens.weight", "model.embed_tokens.weight",
                None, [vocabulary, hidden],
            )
        )  # fmt: skip
    if layers and config.get("tie_word_embeddings") is False and "lm_head.weight" not in tensors:
        found.append(
            ShapeFault(
                "config.json says that the embeddings are not tied, and there is no lm_head.weight",
                "lm_head.weight", None, [vocabulary, hidden],
            )
        )  # fmt: skip
    return found


def _gpt2(config: Mapping[str, Any], tensors: Mapping[str, TensorScan]) -> list[ShapeFault]:
    width = _size(config, "n_embd")
    found = []
    layers = set()
    for name, entry in tensors.items():
        part = _GPT2_LAYER.match(name)
        if part is not None:
            layers.add(int(part.group(1)))
            if part.group(2) == "ln_1.weight":
                found += _compare(entry, (width,))
    for name in ("transformer.wte.weight", "wte.weight"):
        if name in tensors:
            found += _embedding(tensors[name], _size(config, "vocab_size"), width)
    return found + _layers(layers, _size(config, "n_layer"), "h")


def _compare(entry: TensorScan, wanted: tuple[int | None, ...]) -> list[ShapeFault]:
    fits = len(entry.shape) == len(wanted) and all(
        want is None or size == want for size, want in zip(entry.shape, wanted, strict=False)
    )
    if fits:
        return []
    return [
        ShapeFault(
            f"{entry.name} has shape {list(entry.shape)}; config.json makes it "
            f"[{', '.join('any' if want is None else str(want) for want in wanted)}]",
            entry.name,
            list(entry.shape),
            list(wanted),
        )
    ]


def _embedding(entry: TensorScan, vocabulary: int | None, hidden: int | None) -> list[ShapeFault]:
    """Rows beyond the vocabulary are padding; too few are a fault."""
    if len(entry.shape) == 2 and vocabulary is not None and entry.shape[0] >= vocabulary:
        return _compare(entry, (None, hidden))
    return _compare(entry, (vocabulary, hidden))


def _layers(layers: set[int], wanted: int | None, prefix: str) -> list[ShapeFault]:
    if not layers or wanted is None:
        return []
    missing = sorted(set(range(min(wanted, 10_000))) - layers)
    beyond = sorted(number for number in layers if number >= wanted)
    if not missing and not beyond:
        return []
    which = f"layer {missing[0]} is missing" if missing else f"it also has layer {beyond[0]}"
    return [
        ShapeFault(
            f"config.json has {wanted} layers; {which}",
            f"{prefix}.{(missing or beyond)[0]}",
            len(layers),
            wanted,
        )
    ]
