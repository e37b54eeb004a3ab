"""How a process ended, from the status that the kernel gave."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple, Optional


class ExitStatus(NamedTuple):
    """Exactly one of ``exit_code`` and ``signal`` is set."""

    exit_code: Optional[int]
    signal: Optional[int]

    @property
    def is_success(self) -> bool:
        """Left by itself with 0."""
        return self.exit_code == 0

    @property
    def looks_killed(self) -> bool:
        """SIGKILL, also as a shell reports it of its own child (128 + 9)."""
        return self.signal == signal.SIGKILL or self.exit_code == 128 + signal.SIGKILL

    def __str__(self) -> str:
        if self.signal is not None:
            return f"ended by signal {self.signal} ({signal_name(self.signal)})"
        code = self.exit_code or 0
        if code > 128 and signal_name(code - 128):
            return f"left with exit code {code} (as a shell reports {signal_name(code - 128)})"
        return f"left with exit code {code}"


def decode_status(status: int) -> ExitStatus:
    """The kernel's wait status as values."""
    if os.WIFSIGNALED(status):
        return ExitStatus(None, os.WTERMSIG(status))
    return ExitStatus(os.WEXITSTATUS(status), None)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; empty for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""
