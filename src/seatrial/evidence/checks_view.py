"""What was checked beside the run, for people: the lock, the rules, the checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seatrial.core.check_report import report_named
from seatrial.evidence.plain_text import any_value, number, one_line, size
from seatrial.evidence.report_input import ReportInput

MAX_ROWS = 200
CHECKPOINT_HEADER = ("step", "path", "kind", "size", "metric", "finite", "SHA-256", "")


def frozen_rows(report: ReportInput) -> list[tuple[str, str]]:
    """Name and value: the lock, what was preflighted, what was checked behind the run."""
    rows: list[tuple[str, str]] = []
    if report.result.lock_sha256:
        rows.append(("lock", one_line(report.result.lock_sha256, 80)))
    preflight = report_named(report.checks, "preflight")
    if preflight is not None:
        facts = preflight.facts
        if facts.get("runner"):
            rows.append(("runner", any_value(facts.get("runner"), 300)))
            rows.append(("runner SHA-256", any_value(facts.get("sha256"), 80)))
        counts = [
            f"{number(facts[key])} {word}"
            for key, word in (("rules", "rules"), ("found", "with a finding"),
                              ("unknown", "that could not tell"))
            if isinstance(facts.get(key), int)
        ]  # fmt: skip
        if counts:
            rows.append(("preflight", ", ".join(counts)))
    inputs = report_named(report.checks, "inputs")
    if inputs is not None:
        drifted = any(entry.required for entry in inputs.not_judged)
        rows.append(
            ("after the run", "the inputs drifted" if drifted else "the inputs were as frozen")
        )
    return rows


def checkpoint_rows(report: ReportInput) -> list[tuple[str, ...]]:
    """One row a checkpoint that is on disk; the best one says so."""
    found = report_named(report.checks, "best_checkpoint")
    if found is None:
        return []
    best = found.facts.get("best")
    best_path = best.get("path") if isinstance(best, Mapping) else None
    table = found.facts.get("table")
    rows = [row for row in table if isinstance(row, Mapping)] if isinstance(table, list) else []
    return [_row(row, best_path) for row in rows[:MAX_ROWS]]


def _row(row: Mapping[str, Any], best_path: Any) -> tuple[str, ...]:
    finite = {True: "yes", False: "no"}.get(row.get("finite"), "not judged")  # type: ignore[arg-type]  # any JSON value
    return (
        any_value(row.get("step"), 20) if row.get("step") is not None else "unknown",
        any_value(row.get("path"), 300),
        any_value(row.get("kind"), 40),
        size(row.get("bytes")),
        number(row["value"]) if isinstance(row.get("value"), (int, float)) else "none",
        finite,
        any_value(row.get("sha256"), 80)[:12],
        "best" if best_path is not None and row.get("path") == best_path else "",
    )
