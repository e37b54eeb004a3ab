"""Before a launch: compare with the lock (or make it), held-out cases unused, rules."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from seatrial.core.check_report import CheckReport
from seatrial.core.child import ChildAnswer, ChildRequest
from seatrial.core.errors import RefusedLaunchError, UsageError
from seatrial.core.finding import Finding, NotJudged, Place, cause_first
from seatrial.core.lock import Lock
from seatrial.core.redaction import from_environment
from seatrial.core.run_result import RunResult
from seatrial.core.trial import Trial
from seatrial.process.child import run_child
from seatrial.workflows.prepare import Prepared

Say = Callable[[str], None]


@dataclass(frozen=True)
class Admitted:
    """A launch that may start.

    Attributes:
        prepared: with lock, legs and the number of the held-out use in its plan.
        checks: what was found on the way; they go into the record.
        lock: the lock as JSON; None for an ad-hoc run.
    """

    prepared: Prepared
    checks: tuple[CheckReport, ...] = ()
    lock: Mapping[str, Any] | None = None


def admit(
    prepared: Prepared,
    environ: Mapping[str, str],
    say: Say,
    *,
    heldout_again: str | None = None,
    stop: Callable[[], bool] | None = None,
) -> Admitted:
    """Look at everything that can be looked at before anything starts.

    Args:
        prepared: what was typed, checked.
        environ: the environment of the person.
        say: takes progress and remarks.
        heldout_again: why held-out cases are used again; None when they must be unused.
        stop: asked while children run; True ends them.

    Raises:
        UsageError: the lock cannot be made or read, held-out cases were used, the runner is not
            the one that was preflighted.
        RefusedLaunchError: the inputs drifted from the lock (exit 3), or a rule disproves the setup
            (exit 1). Nothing was started.
    """
    trial = prepared.trial
    frozen = None if trial.ad_hoc else _frozen(prepared, environ, say)
    admitted = with_lock(prepared, None if frozen is None else frozen.lock.sha256)
    if frozen is not None and trial.heldout is not None:
        from seatrial.workflows.heldout import refuse_before_launch

        use = refuse_before_launch(trial, frozen.lock.sha256, prepared.state, heldout_again)
        told = None
        if heldout_again is not None:
            secrets = prepared.trial.runner.secrets
            told = from_environment(environ, secrets, prepared.argv).text(heldout_again)
        plan = replace(admitted.plan, heldout_use=use, heldout_again=told)
        admitted = replace(admitted, plan=plan)
    rules = _preflight(prepared, environ, stop, None if frozen is None else frozen.lock)
    checks = (rules,) if frozen is None else (rules, frozen.report)
    errors = [finding for finding in rules.findings if finding.severity == "error"]
    if errors and not trial.ad_hoc:
        first = cause_first(errors)[0]
        raise RefusedLaunchError(
            f"Nothing was launched: {first.message}",
            1,
            checks,
            remedy=first.remedy,
        )
    return Admitted(admitted, checks, None if frozen is None else frozen.lock.to_json())


def with_lock(prepared: Prepared, lock_sha256: str | None) -> Prepared:
    """The prepared launch with the hash of its lock and its legs in the plan."""
    legs = legs_of(prepared.trial)
    return replace(prepared, plan=replace(prepared.plan, lock_sha256=lock_sha256, legs=legs))


def legs_of(trial: Trial) -> tuple[Mapping[str, Any], ...]:
    """What executes the user's code behind the main leg, each for at most the trial's wall."""
    if trial.ad_hoc or trial.heldout is None or "heldout" in trial.disable:
        return ()
    return ({"name": "heldout", "wall_s": trial.bounds.wall_s},)


@dataclass(frozen=True)
class _Frozen:
    lock: Lock
    report: CheckReport


def lock_of(prepared: Prepared, environ: Mapping[str, str], say: Say) -> str | None:
    """Hash of the lock that a launch of this trial would run under; None for an ad-hoc run.

    Raises:
        UsageError, RefusedLaunchError: see ``admit``.
    """
    return None if prepared.trial.ad_hoc else _frozen(prepared, environ, say).lock.sha256


def _frozen(prepared: Prepared, environ: Mapping[str, str], say: Say) -> _Frozen:
    """The trial's lock, compared with what is there now; made, and said so, when there is none."""
    from seatrial.readers.lock_file import lock_path, read_lock
    from seatrial.workflows.freeze import check, freeze, loosening_findings, loosenings

    trial, state = prepared.trial, prepared.state
    written = _as_written(trial)
    lock = read_lock(trial)
    findings: tuple[Finding, ...] = ()
    if lock is None:
        made = freeze(written, state, environ, datetime.now(timezone.utc), say)
        lock = made.lock
        say(f"seatrial: there was no lock; wrote {made.path}")
        findings = (_frozen_now(made.path), *made.findings)
    else:
        report = check(written, environ, say, lock=lock)
        report = _with_looser_flags(report, trial, lock.terms)
        if any(entry.required for entry in report.not_judged):
            name = shlex.quote(trial.file or lock_path("trial.toml"))
            raise RefusedLaunchError(
                f"Nothing was launched: {report.not_judged[0].reason}",
                3,
                (report,),
                remedy=f"seatrial freeze --check {name}; then undo the change, or accept it with "
                f"seatrial freeze {name}",
            )
        findings = report.findings
    findings += loosening_findings(loosenings(trial, lock, state))
    return _Frozen(lock, CheckReport("freeze", findings))


def _frozen_now(path: str) -> Finding:
    return Finding(
        "inputs.frozen_now",
        "inputs",
        "note",
        f"There was no lock, so this run froze its inputs first, to {path}.",
        place=Place(file=path),
        remedy="Commit the lock beside the trial, so that the next run is held to it.",
        confidence="proven",
    )


def _with_looser_flags(report: CheckReport, trial: Trial, terms: Mapping[str, Any]) -> CheckReport:
    """A bound that a flag makes looser than the lock is drift; a tighter one is no matter."""
    frozen = terms.get("bounds") or {}
    for name in ("max_steps", "wall_s", "memory_bytes"):
        source = trial.bounds.sources.get(name, trial.bounds.sources.get(name.partition("_")[0]))
        old, new = frozen.get(name), getattr(trial.bounds, name)
        if source != "flag" or not isinstance(old, (int, float)) or new <= old:
            continue
        reason = f"a flag sets {name} to {new}, and the lock has {old}"
        entry = NotJudged("inputs", "inputs", f"the trial drifted from its lock: {reason}", True)
        report = replace(report, not_judged=(*report.not_judged, entry))
    return report


def _as_written(trial: Trial) -> Trial:
    """The trial without bounds that were typed as flags: a lock outlives this command line."""
    from seatrial.readers.trial_toml import read_trial

    if trial.file is None or "flag" not in trial.bounds.sources.values():
        return trial
    try:
        return read_trial(trial.file)
    except UsageError:  # the file leaves a bound to the flag
        return trial


def _preflight(
    prepared: Prepared,
    environ: Mapping[str, str],
    stop: Callable[[], bool] | None,
    lock: Lock | None,
) -> CheckReport:
    from seatrial.workflows.preflight import preflight_run

    def ask(request: ChildRequest) -> ChildAnswer:
        return run_child(replace(request, env=request.env or prepared.env), stop)

    locked = {} if lock is None else lock.revisions
    return preflight_run(prepared.trial, environ, ask=ask, state=prepared.state, locked=locked)


def refused_result(error: RefusedLaunchError, prepared: Prepared) -> RunResult:
    """The ``seatrial.run/1`` object of a launch that was refused: nothing ran."""
    checks: tuple[CheckReport, ...] = error.checks
    findings = cause_first(finding for report in checks for finding in report.findings)
    open_points: tuple[NotJudged, ...] = tuple(
        entry for report in checks for entry in report.not_judged
    )
    return RunResult(
        exit_code=error.exit_code,
        outcome=None,
        conclusion=error.message,
        findings=findings,
        not_judged=open_points,
        lock_sha256=prepared.plan.lock_sha256,
        hypothesis="not disproved" if prepared.trial.hypothesis else "not stated",
        currency=prepared.plan.money.rpartition(" ")[2] or "USD",
    )
