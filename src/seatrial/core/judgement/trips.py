"""Findings out of the trips of gates."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Mapping, Optional, Tuple

from seatrial.core.finding import FAMILIES, Evidence, Finding, Place
from seatrial.core.judgement.case import Case
from seatrial.core.trip import STOP, Trip

# What follows from what, when both tripped and the first did not come later.
_FOLLOWS: Mapping[str, Tuple[str, ...]] = {
    "gate.non_finite_loss": ("gate.non_finite_gradient", "gate.divergence"),
    "gate.non_finite_gradient": ("gate.non_finite_loss", "gate.divergence"),
    "gate.vanished_gradient": ("gate.constant_loss",),
    "gate.loader_exhausted": ("run.stopped_short",),
    "gate.stall": ("run.wall",),
    "gate.first_step": ("run.wall",),
}
# Trips that the finding of an outcome tells already (run.wall, run.out_of_memory).
_TOLD_BY_OUTCOME: Mapping[str, Tuple[str, ...]] = {
    "timeout": ("gate.wall",),
    "capped": ("gate.wall",),
    "oom": ("gate.memory",),
}


def findings_of_trips(case: Case, outcome: str) -> Tuple[Finding, ...]:
    """One finding per gate and metric: the strongest trip, the other ranks named in it.

    Reaching the step cap is no fault, nor is a default wall while steps complete.
    """
    told = {"gate.step_cap", *_TOLD_BY_OUTCOME.get(outcome, ())}
    if case.default_wall and case.steps:
        told.add("gate.wall")
    groups: Dict[Tuple[str, str], List[Trip]] = {}
    for trip in case.trips:
        if trip.gate not in told:
            groups.setdefault((trip.gate, trip.metric), []).append(trip)
    kept = [_strongest(group) for group in groups.values()]
    return tuple(
        _finding(trip, _others(trip, groups[(trip.gate, trip.metric)]), kept) for trip in kept
    )


def _step(trip: Trip) -> float:
    return float("inf") if trip.step is None else trip.step


def _strongest(group: List[Trip]) -> Trip:
    return min(group, key=lambda trip: (trip.action != STOP, _step(trip), trip.rank or 0))


def _others(chosen: Trip, group: List[Trip]) -> Tuple[int, ...]:
    ranks = {trip.rank for trip in group if trip.rank is not None and trip.rank != chosen.rank}
    return tuple(sorted(ranks))


def _finding(trip: Trip, others: Tuple[int, ...], kept: List[Trip]) -> Finding:
    also = f" (also on rank {', '.join(map(str, others))})" if others else ""
    return Finding(
        code=trip.gate,
        family=trip.family if trip.family in FAMILIES else "bounds",
        severity="error" if trip.action == STOP else "warning",
        message=_sentence((trip.message or f"{trip.gate} tripped") + also),
        place=Place(step=trip.step, rank=trip.rank),
        evidence=Evidence(trip.observed, trip.expected),
        remedy=trip.remedy,
        confidence="measured" if trip.action == STOP else "likely",
        symptoms=_symptoms(trip, kept),
    )


def _symptoms(trip: Trip, kept: List[Trip]) -> Tuple[str, ...]:
    order = list(_FOLLOWS)
    later = []
    for code in _FOLLOWS.get(trip.gate, ()):
        other: Optional[Trip] = next((item for item in kept if item.gate == code), None)
        if other is None:
            if code.startswith("run."):
                later.append(code)
            continue
        # At one step the loss comes before its gradient: the table's order decides.
        first = code not in order or order.index(trip.gate) < order.index(code)
        if _step(trip) < _step(other) or (_step(trip) == _step(other) and first):
            later.append(code)
    return tuple(later)


def capitalised(text: str) -> str:
    """The text with a capital in front, unless it begins with the name of a metric."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def _sentence(text: str) -> str:
    return capitalised(text) + ("" if text.endswith(".") else ".")


def only_told(findings: Tuple[Finding, ...]) -> Tuple[Finding, ...]:
    """The same findings with symptoms that name only findings that are there."""
    codes = {finding.code for finding in findings}
    return tuple(
        replace(f, symptoms=tuple(code for code in f.symptoms if code in codes)) for f in findings
    )
