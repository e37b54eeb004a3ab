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

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunResult:
        """Read the contract's object back; unknown keys are ignored.

        Raises:
            ValueError: another schema, or a finding of an unknown family or severity.
            KeyError: a required key is missing.
        """
        if value.get("schema") != SCHEMA:
            raise ValueError(f"not a {SCHEMA} object: schema is {value.get('schema')!r}")
        probe, steps, cost = value["probe"], value["steps"], value["cost"]
        best = value["best"]
        return cls(
            exit_code=value["exit_code"],
            outcome=value["outcome"],
            conclusion=value["conclusion"],
            run_id=value["run_id"],
            record=value["record"],
            bundle=value["bundle"],
            report=value["report"],
            lock_sha256=value["lock_sha256"],
            probe_attached=probe["attached"],
            ranks=probe["ranks"],
            framework=probe["framework"],
            planned=steps["planned"],
            done=steps["done"],
            findings=tuple(Finding.from_json(item) for item in value["findings"]),
            not_judged=tuple(
                NotJudged(item["code"], item["family"], item["reason"], item["required"])
                for item in value["not_judged"]
            ),
            best=best if any(item is not None for item in best.values()) else None,
            heldout=value["heldout"],
            hypothesis=value["hypothesis"],
            seconds=value["seconds"],
            peak_memory_bytes=value["peak_memory_bytes"],
            cost=cost["amount"],
            currency=cost["currency"],
            cost_estimated=cost["estimated"],
        )
