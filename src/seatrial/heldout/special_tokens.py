"""The special tokens that a checkpoint's tokenizer files name, for a prompt contract."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

_FILES = ("tokenizer_config.json", "special_tokens_map.json")
_MAX_BYTES = 64 << 20


def special_tokens(folders: Iterable[str]) -> dict[str, str]:
    """``bos_token``, ``eos_token`` and their kin, of the first folder that names any."""
    for folder in folders:
        found: dict[str, str] = {}
        for name in _FILES:
            for key, value in _read(os.path.join(folder, name)).items():
                text = value.get("content") if isinstance(value, dict) else value
                if key.endswith("_token") and isinstance(text, str):
                    found[key] = text
        if found:
            return found
    return {}


def _read(path: str) -> dict[str, Any]:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _MAX_BYTES:
            return {}
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
