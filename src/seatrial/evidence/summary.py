"""The report as Markdown: for a pull request, a mail or a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable

from seatrial.core.finding import Finding
from seatrial.evidence import words
from seatrial.evidence.bounds_view import bound_rows, gate_rows
from seatrial.evidence.checks_view import CHECKPOINT_HEADER, checkpoint_rows, frozen_rows
from seatrial.evidence.finding_tree import (
    MAX_FINDINGS,
    Node,
    evidence_pairs,
    finding_tree,
    place_text,
)
from seatrial.evidence.heldout_view import heldout_view
from seatrial.evidence.markdown import code, code_block, prose, table
from seatrial.evidence.page_view import (
    MAX_LINES,
    evaluation_rows,
    fact_rows,
    not_judged_rows,
    save_rows,
    trip_rows,
)
from seatrial.evidence.plain_text import TEXT_LIMIT, any_value, number, one_line
from seatrial.evidence.report_input import ReportInput
from seatrial.evidence.shell_words import command_line

_MAX_CURVES = 100


def render_summary(report: ReportInput) -> str:
    """The report as Markdown, ending in a line feed. Texts of the run cannot become markup."""
    result, plan = report.result, report.plan
    lines = [
        f"# {words.verdict_word(result)}: {prose(plan.name or 'ad-hoc run', 120)}",
        "",
        f"**{words.verdict_meaning(result).capitalize()}.** {prose(result.conclusion)}",
        "",
        *table(("fact", "value"), ((name, prose(value)) for name, value in fact_rows(report))),
        "",
        *_listed("What was tested", report.tested, "Nothing was tested."),
        *_listed("What was not tested", report.not_tested, "Nothing is listed."),
        *_findings(report),
        *_heldout(report),
        *_trips(report),
        *_curves(report),
        *_not_judged(report),
        *_evaluations(report),
        *_frozen(report),
        *_environment(report),
        *_bounds(report),
        "## Command",
        "",
        code_block(command_line(plan.command)),
        "",
        f"In {code(plan.cwd)}; record {code(result.record or plan.record)}.",
        "",
    ]
    if report.next_command:
        lines += ["Next command:", "", code_block(one_line(report.next_command, TEXT_LIMIT)), ""]
    lines += [words.CAVEAT, ""]
    return "\n".join(lines)


def _listed(title: str, texts: Iterable[str], otherwise: str) -> list[str]:
    entries = [f"- {prose(text)}" for text in list(texts)[:MAX_LINES]]
    return [f"## {title}", "", *(entries or [otherwise]), ""]


def _findings(report: ReportInput) -> list[str]:
    findings = report.result.findings
    lines = [f"## Findings: {words.severity_counts(findings)}", ""]
    nodes = finding_tree(findings)
    for node in nodes[:MAX_FINDINGS]:
        lines += _node(node)
    if len(nodes) > MAX_FINDINGS:
        lines.append(f"- {number(len(nodes) - MAX_FINDINGS)} more are in `result.json`.")
    if not nodes:
        lines.append("No finding. That is the absence of evidence against the setup.")
    return [*lines, ""]


def _node(node: Node) -> list[str]:
    lines = _finding(node.finding, "")
    follows = [code(name, 120) for name in node.named_only[:MAX_LINES]]
    if node.symptoms or follows:
        lines.append(f"  - follows from it: {', '.join(follows)}".rstrip())
        for one in node.symptoms[:MAX_FINDINGS]:
            lines += _finding(one, "    ")
    return lines


def _finding(finding: Finding, indent: str) -> list[str]:
    lines = [
        f"{indent}- **{finding.severity}** {prose(finding.message)} ({code(finding.code, 120)})"
    ]
    place = place_text(finding.place)
    if place:
        lines.append(f"{indent}  - where: {prose(place)}")
    evidence = [f"{name} {code(value)}" for name, value in evidence_pairs(finding)]
    if evidence:
        lines.append(f"{indent}  - {', '.join(evidence)}")
    if finding.remedy:
        lines.append(f"{indent}  - remedy: {prose(finding.remedy)}")
    return lines


def _heldout(report: ReportInput) -> list[str]:
    view = heldout_view(report.checks)
    if view is None:
        return []
    rows = [tuple(map(prose, row)) for row in view.rows]
    lines = ["## Held-out cases", "", prose(view.sentence), "", *table(view.header, rows), ""]
    for name, proof in view.models:
        lines += [f"The {prose(name)} model:", ""]
        lines += [*table(("proof", "value"), ((prose(k), code(v)) for k, v in proof)), ""]
    return lines


def _frozen(report: ReportInput) -> list[str]:
    rows = [(prose(name), code(value)) for name, value in frozen_rows(report)]
    lines = ["## Frozen inputs", "", *table(("what", "value"), rows), ""] if rows else []
    checkpoints = [tuple(map(prose, row)) for row in checkpoint_rows(report)]
    if checkpoints:
        lines += ["## Checkpoints on disk", "", *table(CHECKPOINT_HEADER, checkpoints), ""]
    return lines


def _trips(report: ReportInput) -> list[str]:
    rows = [
        (code(row["gate"]), row["did"], prose(row["where"]), code(row["observed"]),
         code(row["expected"]), prose(row["message"]))
        for row in trip_rows(report)
    ]  # fmt: skip
    if not rows:
        return []
    header = ("gate", "what it did", "where", "observed", "expected", "message")
    return ["## Gates that tripped", "", *table(header, rows), ""]


def _curves(report: ReportInput) -> list[str]:
    rows = []
    for curve in report.curves[:_MAX_CURVES]:
        if not curve.points:
            continue
        finite = [y for _x, y in curve.points if math.isfinite(y)]
        ends = (finite[0], finite[-1], min(finite), max(finite)) if finite else ()
        shown = [number(value) for value in ends] or ["none"] * 4
        rank = "whole run" if curve.rank is None else f"rank {curve.rank}"
        unit = f" ({curve.unit})" if curve.unit else ""
        rows.append(
            (code(curve.name + unit, 80), rank, number(len(curve.points)), *shown,
             number(len(curve.points) - len(finite)))
        )  # fmt: skip
    if not rows:
        return ["## Curves", "", "No curve: the probe saw no optimizer step.", ""]
    header = ("curve", "of", "points", "first", "last", "lowest", "highest", "not finite")
    return ["## Curves", "", *table(header, rows), ""]


def _not_judged(report: ReportInput) -> list[str]:
    rows = [
        (code(name), prose(family), required, prose(reason))
        for name, family, required, reason in not_judged_rows(report)
    ]
    if not rows:
        return ["## Not judged", "", words.nothing_unjudged_text(report.result), ""]
    return ["## Not judged", "", *table(("check", "family", "required", "why"), rows), ""]


def _evaluations(report: ReportInput) -> list[str]:
    lines = ["## Evaluations and saves", ""]
    evaluations = [tuple(map(prose, row)) for row in evaluation_rows(report.evaluations)]
    saves = [tuple(map(prose, row)) for row in save_rows(report.saves)]
    for header, rows, otherwise in (
        (("step", "metrics", "source"), evaluations, "No evaluation was seen."),
        (("step", "path", "kind", "tensors", "size", "state"), saves, "No save was seen."),
    ):
        lines += [*(table(header, rows) if rows else [otherwise]), ""]
    return lines


def _environment(report: ReportInput) -> list[str]:
    lines = ["## Environment and model", ""]
    rows = [
        (group, code(key, 80), code(any_value(value, 600), 600))
        for group, values in (("environment", report.environment), ("model", report.model))
        for key, value in list(values.items())[:MAX_LINES]
    ]
    if not rows:
        return [*lines, "Unknown: no process of the run reported them.", ""]
    return [*lines, *table(("part", "name", "value"), rows), ""]


def _bounds(report: ReportInput) -> list[str]:
    bounds = [(row.name, prose(row.value), prose(row.source)) for row in bound_rows(report.plan)]
    gates = gate_rows(report.plan)
    lines = ["## Bounds", "", *table(("bound", "at most", "source"), bounds), ""]
    if gates:
        rows = [(prose(row.title), code(row.code), row.action) for row in gates]
        lines += [*table(("gate", "code", "when it trips"), rows), ""]
    return lines
