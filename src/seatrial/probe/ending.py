"""The end of the script: reached, or with an exception."""

from __future__ import annotations

import atexit
import os
import sys
import sysconfig
import threading
import traceback
from typing import Any, Dict

from seatrial.probe.session import Session

_TAIL_LINES = 20


def install(session: Session) -> None:
    """Write ``train.end`` of the process when its main thread has finished.

    ``threading`` tells it before it waits for threads that will not end; ``atexit`` comes after
    them, and is there for interpreters without that hook.
    """
    state: Dict[str, Any] = {"exception": None}
    describe = session.faults.guard("excepthook", describe_exception)
    finish = session.faults.guard("end", _finish)
    previous = sys.excepthook

    def excepthook(kind: Any, value: Any, trace: Any) -> None:
        state["exception"] = describe(kind, value, trace)
        previous(kind, value, trace)

    leave = session.faults.guard("end.group", session.leave_group)

    def ended() -> None:
        finish(session, state, describe)
        if session.stop.raised:
            leave()

    sys.excepthook = excepthook
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(ended)
    atexit.register(ended)


def _finish(session: Session, state: Dict[str, Any], describe: Any) -> None:
    if not session.writer.is_open or session.ended:
        return
    exception = state["exception"]
    last = getattr(sys, "last_value", None)
    if exception is None and last is not None:  # the script replaced sys.excepthook
        exception = describe(type(last), last, last.__traceback__)
    session.end_process("script_end" if exception is None else "exception", exception)


def describe_exception(kind: Any, value: Any, trace: Any) -> Dict[str, Any]:
    """Type, message, place in the user's own code, and the end of the traceback."""
    frames = traceback.extract_tb(trace)
    own = next((frame for frame in reversed(frames) if _is_users(frame.filename)), None)
    lines = "".join(traceback.format_exception(kind, value, trace)).splitlines()
    return {
        "type": kind.__name__,
        "message": str(value),
        "file": None if own is None else own.filename,
        "line": None if own is None else own.lineno,
        "traceback": "\n".join(lines[-_TAIL_LINES:]),
    }


def _is_users(file: str) -> bool:
    """Whether a frame is neither of the standard library nor of an installed package."""
    if file.startswith("<") or "site-packages" in file or "dist-packages" in file:
        return False
    library = sysconfig.get_path("stdlib") or os.path.dirname(os.__file__)
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return not os.path.abspath(file).startswith((library + os.sep, ours + os.sep))
