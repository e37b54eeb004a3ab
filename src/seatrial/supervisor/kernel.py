"""What only Linux offers: adopting orphans and dying with one's parent (``prctl``)."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, Callable, Optional

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def _prctl() -> Optional[Callable[..., Any]]:
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return None


def adopt_orphans() -> bool:
    """Become the parent of every descendant whose own parent dies; False where that is unknown."""
    prctl = _prctl()
    return prctl is not None and prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent(parent: int) -> Callable[[], None]:
    """A function for the child, between fork and exec: ask for SIGTERM when ``parent`` dies.

    The supervisor's death is followed up by the guard; this reaches the direct child even when
    both are gone. A parent that died before the request took effect is noticed by its pid.
    """
    prctl = _prctl()

    def in_child() -> None:
        for number in (
            signal.SIGHUP,
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGPIPE,
            signal.SIGCHLD,
        ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)

    return in_child


def ignore_terminal_signals() -> None:
    """Outlive the terminal. Handlers, not SIG_IGN: a program that is started would inherit that."""

    def nothing(_number: int, _frame: object) -> None:
        """The signal is not for us."""

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGQUIT):
        signal.signal(number, nothing)
