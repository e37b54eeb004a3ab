"""Findings: what a rule, a gate or a check reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping, Optional, Tuple

SEVERITIES = ("error", "warning", "note")
CONFIDENCES = ("proven", "measured", "likely")
FAMILIES = (
    "labels",
    "scaling",
    "optimizer",
    "schedule",
    "precision",
    "data_order",
    "checkpoint",
    "best_checkpoint",
    "resume",
    "eval_mode",
    "packing",
    "tokenizer",
    "adapter",
    "output_loss",
    "reporting",
    "gradients",
    "inputs",
    "environment",
    "bounds",
    "secrets",
    "distributed",
    "performance",
)


@dataclass(frozen=True)
class Place:
    """Where a finding points. Every part is optional."""

    file: Optional[str] = None
    line: Optional[int] = None
    step: Optional[int] = None
    rank: Optional[int] = None
    module: Optional[str] = None
    parameter: Optional[str] = None
    row: Optional[int] = None


@dataclass(frozen=True)
class Evidence:
    """The numbers or texts behind a finding; JSON values only."""

    observed: Any = None
    expected: Any = None
    tolerance: Any = None


@dataclass(frozen=True)
class Finding:
    """One reported fault or remark.

    Raises:
        ValueError: family, severity or confidence is not one of the known words.
    """

    code: str
    family: str
    severity: str
    message: str
    place: Place = field(default_factory=Place)
    evidence: Evidence = field(default_factory=Evidence)
    remedy: str = ""
    confidence: str = "measured"
    symptoms: Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"unknown family {self.family!r}")
        if self.severity not in SEVERITIES:
            raise ValueError(f"unknown severity {self.severity!r}")
        if self.confidence not in CONFIDENCES:
            raise ValueError(f"unknown confidence {self.confidence!r}")

    def to_json(self) -> dict[str, Any]:
        """The finding as the contract's object (plain JSON values, all keys present)."""
        return {
            "code": self.code,
            "family": self.family,
            "severity": self.severity,
            "message": self.message,
            "place": dict(vars(self.place)),
            "evidence": dict(vars(self.evidence)),
            "remedy": self.remedy,
            "confidence": self.confidence,
            "symptoms": list(self.symptoms),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Finding:
        """Read a finding back; unknown keys are ignored, as the contract asks of readers."""
        place = value.get("place") or {}
        evidence = value.get("evidence") or {}
        return cls(
            code=str(value["code"]),
            family=str(value["family"]),
            severity=str(value["severity"]),
            message=str(value["message"]),
            place=Place(**{k: v for k, v in place.items() if k in Place.__dataclass_fields__}),
            evidence=Evidence(
                **{k: v for k, v in evidence.items() if k in Evidence.__dataclass_fields__}
            ),
            remedy=str(value.get("remedy", "")),
            confidence=str(value.get("confidence", "measured")),
            symptoms=tuple(value.get("symptoms", ())),
        )


# How the reason of a check begins that is announced but not part of this version.
NO_SUCH_CHECK = "this version makes no such check"


@dataclass(frozen=True)
class NotJudged:
    """A check that could not run. It never counts as passed."""

    code: str
    family: str
    reason: str
    required: bool = False

    def to_json(self) -> dict[str, Any]:
        """The entry as the contract's object."""
        return dict(vars(self))


def cause_first(findings: Iterable[Finding]) -> Tuple[Finding, ...]:
    """Order findings: causes before their symptoms, then by severity, then as they came.

    A finding named in another finding's ``symptoms`` follows from it and goes behind it.
    """
    listed = list(findings)
    follows = {code for f in listed for code in f.symptoms}
    return tuple(sorted(listed, key=lambda f: (f.code in follows, SEVERITIES.index(f.severity))))
