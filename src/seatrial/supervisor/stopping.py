"""Ending a run before its time: ask, TERM, KILL; the first reason is the one that counts."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from seatrial.core.launch import StopRequest
from seatrial.supervisor.record import Record
from seatrial.supervisor.record_files import utc_now
from seatrial.supervisor.tree import RunTree, TreeEnding

_OBEYED_FACTOR = 3  # who has stopped training and is saving gets so many graces


class Stopping:
    """The way from "please stop" to an empty tree.

    Args:
        record: where requests and states are written.
        tree: of the run.
        grace_s: seconds between asking and TERM, and between TERM and KILL.
    """

    def __init__(self, record: Record, tree: RunTree, grace_s: float) -> None:
        self._record = record
        self._tree = tree
        self._grace_s = grace_s
        self._asked_at = 0.0
        self._ask_s = 0.0
        self._ending: Optional[TreeEnding] = None
        self._said_kill = False
        self.reason: Optional[str] = None
        self.message = ""
        self.trigger: Optional[Mapping[str, Any]] = None
        self.forced = False

    @property
    def state(self) -> str:
        """``running``, ``stopping``, ``terminating`` or ``killing``."""
        if self.reason is None:
            return "running"
        if self._ending is None:
            return "stopping"
        return "killing" if self._ending.is_killing else "terminating"

    def ask(
        self,
        reason: str,
        message: str,
        now: float,
        *,
        ask_s: float,
        at_step: int = 0,
        trigger: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Ask for a clean stop; ignored when the run is being stopped already.

        Args:
            reason: one of ``core.launch.END_REASONS``.
            message: for people.
            now: monotonic seconds.
            ask_s: seconds to wait for the probe; 0 goes to TERM at once.
            at_step: see ``StopRequest``.
            trigger: the gate's trip, if one tripped.
        """
        if self.reason is not None:
            return
        self.reason, self.message, self.trigger = reason, message, trigger
        self._asked_at, self._ask_s = now, ask_s
        self._record.state("stopping", message, reason=reason, at_step=at_step)
        if ask_s > 0:
            self._record.stop_request(
                StopRequest(reason=reason, by="supervisor", t=utc_now(), at_step=at_step)
            )

    def end_leftovers(self, message: str, now: float) -> None:
        """The runner has left by itself and something stayed behind: TERM, grace, KILL."""
        if self._ending is None:
            self.message = self.message or message
            self._record.state("lingering", message)
            self._ending = TreeEnding(self._tree, now, self._grace_s)

    def kill(self, now: float) -> None:
        """No more grace."""
        if self._ending is None:
            self._ending = TreeEnding(self._tree, now, 0.0)
        else:
            self._ending.kill_now(now)

    def step(self, now: float, obeyed: bool, runner_alive: bool) -> Optional[Tuple[int, ...]]:
        """Do what is due.

        Args:
            now: monotonic seconds.
            obeyed: every rank has stopped training because it was asked to.
            runner_alive: the runner itself has not left.

        Returns:
            None while it goes on; the pids that would not go when ending is over.
        """
        if self._ending is None:
            if self.reason is None:
                return None
            patience = self._ask_s
            if obeyed and self._ask_s > 0:
                patience += self._grace_s * (_OBEYED_FACTOR - 1)
            if now < self._asked_at + patience:
                return None
            self._record.state("terminating", "the run did not stop by itself; TERM is sent")
            self._ending = TreeEnding(self._tree, now, self._grace_s)
        left = self._ending.step(now)
        if left is None and runner_alive:
            self.forced = True
        if self._ending.is_killing and not self._said_kill:
            self._said_kill = True
            self._record.state("killing", "the grace is over; KILL is sent")
        return left
