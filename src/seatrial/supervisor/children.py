"""Collecting dead children, our own and adopted ones, in one place."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Tuple

from seatrial.supervisor.exit_status import ExitStatus, decode_status


def collect_dead() -> Tuple[List[Tuple[int, ExitStatus]], bool]:
    """Every child that has ended since the last call, and whether none is left. Never waits."""
    found: List[Tuple[int, ExitStatus]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found, True
        if pid == 0:
            return found, False
        found.append((pid, decode_status(status)))


class Children:
    """Remembers how the runner ended, and lists the others.

    Args:
        runner: pid of the runner.
    """

    def __init__(self, runner: int) -> None:
        self._runner = runner
        self.none_left = False
        self.runner_status: Optional[ExitStatus] = None

    def collect(self) -> Dict[int, ExitStatus]:
        """Dead children other than the runner."""
        others = {}
        dead, self.none_left = collect_dead()
        for pid, status in dead:
            if pid == self._runner and self.runner_status is None:
                self.runner_status = status
            else:
                others[pid] = status
        return others
