"""What the ranks' events say about how far the training is."""

from __future__ import annotations

from typing import Any, Dict, Optional, Set

from seatrial.core.event import Event

SUCCESS_REASONS = frozenset({"completed", "step_cap", "early_stopping", "exhausted", "script_end"})
_OWN_STOPS = frozenset({"step_cap", "wall", "stop_request"})
PROCESS = "process"
SEGMENT = "segment"


def _whole(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class Progress:
    """Folds events into the furthest step, the last loss and how each rank's training ended."""

    def __init__(self) -> None:
        self.steps: Dict[int, int] = {}
        self.pids: Dict[int, int] = {}
        self.planned: Optional[int] = None
        self.loss: Any = None
        self.world_size: Optional[int] = None
        self.step_seconds = 0.0
        self._ends: Dict[int, str] = {}
        self._left: Set[int] = set()

    @property
    def furthest(self) -> Optional[int]:
        """The furthest step of any rank."""
        return max(self.steps.values()) if self.steps else None

    @property
    def ranks(self) -> int:
        """Ranks that have written events."""
        return len(self.pids)

    def feed(self, event: Event) -> None:
        """Take one event of a rank."""
        if event.rank is None:
            return
        self.pids[event.rank] = event.pid
        planned = _whole(event.data.get("steps_planned"))
        self.planned = planned if planned is not None else self.planned
        if event.event == "step":
            self._feed_step(event, event.rank)
        elif event.event == "env":
            self.world_size = _whole(event.data.get("world_size")) or self.world_size
        elif event.event == "train.end":
            self._ends[event.rank] = str(event.data.get("reason"))
            if event.data.get("scope") == PROCESS:
                self._left.add(event.rank)

    def _feed_step(self, event: Event, rank: int) -> None:
        step = _whole(event.data.get("step"))
        if step is None:
            return
        self.steps[rank] = max(step, self.steps.get(rank, 0))
        self._ends.pop(rank, None)
        self._left.discard(rank)
        if rank == min(self.pids):
            self.loss = event.data.get("loss_raw", self.loss)
            seconds = event.data.get("seconds")
            if isinstance(seconds, (int, float)) and 0 <= seconds < 3600:
                self.step_seconds = float(seconds)

    def finished(self) -> Optional[str]:
        """``process`` or ``segment`` when every rank's training ended well at that scope."""
        if not self.pids or set(self._ends) != set(self.pids):
            return None
        if self.world_size is not None and len(self.pids) < self.world_size:
            return None
        if any(reason not in SUCCESS_REASONS for reason in self._ends.values()):
            return None
        return PROCESS if self._left == set(self.pids) else SEGMENT

    def has_obeyed(self) -> bool:
        """Whether every rank has ended its training because it was asked to."""
        return bool(self.pids) and all(self._ends.get(rank) in _OWN_STOPS for rank in self.pids)

    def training_pids(self) -> Set[int]:
        """Pids of ranks that have not said that their process ends."""
        return {pid for rank, pid in self.pids.items() if rank not in self._left}
