"""``seatrial freeze``: write the lock of a trial, compare it with now, tell what was eased."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from seatrial import hub
from seatrial.core.check_report import CheckReport
from seatrial.core.errors import UsageError
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.lock import MAX_EARLIER, Drift, Earlier, Lock, Loosening, drift, loosened
from seatrial.core.lock_drift import RUNNER
from seatrial.core.trial import Trial
from seatrial.readers.lock_file import lock_path, read_lock
from seatrial.readers.shared_inputs import shared_inputs
from seatrial.store.lock_rows import VerdictRow, locks_of, remember_lock, verdicts_of
from seatrial.store.state_folder import StateFolder, create_state_folder
from seatrial.workflows.freeze_measure import measure

CHECK = "inputs"
DRIFT_CODE = "inputs.drift"
CONTEXT_CODE = "inputs.context_differs"
_MAX_CONTEXT = 20
LOOSENED_CODE = "bounds.loosened"
Say = Callable[[str], None]


@dataclass(frozen=True)
class LooseningTold:
    """An easing, the earlier lock that was stricter, and how the last run under it ended."""

    loosening: Loosening
    lock_sha256: str
    lock_created: str
    verdict: VerdictRow | None

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.loosening.text}; {self.before}"

    @property
    def before(self) -> str:
        """The earlier lock and its verdict, in words."""
        lock = f"lock {self.lock_sha256[:12]} of {self.lock_created[:16]}"
        if self.verdict is None:
            return f"{lock}: no verdict on record"
        outcome = f", {self.verdict.outcome}" if self.verdict.outcome else ""
        return f"{lock}: {self.verdict.verdict}{outcome} (run {self.verdict.run_id})"


@dataclass(frozen=True)
class Frozen:
    """What ``freeze`` did.

    Attributes:
        lock: what stands in the file now.
        path: the file.
        loosenings: what it lets pass that an earlier lock of this trial did not.
        is_new: whether anything that is frozen differs from the file that was there before.
        findings: remarks on the inputs.
    """

    lock: Lock
    path: str
    loosenings: tuple[LooseningTold, ...]
    is_new: bool
    findings: tuple[Finding, ...] = ()


def freeze(
    trial: Trial, state: StateFolder, environ: Mapping[str, str], now: datetime, say: Say
) -> Frozen:
    """Write ``trial.lock`` beside the trial file, and note it in the ledger.

    Args:
        trial: read from its file.
        state: where the ledger is.
        environ: environment of the person.
        now: a moment with a time zone.
        say: told about progress.

    Raises:
        UsageError: an input cannot be frozen as it is, or a place may not be written.
        CouldNotJudgeError: the disk is full, or the ledger cannot be used.
    """
    from seatrial.store.atomic import write_json
    from seatrial.store.ledger import open_ledger

    file = _file_of(trial)
    findings = shared_inputs(trial)
    before = read_lock(trial)
    pinned = before if hub.is_offline(environ) else None
    if pinned is not None and any(entry.get("kind") == "hub" for entry in pinned.inputs):
        say("offline: revisions of the Hub stay as the lock has them")
    lock = measure(trial, environ, say, pinned=pinned)
    is_new = before is None or before.sha256 != lock.sha256
    if not is_new and before is not None and before.context == lock.context:
        lock = before  # nothing to say that is not said: the file stays as it is
    else:
        lock = replace(
            lock,
            created=now.isoformat(timespec="seconds"),
            earlier=_earlier(before, is_new=is_new),
        )
        write_json(lock_path(file), lock.to_json())
    create_state_folder(state)
    with open_ledger(state.ledger) as ledger:
        if before is not None:
            remember_lock(ledger, file, before.sha256, before.terms, _moment(before.created, now))
        remember_lock(ledger, file, lock.sha256, lock.terms, now)
    return Frozen(lock, lock_path(file), loosenings(trial, lock, state), is_new, findings)


def _file_of(trial: Trial) -> str:
    if trial.file is None:
        raise UsageError("only a trial file can be frozen", remedy="seatrial init train.py")
    return trial.file


def _moment(text: str, otherwise: datetime) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return otherwise


def _earlier(before: Lock | None, *, is_new: bool) -> tuple[Earlier, ...]:
    """Ancestors of a new lock, newest first, each content once."""
    if before is None:
        return ()
    if not is_new:
        return before.earlier
    own = Earlier(before.sha256, before.created, before.terms)
    return (own, *(entry for entry in before.earlier if entry.sha256 != own.sha256))[:MAX_EARLIER]


def current(
    trial: Trial,
    environ: Mapping[str, str],
    say: Say,
    pinned: Lock | None = None,
    *,
    context: bool = True,
    tolerant: bool = False,
) -> Lock:
    """What the lock would be now; nothing is written.

    Args:
        trial: read from its file.
        environ: environment of the person.
        say: told about progress.
        pinned: a lock whose Hub revisions are kept where the same is asked for.
        context: whether commit, packages and machine are looked at; False makes it cheap.
        tolerant: a file that is gone or broken is told in its entry instead of raised.

    Raises:
        UsageError: an input cannot be frozen as it is.
    """
    return measure(trial, environ, say, pinned=pinned, context=context, tolerant=tolerant)


def loosenings(trial: Trial, lock: Lock, state: StateFolder) -> tuple[LooseningTold, ...]:
    """What a lock lets pass that an earlier one of this trial did not, each once.

    Earlier are those that the lock names, and those that the ledger has of this trial file.

    Raises:
        UsageError, CouldNotJudgeError: the ledger cannot be used.
    """
    known: dict[str, Earlier] = {entry.sha256: entry for entry in lock.earlier}
    verdicts: dict[str, VerdictRow] = {}
    if trial.file is not None and os.path.exists(state.ledger):
        from seatrial.store.ledger import open_ledger

        with open_ledger(state.ledger) as ledger:
            for row in locks_of(ledger, trial.file):
                known.setdefault(row.sha256, Earlier(row.sha256, row.created, row.terms))
            # Oldest first: the last one of a lock is the one that counts.
            verdicts = {str(v.lock_sha256): v for v in verdicts_of(ledger, trial.file)}
    known.pop(lock.sha256, None)
    told: dict[tuple[str, str], LooseningTold] = {}
    for entry in sorted(known.values(), key=lambda entry: entry.created, reverse=True):
        for loosening in loosened(entry.terms, lock.terms):
            key = (loosening.what, str(loosening.before))
            verdict = verdicts.get(entry.sha256)
            had = told.get(key)
            # The newest lock that was stricter, but rather one under which something ran.
            if had is None or (had.verdict is None and verdict is not None):
                told[key] = LooseningTold(loosening, entry.sha256, entry.created, verdict)
    return tuple(told.values())


def loosening_findings(
    told: Iterable[LooseningTold], trial_file: str | None = None
) -> tuple[Finding, ...]:
    """A warning for each easing, beside the verdict that preceded it."""
    return tuple(
        Finding(
            code=LOOSENED_CODE,
            family="bounds",
            severity="warning",
            message=f"{entry.loosening.text}. Before: {entry.before}",
            place=Place(file=trial_file),
            evidence=Evidence(observed=entry.loosening.after, expected=entry.loosening.before),
            remedy="put the earlier value back, or say beside the result why it was eased",
            confidence="proven",
        )
        for entry in told
    )


def check(
    trial: Trial,
    environ: Mapping[str, str],
    say: Say,
    *,
    lock: Lock | None = None,
    context: bool = True,
) -> CheckReport:
    """Compare a trial with its lock. Nothing is written, and no pinned name is looked up again.

    Args:
        trial: read from its file.
        environ: environment of the person.
        say: told about progress.
        lock: compare with this one instead of the file.
        context: whether commit, packages and machine are looked at.

    Raises:
        UsageError: there is no lock, or it is damaged.
    """
    began = time.monotonic()
    lock = lock or read_lock(trial)
    if lock is None:
        name = trial.file or "trial.toml"
        raise UsageError(
            f"{name} has no lock: it was never frozen",
            remedy=f"seatrial freeze {shlex.quote(name)}",
        )
    now = measure(trial, environ, say, pinned=lock, tolerant=True, context=context)
    found = drift(lock, now)
    refused = [entry for entry in found if entry.refused]
    return CheckReport(
        name=CHECK,
        findings=(
            *(_drift_finding(entry, trial) for entry in refused),
            *_context_finding([entry for entry in found if not entry.refused]),
        ),
        not_judged=_not_judged(refused),
        facts={"lock_sha256": lock.sha256, "drifts": len(refused), "inputs": len(lock.inputs)},
        seconds=time.monotonic() - began,
    )


def check_record(lock: Lock, trial: Trial) -> CheckReport:
    """Compare what a lock names with what is on disk, after a run under it.

    Only what the lock names is looked at: a file that the run itself wrote is no drift. Terms and
    command are those that the run was launched with; nobody could change them since.

    Args:
        lock: that the run was launched under.
        trial: of the run, as its plan has it.
    """
    began = time.monotonic()
    now = measure(trial, os.environ, lambda _text: None, pinned=lock, context=False, tolerant=True)
    runner = {**lock.runner, "files": now.runner.get("files")}
    found = drift(lock, replace(now, terms=lock.terms, runner=runner))
    named = [entry for entry in found if not (entry.kind == RUNNER and entry.before is None)]
    return CheckReport(
        name=CHECK,
        findings=tuple(_drift_finding(entry, trial) for entry in named),
        not_judged=_not_judged([entry for entry in named if entry.refused]),
        facts={"lock_sha256": lock.sha256, "drifts": len(named), "inputs": len(lock.inputs)},
        seconds=time.monotonic() - began,
    )


def _context_finding(found: Sequence[Drift]) -> tuple[Finding, ...]:
    """One note for all of it: another machine has hundreds of other packages."""
    if not found:
        return ()
    packages = [entry for entry in found if entry.place.startswith("packages")]
    told = [entry.message for entry in found if entry not in packages]
    if packages:
        more = f", and {len(packages) - 1} other packages" if len(packages) > 1 else ""
        told.append(f"{packages[0].message}{more}")
    return (
        Finding(
            code=CONTEXT_CODE,
            family="environment",
            severity="note",
            message=f"context is another than at freezing: {'; '.join(told)}",
            evidence=Evidence(
                observed={entry.place: entry.after for entry in found[:_MAX_CONTEXT]},
                expected={entry.place: entry.before for entry in found[:_MAX_CONTEXT]},
            ),
            remedy="nothing: it is listed, and refuses no run",
            confidence="proven",
        ),
    )


def _drift_finding(entry: Drift, trial: Trial) -> Finding:
    name = shlex.quote(trial.file or "trial.toml")
    return Finding(
        code=DRIFT_CODE,
        family="inputs",
        severity="warning",
        message=f"{entry.kind} differs from the lock: {entry.message}",
        place=Place(file=entry.place),
        evidence=Evidence(observed=entry.after, expected=entry.before),
        remedy=f"put it back as it was, or freeze again: seatrial freeze {name}",
        confidence="proven",
    )


def _not_judged(refused: Sequence[Drift]) -> tuple[NotJudged, ...]:
    if not refused:
        return ()
    first = refused[0]
    more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
    named = first.message.startswith(first.place)
    told = first.message if named else f"{first.place}: {first.message}"
    reason = f"the trial drifted from its lock: {told}{more}"
    return (NotJudged(CHECK, "inputs", reason, required=True),)
