"""Preflight: rules on the runner before anything is launched, and the hash of what was read."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from seatrial.core.check_report import CheckReport
from seatrial.core.child import Ask
from seatrial.core.errors import UsageError
from seatrial.core.finding import Finding, NotJudged, cause_first
from seatrial.core.redaction import Redactor, from_environment
from seatrial.core.runner_env import runner_environment
from seatrial.core.trial import Trial
from seatrial.core.verdict import (
    EXIT_COULD_NOT_JUDGE,
    EXIT_FAIL,
    EXIT_PASS,
    strongest_exit,
)
from seatrial.preflight.rule import SCRIPT_CODE, Judged, Rule, Subject, judge
from seatrial.preflight.subject import subject_of_file, subject_of_trial
from seatrial.preflight.values import FOUND, MISSING, UNSURE
from seatrial.readers.machine import available_cores
from seatrial.store.ledger import open_ledger
from seatrial.store.preflight_rows import refuse_other_hash, remember_preflight
from seatrial.store.state_folder import StateFolder, create_state_folder, find_state_folder

NAME = "preflight"
DRY_RUN = "environment.dry_run_failed"
_READS = ("static", "launch")


@dataclass(frozen=True)
class PreflightRequest:
    """What was typed: a script or a trial file, literal texts, and the words of the script."""

    file: str
    words: tuple[str, ...] | None = None
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    dry_run: bool = False


def preflight_run(
    trial: Trial,
    environ: Mapping[str, str],
    *,
    ask: Ask,
    state: StateFolder,
    locked: Mapping[str, str] | None = None,
) -> CheckReport:
    """The rules before a run.

    An ad-hoc run gets the rules that only read, with their milder severities.

    Args:
        trial: the trial, or that of an ad-hoc run.
        environ: environment of the person.
        ask: runs a capped child.
        state: the state folder; of an ad-hoc run the last preflight of its script is looked up.
        locked: commit of each Hub input by its id, as the lock holds them.

    Raises:
        UsageError: the script is binary or in another coding than it says; or, without a trial, it
            was preflighted and has changed since.
    """
    began = time.monotonic()
    cwd = os.path.abspath(trial.runner.cwd or os.getcwd())
    env = _runner_env(environ, trial)
    subject = subject_of_trial(trial, env, cwd, ask=None if trial.ad_hoc else ask)
    if trial.ad_hoc and subject.content is not None and os.path.exists(state.ledger):
        with open_ledger(state.ledger) as ledger:
            refuse_other_hash(ledger, subject.content.path, subject.content.sha256)
    kinds = _READS if trial.ad_hoc else (*_READS, "dry_run")
    rules = _rules(kinds)
    if trial.runner.dry_run:  # who names one in a trial wants it executed before the launch
        rules = (*rules, *(one for one in _rules(("runner",)) if one.code == DRY_RUN))
    subject = replace(subject, locked=locked or {})
    return _report(subject, rules, _redactor(environ, subject, trial), began)


def preflight_file(
    request: PreflightRequest, cwd: str, environ: Mapping[str, str], *, ask: Ask
) -> CheckReport:
    """The rules on a script or on a trial file, as typed; the result is kept in the ledger.

    Raises:
        UsageError: a text is empty, the file cannot be read, the trial is refused.
    """
    began = time.monotonic()
    for flag, texts in (("--require", request.require), ("--forbid", request.forbid)):
        if "" in texts:
            raise UsageError(f"the text of {flag} is empty: it is in every file")
    trial: Trial | None = None
    if request.file.endswith(".toml"):
        if request.words is not None:
            raise UsageError(
                "a trial has its own command; words behind -- are for a script",
                remedy=f"seatrial preflight {request.file}",
            )
        trial = _trial(os.path.join(cwd, request.file))
        env = _runner_env(environ, trial)
        runner_cwd = os.path.abspath(os.path.join(cwd, trial.runner.cwd or ""))
        subject = subject_of_trial(
            trial, env, runner_cwd, ask=ask, require=request.require, forbid=request.forbid
        )
        subject = replace(subject, locked=_locked(trial))
    else:
        env = dict(environ)
        subject = subject_of_file(
            request.file,
            request.words,
            env=env,
            cwd=cwd,
            require=request.require,
            forbid=request.forbid,
        )
        if request.dry_run:
            raise UsageError(
                f"--dry-run needs a trial: {request.file} alone names no interpreter and no "
                "dry-run command",
                remedy=f"seatrial init {request.file}; then preflight its trial.toml",
            )
    # Asking the interpreter executes nothing of the trial's; a lone script names no interpreter.
    kinds = _READS if trial is None else (*_READS, "dry_run")
    if request.dry_run:
        kinds = (*kinds, "runner")
    report = _report(subject, _rules(kinds), _redactor(environ, subject, trial), began)
    if trial is not None:
        report = _unread_is_required(report, subject)
    _remember(subject, report, cwd, environ)
    return report


def exit_code_of(report: CheckReport) -> int:
    """1 with an error, 3 when something required could not be judged, else 0."""
    codes = [EXIT_PASS]
    if any(finding.severity == "error" for finding in report.findings):
        codes.append(EXIT_FAIL)
    if any(entry.required for entry in report.not_judged):
        codes.append(EXIT_COULD_NOT_JUDGE)
    return strongest_exit(codes)


def _trial(path: str) -> Trial:
    from seatrial.readers.bounds import BoundFlags
    from seatrial.readers.trial_toml import read_trial

    return read_trial(path, BoundFlags())


def _locked(trial: Trial) -> dict[str, str]:
    """Commit of each Hub input by its id, as the lock beside the trial holds them."""
    from seatrial.readers.lock_file import read_lock

    lock = read_lock(trial)
    return {} if lock is None else lock.revisions


def _runner_env(environ: Mapping[str, str], trial: Trial) -> dict[str, str]:
    """Environment of the runner; secrets that are not set here are no matter of a preflight."""
    there = tuple(name for name in trial.runner.secrets if name in environ)
    known = replace(trial, runner=replace(trial.runner, secrets=there))
    return runner_environment(environ, known, available_cores())


def _redactor(environ: Mapping[str, str], subject: Subject, trial: Trial | None) -> Redactor:
    secrets: Sequence[str] = trial.runner.secrets if trial is not None else ()
    return from_environment({**environ, **subject.env}, secrets, subject.command)


def _rules(kinds: Sequence[str]) -> tuple[Rule, ...]:
    from seatrial.preflight.table import RULES

    return tuple(one for one in RULES if one.detects in kinds)


def _report(
    subject: Subject, rules: Sequence[Rule], redactor: Redactor, began: float
) -> CheckReport:
    judged = judge(rules, subject)
    findings = cause_first(
        Finding.from_json(redactor.value(finding.to_json())) for finding in judged.findings
    )
    return CheckReport(
        name=NAME,
        findings=findings,
        not_judged=tuple(
            replace(entry, reason=redactor.text(entry.reason)) for entry in judged.not_judged
        ),
        facts=_facts(subject, judged),
        seconds=time.monotonic() - began,
    )


def _facts(subject: Subject, judged: Judged) -> dict[str, Any]:
    content = subject.content
    return {
        "runner": content.path if content is not None else None,
        "sha256": content.sha256 if content is not None else None,
        "bytes": len(content.data) if content is not None else None,
        "rules": len(judged.states),
        "found": judged.count(FOUND),
        "not_found": judged.count(MISSING),
        "unknown": judged.count(UNSURE),
        "states": dict(judged.states),
    }


def _unread_is_required(report: CheckReport, subject: Subject) -> CheckReport:
    """Whoever asks for the preflight of a trial wants its runner read."""
    wants_texts = bool(subject.require or subject.forbid) and subject.content is None
    entries = tuple(
        replace(entry, required=True) if entry.code == SCRIPT_CODE else entry
        for entry in report.not_judged
    )
    if wants_texts:
        reason = "the texts of --require and --forbid: there is no file of the runner to look in"
        entries = (*entries, NotJudged("inputs.required_text_missing", "inputs", reason, True))
    return replace(report, not_judged=entries)


def _remember(subject: Subject, report: CheckReport, cwd: str, environ: Mapping[str, str]) -> None:
    """Keep the hash, so that a later run refuses other bytes."""
    if subject.content is None:
        return
    state = find_state_folder(cwd, environ)
    create_state_folder(state)
    file = os.path.join(cwd, subject.content.path)
    with open_ledger(state.ledger) as ledger:
        passed = exit_code_of(report) == EXIT_PASS
        remember_preflight(ledger, file, subject.content.sha256, passed, datetime.now(timezone.utc))
