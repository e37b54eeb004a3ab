"""Curves of a run, gathered point by point."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Set, Tuple

from seatrial.core.curve import Curve
from seatrial.core.event import Event
from seatrial.core.event_data import number, rates, text

UNITS = {
    "loss_raw": "",
    "grad_norm": "",
    "tokens": "tokens",
    "supervised_tokens": "tokens",
    "seconds": "s",
    "rss_bytes": "B",
    "device_bytes": "B",
}
# What a Trainer logs again of what the steps say themselves, by the name of the steps' own curve.
LOGGED_AGAIN = {"grad_norm": "grad_norm", "learning_rate": "lr"}
_Key = Tuple[str, Optional[int]]


class CurveFold:
    """Gathers points by metric and rank.

    A second process of the same rank counts its steps from 1 again; its points are put behind
    those of the first, so that x always rises.
    """

    def __init__(self) -> None:
        self.sources: Set[str] = set()
        self._points: Dict[_Key, Dict[float, float]] = {}
        self._evaluated: Dict[_Key, Dict[float, float]] = {}
        self._offsets: Dict[Tuple[Optional[int], int], float] = {}
        self._furthest: Dict[Optional[int], float] = {}

    def step(self, event: Event, rank: int, step: int) -> None:
        """Take the numbers of one step event."""
        self.sources.add(text(event.data, "source"))
        x = self._x(rank, event.pid, step)
        for name in UNITS:
            value = number(event.data, name)
            if value is not None:
                self._points.setdefault((name, rank), {})[x] = value
        known = rates(event.data)
        if known:
            self._points.setdefault(("lr", rank), {})[x] = known[0]

    def evaluation(self, event: Event, step: Optional[int], metrics: Mapping[str, float]) -> None:
        """Take the metrics of one eval event; without a step they stand at the furthest one."""
        source = text(event.data, "source")
        self.sources.add(source if source == "trainer" else "")
        if step is None:
            x = self._furthest.get(event.rank, max(self._furthest.values(), default=0.0))
        else:
            x = self._x(event.rank, event.pid, step)
        for name, value in metrics.items():
            self._evaluated.setdefault((name, event.rank), {})[x] = value

    def finish(self) -> Tuple[Curve, ...]:
        """Step curves of every rank; of each evaluation metric the lowest rank's."""
        curves: List[Curve] = [
            _curve(name, rank, points, UNITS.get(name, ""))
            for (name, rank), points in sorted(self._points.items(), key=_order)
        ]
        seen: Set[str] = set()
        for (name, rank), points in sorted(self._evaluated.items(), key=_order):
            repeated = (LOGGED_AGAIN.get(name, ""), rank) in self._points
            if name not in seen and not repeated:
                seen.add(name)
                curves.append(_curve(name, rank, points, ""))
        return tuple(curves)

    def _x(self, rank: Optional[int], pid: int, step: int) -> float:
        key = (rank, pid)
        if key not in self._offsets:
            self._offsets[key] = self._furthest.get(rank, 0.0)
        x = self._offsets[key] + step
        self._furthest[rank] = max(x, self._furthest.get(rank, 0.0))
        return x


def _order(item: Tuple[_Key, Dict[float, float]]) -> Tuple[str, int]:
    (name, rank), _points = item
    return (name, 1 << 30 if rank is None else rank)


def _curve(name: str, rank: Optional[int], points: Mapping[float, float], unit: str) -> Curve:
    return Curve(name, "step", tuple(sorted(points.items())), unit, rank)
