"""What is asked of a capped child process, and what it answered. Values; ``process`` runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Tuple

EXITED = "exited"
TIMEOUT = "timeout"
MEMORY = "memory"
OUTPUT = "output"
STOPPED = "stopped"
NOT_STARTED = "not_started"


@dataclass(frozen=True)
class ChildRequest:
    """One program, run to its end under caps. Never through a shell.

    Attributes:
        argv: program and arguments.
        cwd: absolute working directory; None for the caller's own.
        env: its whole environment; None for the caller's own.
        stdin: everything that it can read from standard input.
        timeout_s: seconds until its whole session is killed.
        memory_bytes: resident memory of the child and its children together; None for no cap.
        output_bytes: of stdout, and of stderr; at the cap the child is killed.
    """

    argv: Tuple[str, ...]
    timeout_s: float
    cwd: Optional[str] = None
    env: Optional[Mapping[str, str]] = None
    stdin: bytes = b""
    memory_bytes: Optional[int] = None
    output_bytes: int = 16 * 2**20


@dataclass(frozen=True)
class ChildAnswer:
    """How a child ended.

    Attributes:
        reason: ``exited``, or what ended it: ``timeout``, ``memory``, ``output``, ``stopped``
            (by the caller), ``not_started``.
        exit_code: as the process left (negative: a signal); None unless it exited by itself.
        stdout, stderr: what it wrote, at most ``output_bytes`` each.
        seconds: wall time.
        peak_bytes: largest resident memory seen; 0 when it was never sampled.
        error: why it was not started.
    """

    reason: str
    exit_code: Optional[int] = None
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0
    peak_bytes: int = 0
    error: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether it left by itself with exit code 0."""
        return self.reason == EXITED and self.exit_code == 0


# The rooms of rules and checks start nothing themselves: they are handed one of these.
Ask = Callable[[ChildRequest], ChildAnswer]
