"""``seatrial freeze``."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import TYPE_CHECKING, Any

from seatrial.cli.output import (
    command_object,
    current_folder,
    print_json,
    print_text,
    redacted,
    say,
)
from seatrial.core.verdict import EXIT_COULD_NOT_JUDGE, EXIT_PASS

if TYPE_CHECKING:
    from seatrial.core.trial import Trial
    from seatrial.workflows.freeze import Frozen

_MAX_LINES = 40


def freeze_command(options: argparse.Namespace) -> int:
    """Write the lock of a trial, or with ``--check`` list how the trial differs from it.

    Raises:
        UsageError: no trial, no lock to compare with, or an input that cannot be frozen.
        CouldNotJudgeError: the disk is full, or the ledger cannot be used.
    """
    from seatrial.readers.trial_toml import read_trial

    folder = current_folder()
    path = options.trial or "trial.toml"
    trial = read_trial(path)
    if options.check:
        return _check(trial, path, as_json=options.json)
    from datetime import datetime, timezone

    from seatrial.store.state_folder import find_state_folder
    from seatrial.workflows.freeze import freeze, loosening_findings

    state = find_state_folder(folder, os.environ)
    frozen = freeze(trial, state, os.environ, datetime.now(timezone.utc), say)
    findings = [*frozen.findings, *loosening_findings(frozen.loosenings, trial.file)]
    if options.json:
        told = [finding.to_json() for finding in findings]
        print_json(command_object("freeze", _result(frozen), findings=told))
        return EXIT_PASS
    print_text(redacted("\n".join(_lines(frozen, path))))
    return EXIT_PASS


def _result(frozen: Frozen) -> dict[str, Any]:
    return {
        "path": frozen.path,
        "sha256": frozen.lock.sha256,
        "is_new": frozen.is_new,
        "inputs": len(frozen.lock.inputs),
        "runner_files": len(frozen.lock.runner["files"]),
        "heldout_cases": len((frozen.lock.heldout or {}).get("cases", ())),
        "loosenings": [
            {
                "what": told.loosening.what,
                "how": told.loosening.how,
                "before": told.loosening.before,
                "after": told.loosening.after,
                "lock_sha256": told.lock_sha256,
                "verdict": None if told.verdict is None else told.verdict.verdict,
                "run_id": None if told.verdict is None else told.verdict.run_id,
            }
            for told in frozen.loosenings
        ],
    }


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _lines(frozen: Frozen, typed: str) -> list[str]:
    lock = frozen.lock
    shown = os.path.relpath(frozen.path)
    lines = [
        f"{'wrote' if frozen.is_new else 'nothing changed:'} {shown}  {lock.sha256[:12]}",
        f"  {_count(len(lock.inputs), 'input')}, {_count(len(lock.runner['files']), 'runner file')}"
        + (f", {_count(len(lock.heldout['cases']), 'held-out case')}" if lock.heldout else ""),
    ]
    lines += [
        f"  {entry['id']}: {entry['hub']} at {entry['revision']}"
        for entry in lock.inputs
        if entry["kind"] == "hub"
    ]
    context = lock.context or {}
    lines += [f"  not followed: {point}" for point in context.get("runner_not_followed", ())]
    for place, rows in (context.get("rows_not_parsed") or {}).items():
        lines.append(f"  {place}: {rows['rows']} rows were counted and not parsed")
    lines += [f"  warning: {finding.message}" for finding in frozen.findings]
    lines += [f"  loosened: {told.text}" for told in frozen.loosenings]
    lines.append(f"  next: seatrial run {shlex.quote(typed)}")
    return lines


def _check(trial: Trial, path: str, *, as_json: bool) -> int:
    from seatrial.workflows.freeze import check

    report = check(trial, os.environ, say)
    drifted = bool(report.not_judged)
    code = EXIT_COULD_NOT_JUDGE if drifted else EXIT_PASS
    if as_json:
        told = [finding.to_json() for finding in report.findings]
        result = dict(report.facts) | {"drifted": drifted}
        print_json(command_object("freeze", result, exit_code=code, findings=told))
        return code
    drifts = [finding for finding in report.findings if finding.severity != "note"]
    notes = [finding for finding in report.findings if finding.severity == "note"]
    sha = str(report.facts["lock_sha256"])[:12]
    count = _count(len(drifts), "drift")
    lines = [f"{count} from lock {sha}" if drifted else f"no drift from lock {sha}"]
    for shown in (drifts, notes):
        lines += [f"  {finding.message} [{finding.place.file}]" for finding in shown[:_MAX_LINES]]
        if len(shown) > _MAX_LINES:
            lines.append(f"  and {len(shown) - _MAX_LINES} more; all of them: --json")
    if drifted:
        lines.append(f"  next: put them back, or seatrial freeze {shlex.quote(path)}")
    print_text(redacted("\n".join(lines)))
    return code
