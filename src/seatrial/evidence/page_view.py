"""What the page's template is given: plain strings, already made safe to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.core.finding import Finding
from seatrial.core.trip import STOP
from seatrial.core.units import format_size
from seatrial.evidence import words
from seatrial.evidence.bounds_view import bound_rows, gate_rows
from seatrial.evidence.checks_view import CHECKPOINT_HEADER, checkpoint_rows, frozen_rows
from seatrial.evidence.finding_tree import MAX_FINDINGS, evidence_pairs, finding_tree, place_text
from seatrial.evidence.heldout_view import heldout_view
from seatrial.evidence.panels import Panel, build_panels
from seatrial.evidence.plain_text import TEXT_LIMIT, any_value, number, one_line, output_end, size
from seatrial.evidence.report_input import ReportInput
from seatrial.evidence.shell_words import command_line
from seatrial.evidence.svg_chart import describe, legend_entries, render_chart, swatch

MAX_ROWS = 200
MAX_LINES = 100
Row = tuple[str, ...]
_NESTED_LIMIT = 2_000
_BEST = ("metric", "value", "step", "path", "sha256")


def page_values(report: ReportInput) -> dict[str, Any]:
    """Everything that the template shows; the only markup in it are our own charts."""
    result, plan = report.result, report.plan
    panels, panels_left_out = build_panels(report)
    nodes = finding_tree(result.findings)
    return {
        "name": one_line(plan.name or "ad-hoc run", 120),
        "run_id": one_line(result.run_id or plan.run_id, 120),
        "started": one_line(report.started, 60),
        "verdict": result.verdict,
        "verdict_word": words.verdict_word(result),
        "verdict_meaning": words.verdict_meaning(result),
        "conclusion": one_line(result.conclusion, TEXT_LIMIT),
        "caveat": words.CAVEAT,
        "facts": _facts(report),
        "tested": [one_line(text, TEXT_LIMIT) for text in report.tested[:MAX_LINES]],
        "not_tested": [one_line(text, TEXT_LIMIT) for text in report.not_tested[:MAX_LINES]],
        "counts": words.severity_counts(result.findings),
        "findings": [
            {
                **_finding(node.finding),
                "inside": [_finding(one) for one in node.symptoms[:MAX_ROWS]],
                "named": [one_line(code, 120) for code in node.named_only[:MAX_ROWS]],
            }
            for node in nodes[:MAX_FINDINGS]
        ],
        "findings_left_out": max(0, len(nodes) - MAX_FINDINGS),
        "trips": trip_rows(report),
        "panels": [_panel(panel) for panel in panels],
        "panels_left_out": panels_left_out,
        "not_judged": not_judged_rows(report),
        "nothing_unjudged": words.nothing_unjudged_text(result),
        "evaluations": evaluation_rows(report.evaluations),
        "saves": save_rows(report.saves),
        "best": _pairs({key: (result.best or {}).get(key) for key in _BEST}, skip_none=True),
        "heldout": heldout_view(report.checks),
        "frozen": frozen_rows(report),
        "checkpoints": checkpoint_rows(report),
        "checkpoint_header": CHECKPOINT_HEADER,
        "environment": _pairs(report.environment),
        "model": _pairs(report.model),
        "bounds": [(row.name, row.value, row.source) for row in bound_rows(plan)],
        "gates": [(row.title, row.code, row.action) for row in gate_rows(plan)],
        "command": command_line(plan.command),
        "cwd": one_line(plan.cwd, TEXT_LIMIT),
        "record": one_line(result.record or plan.record, TEXT_LIMIT),
        "next_command": one_line(report.next_command, TEXT_LIMIT),
        "output": output_end(report.output_tail),
    }


def _facts(report: ReportInput) -> list[dict[str, Any]]:
    result, plan = report.result, report.plan
    target = result.planned if result.planned is not None else plan.max_steps
    facts = [
        _fact("Outcome", words.outcome_text(result)),
        _fact("Exit code", str(result.exit_code)),
        _fact("Steps", words.steps_text(result), f"(cap {plan.max_steps:,})", result.done, target),
        _fact(
            "Time",
            words.time_text(result.seconds),
            f"of at most {words.time_text(plan.wall_s)}",
            result.seconds,
            plan.wall_s,
        ),
        _fact(
            "Peak memory",
            size(result.peak_memory_bytes),
            f"of at most {format_size(plan.memory_bytes)}",
            result.peak_memory_bytes,
            plan.memory_bytes,
        ),
        _fact("Cost", words.cost_text(result), f"of at most {one_line(plan.money, 40)}"),
        _fact("Probe", words.probe_text(result)),
    ]
    if result.hypothesis != "not stated":
        told = words.hypothesis_of(plan)
        facts.append(
            _fact("Hypothesis", one_line(words.hypothesis_state(result), 60), one_line(told, 300))
        )
    return facts


def fact_rows(report: ReportInput) -> list[tuple[str, str]]:
    """The key facts as names and texts."""
    facts = _facts(report)
    return [(fact["name"], f"{fact['value']} {fact['detail']}".strip()) for fact in facts]


def _fact(
    name: str, value: str, detail: str = "", used: float = 0, limit: float | None = None
) -> dict[str, Any]:
    share = None
    if limit is not None and limit > 0:
        share = round(100 * min(1.0, max(0.0, used / limit)), 1) if used == used else None
    return {"name": name, "value": value, "detail": detail, "share": share}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "code": one_line(finding.code, 120),
        "family": one_line(finding.family, 60).replace("_", " "),
        "message": one_line(finding.message, TEXT_LIMIT),
        "place": place_text(finding.place),
        "evidence": evidence_pairs(finding),
        "remedy": one_line(finding.remedy, TEXT_LIMIT),
        "confidence": finding.confidence,
    }


def _panel(panel: Panel) -> dict[str, Any]:
    from markupsafe import Markup

    chart = panel.chart
    legend = legend_entries(chart.series) if len(chart.series) > 1 else []
    return {
        "title": chart.title,
        "description": describe(chart),
        "svg": Markup(render_chart(chart)),  # noqa: S704 - our own markup, every text in it escaped
        "legend": [(Markup(swatch(i)), label) for i, label in legend],  # noqa: S704 - as above
        "more_series": max(0, len(chart.series) - len(legend)) if legend else 0,
        "header": panel.header,
        "rows": panel.rows,
        "rows_left_out": panel.rows_left_out,
        "series_left_out": panel.series_left_out,
    }


def trip_rows(report: ReportInput) -> list[dict[str, Any]]:
    """Gates that tripped, numbered as in the charts."""
    return [
        {
            "number": index,
            "gate": one_line(trip.gate, 80),
            "stopped": trip.action == STOP,
            "did": "stopped the run" if trip.action == STOP else "warned",
            "metric": one_line(trip.metric, 80),
            "observed": any_value(trip.observed, 200),
            "expected": any_value(trip.expected, 200),
            "where": ", ".join(
                f"{name} {any_value(value)}"
                for name, value in (("step", trip.step), ("rank", trip.rank))
                if value is not None
            ),
            "message": one_line(trip.message, TEXT_LIMIT),
        }
        for index, trip in enumerate(report.trips[:MAX_LINES], start=1)
    ]


def not_judged_rows(report: ReportInput) -> list[Row]:
    """Code, family, whether it was required, and why it was not judged; required ones first."""
    entries = sorted(report.result.not_judged, key=lambda entry: not entry.required)
    return [
        (
            one_line(entry.code, 120),
            one_line(entry.family, 60).replace("_", " "),
            "required" if entry.required else "not required",
            one_line(entry.reason, TEXT_LIMIT),
        )
        for entry in entries[:MAX_ROWS]
    ]


def evaluation_rows(evaluations: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Step, metrics and source of each evaluation."""
    rows: list[Row] = []
    for data in evaluations[:MAX_ROWS]:
        metrics = data.get("metrics")
        shown = metrics if isinstance(metrics, Mapping) else {}
        text = ", ".join(
            f"{one_line(key, 60)} {any_value(value, 60)}" for key, value in list(shown.items())[:40]
        )
        rows.append((_step(data), text or "none", any_value(data.get("source"), 40)))
    return rows


def save_rows(saves: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Step, path, tensors, size, seconds and what became of each save."""
    return [
        (
            _step(data),
            any_value(data.get("path"), 300),
            any_value(data.get("kind"), 40),
            any_value(data.get("tensors"), 40),
            size(data.get("bytes")),
            any_value(data.get("error"), 300) if data.get("error") else "written",
        )
        for data in saves[:MAX_ROWS]
    ]


def _step(data: Mapping[str, Any]) -> str:
    step = data.get("step")
    return "unknown" if step is None else any_value(step, 40)


def _pairs(values: Mapping[str, Any], *, skip_none: bool = False) -> list[dict[str, Any]]:
    """Names and values; a nested table or list of many becomes rows of its own."""
    pairs: list[dict[str, Any]] = []
    for key, value in list(values.items())[:MAX_ROWS]:
        if skip_none and value is None:
            continue
        name = one_line(key, 120).replace("_", " ")
        if isinstance(value, Mapping) and value:
            inner = [
                (one_line(k, 120), any_value(v, _NESTED_LIMIT))
                for k, v in list(value.items())[:MAX_ROWS]
            ]
            left_out = max(0, len(value) - MAX_ROWS)
            pairs.append({"name": name, "value": "", "inner": inner, "left_out": left_out})
        else:
            text = size(value) if str(key).endswith("_bytes") else any_value(value, _NESTED_LIMIT)
            shown = "none" if isinstance(value, (Mapping, list, tuple)) and not value else text
            pairs.append({"name": name, "value": shown, "inner": [], "left_out": 0})
    if len(values) > MAX_ROWS:
        more = number(len(values) - MAX_ROWS)
        pairs.append({"name": "and more", "value": f"{more} more", "inner": [], "left_out": 0})
    return pairs
