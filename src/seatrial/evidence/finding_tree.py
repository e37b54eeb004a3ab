"""Findings as people read them: causes on top, what follows from them inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.core.finding import Finding, Place, cause_first
from seatrial.evidence.plain_text import any_value, one_line

MAX_FINDINGS = 200


@dataclass(frozen=True)
class Node:
    """A finding with those that follow from it; ``named_only`` are symptoms without a finding."""

    finding: Finding
    symptoms: tuple[Finding, ...]
    named_only: tuple[str, ...]


def finding_tree(findings: Sequence[Finding]) -> list[Node]:
    """Every finding exactly once, each symptom inside the first cause that names it."""
    ordered = cause_first(findings)
    follows = {code for finding in ordered for code in finding.symptoms}
    present = {finding.code for finding in ordered}
    shown: set[int] = set()
    nodes = []
    # The second round takes what only circles of causes would leave out.
    for excluded in (follows, set[str]()):
        for finding in ordered:
            if id(finding) in shown or finding.code in excluded:
                continue
            shown.add(id(finding))
            inside = [
                other
                for other in ordered
                if other.code in finding.symptoms and id(other) not in shown
            ]
            shown.update(id(other) for other in inside)
            named = tuple(code for code in finding.symptoms if code not in present)
            nodes.append(Node(finding, tuple(inside), named))
    return nodes


def place_text(place: Place) -> str:
    """Where a finding points, in one line; empty when nothing is known."""
    parts = []
    if place.file is not None:
        line = "" if place.line is None else f":{place.line}"
        parts.append(f"{one_line(place.file, 200)}{line}")
    elif place.line is not None:
        parts.append(f"line {place.line}")
    for name in ("step", "rank", "row"):
        value = getattr(place, name)
        if value is not None:
            parts.append(f"{name} {any_value(value)}")
    for name in ("module", "parameter"):
        value = getattr(place, name)
        if value is not None:
            parts.append(f"{name} {one_line(value, 200)}")
    return ", ".join(parts)


def evidence_pairs(finding: Finding) -> list[tuple[str, str]]:
    """Observed, expected and tolerance, those that are known."""
    evidence = finding.evidence
    pairs = [
        ("observed", evidence.observed),
        ("expected", evidence.expected),
        ("tolerance", evidence.tolerance),
    ]
    return [(name, any_value(value)) for name, value in pairs if value is not None]
