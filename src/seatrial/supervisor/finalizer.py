"""Running the command that turns an ended record into result and report."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Callable, Optional, Sequence

_LIMIT_S = 600.0


def run_finalizer(
    command: Sequence[str], log: str, every_second: Optional[Callable[[], None]] = None
) -> Optional[int]:
    """Run the finalizer to its end; whatever it does, the run has ended as it has.

    Args:
        command: of the plan; nothing is run when it is empty.
        log: file that takes its output.
        every_second: called while it runs.

    Returns:
        Its exit code, None when it was not run, could not be started or took too long.
    """
    if not command:
        return None
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError:
        handle = os.open(os.devnull, os.O_WRONLY)
    try:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            cwd=os.path.dirname(log) if os.path.isdir(os.path.dirname(log)) else "/",
        )
    except (OSError, ValueError) as error:
        os.write(handle, f"the finalizer {command[0]} cannot be started: {error}\n".encode())
        return None
    finally:
        os.close(handle)
    end = time.monotonic() + _LIMIT_S
    while time.monotonic() < end:
        code = _wait_a_second(child)
        if code is not None:
            return code
        if every_second is not None:
            every_second()
    child.kill()
    child.wait()
    return None


def _wait_a_second(child: subprocess.Popen[bytes]) -> Optional[int]:
    try:
        return child.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return None
