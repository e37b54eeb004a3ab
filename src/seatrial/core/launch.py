"""What supervisor, guard and terminal tell each other through files in the record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple, TypeVar

_T = TypeVar("_T", bound="_JsonValue")

# Why the supervisor ended the run; "natural" means that the runner left by itself.
END_REASONS = (
    "natural",
    "gate",  # a gate tripped; ``trigger`` says which
    "step_cap",
    "wall",
    "memory",
    "hung_after_success",
    "stop",  # `seatrial stop`
    "interrupt",  # Ctrl-C in the terminal that started it
    "supervisor_lost",  # written by the guard
    "spawn_failed",  # the runner could not be started at all
)


class _JsonValue:
    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(self).items()
        }

    @classmethod
    def from_json(cls: type[_T], value: Mapping[str, Any]) -> _T:
        """Read back; unknown keys are ignored.

        Raises:
            TypeError: a required field is missing.
        """
        known = cls.__dataclass_fields__  # type: ignore[attr-defined]  # every subclass is one
        return cls(
            **{
                key: tuple(item) if isinstance(item, list) else item
                for key, item in value.items()
                if key in known
            }
        )


@dataclass(frozen=True)
class StopRequest(_JsonValue):
    """Ask every rank to stop after it has finished step ``at_step``.

    ``at_step`` lies a little ahead of the furthest rank so that all ranks stop at one step and none
    waits for another in a collective; 0 means at the next step.
    """

    reason: str
    by: str
    t: str
    at_step: int = 0
    force: bool = False


@dataclass(frozen=True)
class Started(_JsonValue):
    """The runner was started. ``start_ticks`` (from the kernel) tells a reused pid apart."""

    pid: int
    t: str
    mono: float
    start_ticks: Optional[int] = None
    supervisor_pid: int = 0
    guard_pid: int = 0
    host: str = ""


@dataclass(frozen=True)
class Heartbeat(_JsonValue):
    """The supervisor is alive and this is what it sees."""

    t: str
    mono: float
    supervisor_pid: int
    supervisor_start_ticks: Optional[int]
    state: str
    step: Optional[int] = None
    planned: Optional[int] = None
    loss: Any = None
    rss_bytes: int = 0
    ranks: int = 0
    probe: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended(_JsonValue):
    """How the process ended. ``trigger`` is the gate's trip when ``reason`` is gate/memory/wall.

    ``signal`` is set when the runner died by one; ``forced`` when it had to be killed;
    ``left_running`` lists pids that would not go (it must be empty).
    """

    reason: str
    t: str
    seconds: float
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    forced: bool = False
    oom_killed: bool = False
    message: str = ""
    trigger: Optional[Mapping[str, Any]] = None
    peak_memory_bytes: int = 0
    left_running: Tuple[int, ...] = ()
    attach_report: Mapping[str, Any] = field(default_factory=dict)
