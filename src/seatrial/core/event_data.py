"""Numbers out of an event's data, which may be missing, odd or strings such as "nan"."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, Optional, Tuple

from seatrial.core.event import Event
from seatrial.core.strict_json import decode_number

# What one curve belongs to: several processes may share a rank, several segments a process.
Lane = Tuple[Optional[int], int, int]


def number(data: Mapping[str, Any], name: str) -> Optional[float]:
    """The number under ``name``, nan and inf included; None when there is none."""
    return as_number(data.get(name))


def as_number(value: Any) -> Optional[float]:
    """A JSON value as a number; None when it is none, or too large to be one."""
    try:
        return decode_number(value)
    except OverflowError:  # JSON carries integers of any length
        return None


def whole(data: Mapping[str, Any], name: str) -> Optional[int]:
    """The integer under ``name``; None when there is none."""
    value = number(data, name)
    return None if value is None or not math.isfinite(value) else int(value)


def rates(data: Mapping[str, Any]) -> Tuple[float, ...]:
    """The learning rates of all parameter groups."""
    value = data.get("lr")
    items: List[Any] = value if isinstance(value, list) else [value]
    return tuple(rate for rate in map(as_number, items) if rate is not None)


def learns(data: Mapping[str, Any]) -> bool:
    """Whether the step could change weights: a positive lr, or none reported."""
    known = rates(data)
    return not known or any(rate > 0 for rate in known)


def lane(event: Event) -> Lane:
    """Rank, process and segment of a step event."""
    return (event.rank, event.pid, whole(event.data, "segment") or 0)


def text(data: Mapping[str, Any], name: str) -> str:
    """The text under ``name``; empty when there is none."""
    value = data.get(name)
    return value if isinstance(value, str) else ""
