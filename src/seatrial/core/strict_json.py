"""Strict JSON: non-finite numbers are the strings "nan", "inf" and "-inf"."""

from __future__ import annotations

import json
import math
from typing import Any

_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode_number(value: float) -> float | str:
    """A number as strict JSON carries it."""
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def decode_number(value: Any) -> float | None:
    """A number read back from strict JSON; None when the value is no number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    return _NON_FINITE.get(value) if isinstance(value, str) else None


def encodable(value: Any) -> Any:
    """The same value with every non-finite float replaced by its string, recursively."""
    if isinstance(value, float):
        return encode_number(value)
    if isinstance(value, dict):
        return {str(key): encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(item) for item in value]
    return value


def dumps(value: Any, indent: int | None = None) -> str:
    """Serialise to strict JSON on one line (or indented).

    Raises:
        TypeError: a value has no JSON form.
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(
        encodable(value),
        allow_nan=False,
        ensure_ascii=True,  # lone surrogates (paths of odd bytes) survive as escapes
        indent=indent,
        separators=separators,
    )


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not strict JSON; write it as a string")


def loads(text: str) -> Any:
    """Parse strict JSON.

    Raises:
        ValueError: not JSON, or a bare NaN/Infinity.
    """
    return json.loads(text, parse_constant=_refuse_constant)
