"""Running the command that turns an ended record into result and report."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import Callable, Optional, Sequence

_LIMIT_S = 600.0
# Tells the finalizer that the legs' command line and environment are on its standard input. They
# never touch the disk, and a finalizer without them executes nothing of the user's.
LEGS_FLAG = "--legs"


def run_finalizer(
    command: Sequence[str],
    log: str,
    every_second: Optional[Callable[[], None]] = None,
    legs: Optional[bytes] = None,
    legs_s: float = 0.0,
) -> Optional[int]:
    """Run the finalizer to its end; whatever it does, the run has ended as it has.

    Args:
        command: of the plan; nothing is run when it is empty.
        log: file that takes its output.
        every_second: called while it runs.
        legs: the launch message, which lets the finalizer make the legs behind the main one.
        legs_s: seconds that these may take.

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
            [*command, LEGS_FLAG] if legs is not None else list(command),
            stdin=subprocess.DEVNULL if legs is None else subprocess.PIPE,
            stdout=handle,
            stderr=handle,
            cwd=os.path.dirname(log) if os.path.isdir(os.path.dirname(log)) else "/",
        )
    except (OSError, ValueError) as error:
        os.write(handle, f"the finalizer {command[0]} cannot be started: {error}\n".encode())
        return None
    finally:
        os.close(handle)
    if legs is not None:
        # A thread of its own: a finalizer that does not read must not hold the heartbeat up.
        threading.Thread(target=_hand_over, args=(child, legs), daemon=True).start()
    end = time.monotonic() + _LIMIT_S + legs_s
    while time.monotonic() < end:
        code = _wait_a_second(child)
        if code is not None:
            return code
        if every_second is not None:
            every_second()
    child.kill()
    child.wait()
    return None


def _hand_over(child: subprocess.Popen[bytes], legs: bytes) -> None:
    try:
        if child.stdin is not None:
            child.stdin.write(legs)
            child.stdin.close()
    except OSError:  # it left without reading: it then makes no legs
        return


def _wait_a_second(child: subprocess.Popen[bytes]) -> Optional[int]:
    try:
        return child.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return None
