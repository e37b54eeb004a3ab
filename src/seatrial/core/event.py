"""Events: one line of an append-only file, written by one rank (or by the supervisor)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional

from seatrial.core import strict_json

VERSION = 1
EVENTS = (
    "run.state",
    "env",
    "model",
    "data.batch",
    "step",
    "eval",
    "save",
    "shadow",
    "gate",
    "resume",
    "probe.error",
    "train.end",
)


@dataclass(frozen=True)
class Event:
    """One event. ``t`` is UTC ISO-8601, ``mono`` seconds of the machine's monotonic clock.

    ``rank`` is None for the supervisor's own events.
    """

    seq: int
    t: str
    mono: float
    pid: int
    rank: Optional[int]
    event: str
    data: Mapping[str, Any] = field(default_factory=dict)


def to_line(event: Event) -> str:
    """The event as one line of strict JSON, newline included.

    Raises:
        TypeError: ``data`` holds a value that JSON has no form for.
    """
    return (
        strict_json.dumps(
            {
                "v": VERSION,
                "seq": event.seq,
                "t": event.t,
                "mono": event.mono,
                "pid": event.pid,
                "rank": event.rank,
                "event": event.event,
                "data": event.data,
            }
        )
        + "\n"
    )


def from_line(line: str) -> Event:
    """Parse one line. Unknown events and fields are kept in ``data`` or ignored.

    Raises:
        ValueError: not an event of this or an older version.
    """
    value = strict_json.loads(line)
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        raise ValueError("not an event object")
    data = value.get("data")
    try:
        rank = value.get("rank")
        return Event(
            seq=int(value["seq"]),
            t=str(value["t"]),
            mono=float(value["mono"]),
            pid=int(value["pid"]),
            rank=None if rank is None else int(rank),
            event=value["event"],
            data=data if isinstance(data, dict) else {},
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an event object: {error}") from error
