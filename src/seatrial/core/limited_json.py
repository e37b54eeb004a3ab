"""JSON from files that others can write to: parsed with limits on size and nesting."""

from __future__ import annotations

from typing import Any

from seatrial.core import strict_json

MAX_DEPTH = 64
MAX_BYTES = 16 * 2**20


def parse_limited(data: bytes, max_depth: int = MAX_DEPTH) -> Any:
    """Strict JSON of a few bytes that may be anything.

    Raises:
        ValueError: not UTF-8, not JSON, a bare NaN, or nested deeper than ``max_depth``.
    """
    try:
        value = strict_json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError(f"nested deeper than {max_depth} levels") from None
    if _is_deeper(value, max_depth):
        raise ValueError(f"nested deeper than {max_depth} levels")
    return value


def _is_deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = [item for item in below if isinstance(item, (dict, list))]
        if not level:
            return False
    return True
