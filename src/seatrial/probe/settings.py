"""What the supervisor told this process, read once when the interpreter starts."""

from __future__ import annotations

TYPE_CHECKING = False  # typing itself would cost every interpreter of the run milliseconds
if TYPE_CHECKING:
    from typing import Mapping, Optional, Tuple


class Settings:
    """The run's settings for the probe.

    Taken at the start of the interpreter, because a script may change its environment, its working
    directory or its path later.

    Attributes:
        record: absolute path of the record.
        max_steps: step cap in update rounds of the process, None without one.
        deadline: wall deadline on the monotonic clock in seconds, None without one.
        secrets: names of variables that are secret whatever they are called.
    """

    def __init__(self, record: str, environ: Mapping[str, str]) -> None:
        self.record = record
        self.run_id = environ.get("SEATRIAL_RUN_ID", "")
        self.max_steps = _positive_int(environ.get("SEATRIAL_MAX_STEPS"))
        self.deadline = _number(environ.get("SEATRIAL_DEADLINE"))
        names = environ.get("SEATRIAL_SECRET_NAMES", "")
        self.secrets: Tuple[str, ...] = tuple(name for name in names.split(",") if name)
        # Values may be changed by the script, and both old and new ones are secret.
        self.environ = dict(environ)


def _positive_int(text: Optional[str]) -> Optional[int]:
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if value > 0 else None


def _number(text: Optional[str]) -> Optional[float]:
    try:
        return float(text or "")
    except ValueError:
        return None
