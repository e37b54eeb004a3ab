"""The processes of one run: which they are, what they use, and how they are ended."""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

from seatrial.supervisor.processes import (
    Key,
    Process,
    has_marker,
    read_process,
    read_table,
    send_signal,
)

_ROUND_S = 0.1
_GIVE_UP_S = 6.0
_STOP_ROUNDS = 25


def _with_descendants(table: Dict[int, Process], roots: Iterable[int], never: Set[int]) -> Set[int]:
    """``roots`` and everything below them, without going through ``never``."""
    children: Dict[int, List[int]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process.pid)
    found: Set[int] = set()
    todo = [pid for pid in roots if pid not in never]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(child for child in children.get(pid, ()) if child not in never)
    return found


def _ancestors(table: Dict[int, Process], pid: int) -> Set[int]:
    found: Set[int] = set()
    process = table.get(pid)
    while process is not None and process.pid not in found:
        found.add(process.pid)
        process = table.get(process.ppid)
    return found


class RunTree:
    """Finds the processes of one run, by parent chain, session and marker.

    Args:
        run_id: the marker's value in ``SEATRIAL_RUN_ID``.
        keeper: pid of the process that adopts the run's orphans (supervisor or guard). It, its
            ancestors and ``spared`` are never members.
        spared: pids of children of the keeper that are ours, not the run's.
    """

    def __init__(self, run_id: str, keeper: int, spared: FrozenSet[int] = frozenset()) -> None:
        self._marker = b"SEATRIAL_RUN_ID=" + os.fsencode(run_id)
        self._keeper = keeper
        self._spared = set(spared)
        self._runner: Optional[Key] = None
        self._known: Set[Key] = set()
        self._unmarked: Set[Key] = set()

    def set_runner(self, pid: int, start_ticks: Optional[int]) -> None:
        """Name the runner: its session belongs to the run."""
        self._runner = None if start_ticks is None else (pid, start_ticks)

    def members(self, thorough: bool = True) -> Tuple[Process, ...]:
        """The living processes of the run.

        Args:
            thorough: read every process's environment again; otherwise one found without the marker
                before is not asked again.
        """
        table = read_table()
        never = _ancestors(table, self._keeper) | self._spared | {os.getpid(), 0, 1}
        below = _with_descendants(table, [self._keeper], never - {self._keeper}) - {self._keeper}
        roots = set(below)
        for process in table.values():
            if process.pid in roots or process.pid in never:
                continue
            if self._belongs(process, table, thorough):
                roots.add(process.pid)
        members = [table[pid] for pid in _with_descendants(table, roots, never) if pid in table]
        alive = tuple(process for process in members if process.is_alive)
        present = {process.key for process in table.values()}
        self._known = (self._known & present) | {process.key for process in alive}
        self._unmarked &= present
        return alive

    def _belongs(self, process: Process, table: Dict[int, Process], thorough: bool) -> bool:
        if process.key in self._known:
            return True
        if self._runner is not None and process.sid == self._runner[0]:
            leader = table.get(self._runner[0])
            # Once the leader is gone its number may head a session of somebody else.
            if leader is not None and leader.start_ticks == self._runner[1]:
                return True
        if process.key in self._unmarked and not thorough:
            return False
        if process.is_alive and has_marker(process.pid, self._marker):
            return True
        self._unmarked.add(process.key)
        return False


class TreeEnding:
    """TERM to all, grace, KILL to all until none is left; one short ``step`` at a time.

    Args:
        tree: whose members are ended, newcomers included.
        started: monotonic seconds of the first step.
        grace_s: seconds between TERM and KILL; 0 kills at once.
        give_up_s: seconds of killing after which what is left is reported.
    """

    def __init__(
        self, tree: RunTree, started: float, grace_s: float, give_up_s: float = _GIVE_UP_S
    ) -> None:
        self._tree = tree
        self._kill_at = started + grace_s
        self._give_up_at = self._kill_at + give_up_s
        self._asked: Set[Key] = set()
        self._rounds = 0

    @property
    def is_killing(self) -> bool:
        """Whether the grace is over."""
        return self._rounds > 0

    def kill_now(self, now: float) -> None:
        """Cut the grace short."""
        late = max(0.0, self._kill_at - now)
        self._kill_at -= late
        self._give_up_at -= late

    def step(self, now: float) -> Optional[Tuple[int, ...]]:
        """Do what is due.

        Returns:
            None while it goes on; at the end the pids that would not go.
        """
        members = self._tree.members()
        if not members:
            return ()
        if now >= self._give_up_at and self._rounds > 1:
            return tuple(sorted(process.pid for process in members))
        if now < self._kill_at:
            self._ask(members)
            return None
        if self._rounds > 0:
            members = self._freeze(members)
        self._rounds += 1
        for process in members:
            send_signal(process.key, signal.SIGKILL)
        return None

    def _ask(self, members: Iterable[Process]) -> None:
        for process in members:
            if process.key not in self._asked:
                self._asked.add(process.key)
                send_signal(process.key, signal.SIGTERM)
                if process.state in "Tt":  # a stopped process takes TERM only when it goes on
                    send_signal(process.key, signal.SIGCONT)

    def _freeze(self, members: Tuple[Process, ...]) -> Tuple[Process, ...]:
        """Stop everything first: what forks faster than we kill must not get ahead again."""
        stopped: Set[Key] = set()
        for _ in range(_STOP_ROUNDS):
            fresh = [process for process in members if process.key not in stopped]
            if not fresh:
                break
            for process in fresh:
                stopped.add(process.key)
                send_signal(process.key, signal.SIGSTOP)
            members = self._tree.members()
        return members


def end_tree(
    tree: RunTree,
    grace_s: float,
    give_up_s: float = _GIVE_UP_S,
    between: Optional[Callable[[], None]] = None,
) -> Tuple[int, ...]:
    """End a run and wait for it.

    Args:
        tree: the run.
        grace_s: seconds between TERM and KILL.
        give_up_s: seconds of killing after which what is left is reported.
        between: called between two looks, to collect dead children.

    Returns:
        The pids that are left; empty when all are gone.
    """
    ending = TreeEnding(tree, time.monotonic(), grace_s, give_up_s)
    while True:
        left = ending.step(time.monotonic())
        if left is not None:
            return left
        if between is not None:
            between()
        time.sleep(_ROUND_S)


def start_ticks_of(pid: int) -> Optional[int]:
    """When the kernel started this process; None when it is gone."""
    process = read_process(pid)
    return None if process is None else process.start_ticks
