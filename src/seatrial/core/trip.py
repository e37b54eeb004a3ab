"""What gates are fed with and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

STOP = "stop"
WARN = "warn"
_TEXTS = ("gate", "action", "family", "message", "metric", "remedy")


@dataclass(frozen=True)
class Sample:
    """The process tree at one moment, as the supervisor sees it."""

    mono: float
    rss_bytes: int = 0
    cpu_seconds: float = 0.0
    processes: int = 0
    output_bytes: int = 0


@dataclass(frozen=True)
class Trip:
    """A gate tripped: trigger, value, step. ``action`` is ``stop`` or ``warn``."""

    gate: str
    action: str
    family: str
    message: str
    metric: str = ""
    observed: Any = None
    expected: Any = None
    step: Optional[int] = None
    rank: Optional[int] = None
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values (the ``data`` of a ``gate`` event)."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Trip:
        """Read back; unknown keys are ignored, and what is no text where one belongs is empty."""
        known = {key: item for key, item in value.items() if key in cls.__dataclass_fields__}
        for name in _TEXTS:
            item = known.get(name)
            known[name] = item if isinstance(item, str) else ""
        return cls(**known)
