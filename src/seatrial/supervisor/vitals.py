"""Samples of the process tree: memory, CPU seconds, bytes moved."""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import Sequence, Tuple

from seatrial.core.trip import Sample
from seatrial.supervisor.processes import Process, io_bytes, proportional_bytes
from seatrial.supervisor.tree import RunTree

_CLOSE_TO_CAP = 0.8
_MIN_INTERVAL_S = 0.5
_MAX_INTERVAL_S = 2.0
_COST_FACTOR = 50  # looking takes about 2% of one core
_THOROUGH_EVERY = 10


class Vitals:
    """Looks at the tree, seldom enough not to disturb it.

    Args:
        tree: of the run.
        memory_bytes: the bound; near it, shared memory is counted once (PSS instead of RSS).
    """

    def __init__(self, tree: RunTree, memory_bytes: int) -> None:
        self._tree = tree
        self._cap = memory_bytes
        self._count = 0
        self.members: Tuple[Process, ...] = ()
        self.interval_s = _MIN_INTERVAL_S
        self.peak_bytes = 0
        self.io_bytes = 0

    def sample(self, output_bytes: int) -> Sample:
        """Look now.

        Args:
            output_bytes: what the runner has printed so far.
        """
        begin = time.thread_time()
        self.members = self._tree.members(thorough=self._count % _THOROUGH_EVERY == 0)
        self._count += 1
        rss = sum(process.rss_bytes for process in self.members)
        if rss > _CLOSE_TO_CAP * self._cap:
            rss = shared_once_bytes(self.members)
        self.peak_bytes = max(self.peak_bytes, rss)
        self.io_bytes = sum(io_bytes(process.pid) for process in self.members)
        ended = os.times()
        cpu = sum(process.cpu_seconds for process in self.members)
        now = time.monotonic()
        cost = time.thread_time() - begin
        self.interval_s = min(max(_MIN_INTERVAL_S, _COST_FACTOR * cost), _MAX_INTERVAL_S)
        return Sample(
            mono=now,
            rss_bytes=rss,
            cpu_seconds=round(cpu + ended.children_user + ended.children_system, 3),
            processes=len(self.members),
            output_bytes=output_bytes,
        )


def largest_dead_bytes() -> int:
    """Peak memory of the largest process that was collected: what samples have missed."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit


def shared_once_bytes(processes: Sequence[Process]) -> int:
    """Memory of all together, pages that they share counted once where the kernel says so."""
    total = 0
    for process in processes:
        share = proportional_bytes(process.pid)
        total += process.rss_bytes if share is None else share
    return total
