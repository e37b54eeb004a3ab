"""``seatrial preflight``: rules on a script or a trial before it is launched."""

from __future__ import annotations

import argparse
import os

from seatrial.cli.output import command_object, current_folder, print_json, print_text
from seatrial.core.check_report import CheckReport


def preflight_command(options: argparse.Namespace, command: list[str] | None) -> int:
    """Check a runner or a trial; 0 clean, 1 with an error, 3 when it could not be judged."""
    from seatrial.process.child import run_child
    from seatrial.workflows import preflight as workflow

    report = workflow.preflight_file(
        workflow.PreflightRequest(
            file=options.runner,
            words=None if command is None else tuple(command),
            require=tuple(options.require),
            forbid=tuple(options.forbid),
            dry_run=options.dry_run,
        ),
        current_folder(),
        dict(os.environ),
        ask=run_child,
    )
    code = workflow.exit_code_of(report)
    if options.json:
        result = report.to_json()
        findings = result.pop("findings")
        print_json(command_object("preflight", result, exit_code=code, findings=findings))
    else:
        print_text(_text(report))
    return code


def _text(report: CheckReport) -> str:
    from seatrial.evidence.finding_tree import place_text
    from seatrial.evidence.plain_text import one_line

    lines = []
    for finding in report.findings:
        where = place_text(finding.place)
        lines.append(f"{finding.severity:<8}{finding.code}  {where}".rstrip())
        lines.append(f"        {one_line(finding.message, 600)}")
        if finding.remedy:
            lines.append(f"        next: {one_line(finding.remedy, 300)}")
    by_reason: dict[str, list[str]] = {}
    for entry in report.not_judged:
        by_reason.setdefault(entry.reason, []).append(entry.code)
    for reason, codes in by_reason.items():
        lines.append(f"not judged  {', '.join(codes)}")
        lines.append(f"        {one_line(reason, 600)}")
    facts = report.facts
    counts = dict.fromkeys(("error", "warning", "note"), 0)
    for finding in report.findings:
        counts[finding.severity] += 1
    if lines:
        lines.append("")
    lines.append(
        f"{facts['rules']} rules: {counts['error']} errors, {counts['warning']} warnings, "
        f"{counts['note']} notes; {facts['unknown']} not judged"
    )
    if facts["sha256"] is not None:
        lines.append(f"{facts['runner']}  sha256 {facts['sha256']}")
    return "\n".join(lines)
