"""What one check, made beside the run, has to say: findings, open points and facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Tuple

from seatrial.core.finding import Finding, NotJudged

SCHEMA = "seatrial.check/1"


@dataclass(frozen=True)
class CheckReport:
    """The answer of one check; ``to_json`` is what lands in the record as ``checks/<name>.json``.

    Attributes:
        name: as in ``[checks]`` of a trial: ``inputs``, ``checkpoint``, ``best_checkpoint``,
            ``heldout``; or ``preflight``.
        findings: what was found; an empty tuple of a check that ran is a clean answer.
        not_judged: what it could not look at, each with the reason.
        facts: JSON values for page and result (the best checkpoint, the held-out table, ...).
        seconds: wall time it took.
    """

    name: str
    findings: Tuple[Finding, ...] = ()
    not_judged: Tuple[NotJudged, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "findings": [finding.to_json() for finding in self.findings],
            "not_judged": [entry.to_json() for entry in self.not_judged],
            "facts": dict(self.facts),
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CheckReport:
        """Read back; unknown keys are ignored.

        Raises:
            ValueError: another schema.
            KeyError, TypeError: a field is missing or of another kind.
        """
        if value.get("schema") != SCHEMA:
            raise ValueError(f"not a {SCHEMA} object: schema is {value.get('schema')!r}")
        return cls(
            name=str(value["name"]),
            findings=tuple(Finding.from_json(item) for item in value.get("findings") or ()),
            not_judged=tuple(
                NotJudged(
                    code=str(item["code"]),
                    family=str(item["family"]),
                    reason=str(item["reason"]),
                    required=item.get("required") is True,
                )
                for item in value.get("not_judged") or ()
            ),
            facts=dict(value.get("facts") or {}),
            seconds=float(value.get("seconds") or 0.0),
        )


def report_named(checks: Sequence[CheckReport], name: str) -> Optional[CheckReport]:
    """The report of one check; None when it was not made."""
    return next((report for report in checks if report.name == name), None)


def facts_of(checks: Sequence[CheckReport], name: str) -> Mapping[str, Any]:
    """The facts of one check; empty when it was not made."""
    report = report_named(checks, name)
    return {} if report is None else report.facts


def answered_cases(checks: Sequence[CheckReport]) -> Optional[int]:
    """Held-out cases that the trained model answered to the end; None when it did not."""
    facts = facts_of(checks, "heldout")
    count, models = facts.get("cases"), facts.get("models")
    if not isinstance(count, int) or not isinstance(models, dict) or "trained" not in models:
        return None
    return count
