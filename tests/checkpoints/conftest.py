"""Small checkpoints, written byte by byte, so that every fault can be planted."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U8": 1, "BOOL": 1, "C64": 8,
         "F8_E5M2": 1, "F8_E4M3": 1}  # fmt: skip


def packed(dtype: str, values: list[float]) -> bytes:
    """Elements of a dtype."""
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    if dtype == "F8_E5M2":
        return b"".join(struct.pack("<e", value)[1:] for value in values)
    if dtype in ("U8", "BOOL", "F8_E4M3"):
        return bytes(int(value) for value in values)
    code = {"F64": "d", "F32": "f", "F16": "e", "I64": "q"}[dtype]
    return struct.pack(f"<{len(values)}{code}", *values)


def safetensors(tensors: Mapping[str, tuple[str, list[int], bytes]]) -> bytes:
    """A sound file: header and data."""
    header: dict[str, Any] = {}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    return with_header(header, b"".join(data for _, _, data in tensors.values()))


def with_header(header: Any, data: bytes) -> bytes:
    """Any header before any data; a text goes in as it is."""
    text = header if isinstance(header, str) else json.dumps(header)
    raw = text.encode()
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data


def floats(
    shape: list[int], value: float = 0.5, dtype: str = "F32"
) -> tuple[str, list[int], bytes]:
    """A tensor whose elements are all one value."""
    return dtype, shape, packed(dtype, [value] * math.prod(shape))


LLAMA = {
    "model_type": "llama", "vocab_size": 11, "hidden_size": 4, "intermediate_size": 6,
    "num_hidden_layers": 2, "tie_word_embeddings": False,
}  # fmt: skip


def llama(layers: int = 2, vocab: int = 11) -> dict[str, tuple[str, list[int], bytes]]:
    """Tensors of a very small Llama."""
    found = {"model.embed_tokens.weight": floats([vocab, 4]), "lm_head.weight": floats([vocab, 4])}
    for number in range(layers):
        at = f"model.layers.{number}"
        found[f"{at}.self_attn.q_proj.weight"] = floats([4, 4])
        found[f"{at}.mlp.gate_proj.weight"] = floats([6, 4])
        found[f"{at}.mlp.down_proj.weight"] = floats([4, 6])
        found[f"{at}.input_layernorm.weight"] = floats([4])
    return found


@pytest.fixture
def hf_folder(tmp_path: Path) -> Path:
    """A sound checkpoint of a small Llama."""
    folder = tmp_path / "out" / "checkpoint-10"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(safetensors(llama()))
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 10, "log_history": []}))
    return folder
