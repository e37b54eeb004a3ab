"""The ``seatrial.run/1`` object: what a run says at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from seatrial.core.finding import Finding, NotJudged
from seatrial.core.verdict import verdict_for_exit

SCHEMA = "seatrial.run/1"
BEST_KEYS = ("metric", "value", "step", "path", "sha256")


@dataclass(frozen=True)
class RunResult:
    """Verdict, outcome and evidence of one run. ``to_json`` is the contract, to the letter."""

    exit_code: int
    outcome: Optional[str]
    conclusion: str
    run_id: str = ""
    record: str = ""
    bundle: Optional[str] = None
    report: Optional[str] = None
    lock_sha256: Optional[str] = None
    probe_attached: bool = False
    ranks: int = 0
    framework: Optional[str] = None
    planned: Optional[int] = None
    done: int = 0
    findings: Tuple[Finding, ...] = ()
    not_judged: Tuple[NotJudged, ...] = ()
    best: Optional[Mapping[str, Any]] = None
    heldout: Mapping[str, Any] = field(default_factory=dict)
    hypothesis: str = "not stated"
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    cost: str = "0"
    currency: str = "USD"
    cost_estimated: bool = True

    @property
    def verdict(self) -> str:
        """pass, fail or inconclusive; follows from the exit code alone."""
        return verdict_for_exit(self.exit_code)

    def to_json(self) -> dict[str, Any]:
        """The contract's object with every key present."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "outcome": self.outcome,
            "conclusion": self.conclusion,
            "run_id": self.run_id,
            "record": self.record,
            "bundle": self.bundle,
            "report": self.report,
            "lock_sha256": self.lock_sha256,
            "probe": {
                "attached": self.probe_attached,
                "ranks": self.ranks,
                "framework": self.framework,
            },
            "steps": {"planned": self.planned, "done": self.done},
            "findings": [finding.to_json() for finding in self.findings],
            "not_judged": [entry.to_json() for entry in self.not_judged],
            "best": {key: (self.best or {}).get(key) for key in BEST_KEYS},
            "heldout": dict(self.heldout),
            "hypothesis": self.hypothesis,
            "seconds": round(self.seconds, 3),
            "peak_memory_bytes": self.peak_memory_bytes,
            "cost": {
                "amount": self.cost,
                "currency": self.currency,
                "estimated": self.cost_estimated,
            },
        }
