"""All gates of one run behind two functions: feed an event, tick the clock."""

from __future__ import annotations

from typing import Iterable, Optional, Set, Tuple

from seatrial.core.event import Event
from seatrial.core.gates import GATES
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import STOP, WARN, Sample, Trip

_Key = Tuple[str, Optional[int], str]


class GateBoard:
    """Every gate that the settings leave on. Deterministic: the same input, the same trips.

    A gate trips once per rank and metric; a warning may still become a stop.

    Args:
        settings: numbers and policy.
        started_mono: when the runner was started, on the machine's monotonic clock, seconds.
    """

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        self._gates = tuple(
            gate(settings, started_mono)
            for gate in GATES
            if gate.info.bound or gate.info.code not in settings.disabled
        )
        self._stopped: Set[_Key] = set()
        self._warned: Set[_Key] = set()

    def feed(self, event: Event) -> Tuple[Trip, ...]:
        """Take one event of any rank; the new trips, in the order of the gates."""
        return self._new(trip for gate in self._gates for trip in gate.feed(event))

    def tick(self, mono: float, sample: Sample) -> Tuple[Trip, ...]:
        """Take the time and the process tree; call it about once a second."""
        return self._new(trip for gate in self._gates for trip in gate.tick(mono, sample))

    def _new(self, trips: Iterable[Trip]) -> Tuple[Trip, ...]:
        fresh = []
        for trip in trips:
            key = (trip.gate, trip.rank, trip.metric)
            if key in self._stopped or (trip.action == WARN and key in self._warned):
                continue
            (self._stopped if trip.action == STOP else self._warned).add(key)
            fresh.append(trip)
        return tuple(fresh)
