"""The checks behind a run: made once, in order, each report kept in the record."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from seatrial.core.check_report import CheckReport
from seatrial.core.child import ChildAnswer, ChildRequest
from seatrial.core.errors import SeatrialError
from seatrial.core.finding import NotJudged
from seatrial.core.launch import Started
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.redaction import Redactor, from_environment
from seatrial.core.run_result import RunResult
from seatrial.core.trial import EXTRA_LEGS_S, Trial
from seatrial.core.trial_json import trial_of_plan
from seatrial.core.verdict import EXIT_FAIL
from seatrial.process.child import run_child
from seatrial.readers import record as records
from seatrial.readers.json_file import read_json_limited
from seatrial.store.atomic import make_folder, write_json

# Reports in the order in which they are made; the first two before the launch.
BEFORE = ("preflight", "freeze")
AFTER = ("inputs", "checkpoint", "best_checkpoint", "heldout")
FAMILY = {"inputs": "inputs", "heldout": "eval_mode"}
# Reading checkpoints executes nothing of the user's and costs nothing; this bounds a slow disk.
_SCAN_S = 300.0
_JUDGED_OUTCOMES = ("completed", "capped", "hung_after_success")


@dataclass(frozen=True)
class Legs:
    """What the supervisor hands over so that the user's code may run again, behind the run."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True)
class Ended:
    """A run that ended, as far as it is known before its checks."""

    layout: RecordLayout
    plan: Plan
    started: Started | None
    observation: Observation
    so_far: RunResult


def made_before(layout: RecordLayout) -> tuple[CheckReport, ...]:
    """The reports that are in the record.

    Raises:
        BrokenRecordError: one cannot be read.
    """
    found = (records.read_check(layout, name) for name in (*BEFORE, *AFTER))
    return tuple(report for report in found if report is not None)


def make_checks(ended: Ended, legs: Legs | None) -> tuple[CheckReport, ...]:
    """Make what was not made yet. A check that cannot be made says so in its report.

    Args:
        ended: the run.
        legs: allows to execute the user's code; None (a record that is closed by somebody else
            than its supervisor) reads files only.
    """
    return _Checks(ended, legs).make()


class _Checks:
    def __init__(self, ended: Ended, legs: Legs | None) -> None:
        self._ended = ended
        self._legs = legs
        self._said = 0
        state = os.path.dirname(os.path.dirname(ended.layout.folder))
        self._ledger = os.path.join(state, "ledger.db")
        self._plan = ended.plan
        self._layout = ended.layout
        self._trial: Trial = trial_of_plan(ended.plan)
        self._reports = {report.name: report for report in made_before(ended.layout)}
        env = legs.env if legs is not None else os.environ
        self._redactor: Redactor = from_environment(env, ended.plan.secret_names, ())

    def make(self) -> tuple[CheckReport, ...]:
        self._step(("inputs",), self._inputs)
        self._step(("checkpoint", "best_checkpoint"), self._checkpoints)
        self._step(("heldout",), self._heldout)
        return tuple(self._reports.values())

    def _step(self, names: tuple[str, ...], make: Callable[[], tuple[CheckReport, ...]]) -> None:
        if all(name in self._reports or name in self._trial.disable for name in names):
            return
        began = time.monotonic()
        try:
            made = make()
        except SeatrialError as error:
            made = tuple(_unmade(name, f"{error.message}") for name in names)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not cost the verdict
            traceback.print_exc()  # goes to the record's supervisor.log
            reason = f"a fault of seatrial itself: {type(error).__name__}: {error}"
            made = tuple(_unmade(name, reason, required=True) for name in names)
        seconds = round(time.monotonic() - began, 3)
        for report in made:
            if report.name in self._trial.disable:
                continue
            timed = replace(report, seconds=report.seconds or seconds)
            plain = CheckReport.from_json(self._redactor.value(timed.to_json()))
            self._reports[report.name] = plain
            make_folder(os.path.dirname(self._layout.check(report.name)))
            write_json(self._layout.check(report.name), plain.to_json())

    def _inputs(self) -> tuple[CheckReport, ...]:
        """Whether the inputs are still what the lock says."""
        if self._plan.lock_sha256 is None:
            return ()
        from seatrial.readers.lock_file import read_lock_at
        from seatrial.workflows.freeze import check_record

        lock = read_lock_at(self._layout.lock, "run the trial again")
        if lock is None:
            return (_unmade("inputs", "the record holds no lock", required=True),)
        return (check_record(lock, self._trial),)

    def _checkpoints(self) -> tuple[CheckReport, ...]:
        from seatrial.workflows.verify import verify_checkpoints

        if self._ended.so_far.done == 0:
            return ()
        return verify_checkpoints(
            self._plan,
            self._trial,
            self._ended.observation,
            self._ended.started,
            self._ask,
            self._stopped,
            EXTRA_LEGS_S if self._plan.ad_hoc else _SCAN_S,
        )

    def _heldout(self) -> tuple[CheckReport, ...]:
        if self._trial.heldout is None:
            return ()
        reason = self._why_no_heldout()
        if reason:
            return (_unmade("heldout", reason, required=True),)
        from seatrial.workflows.heldout import evaluate_heldout

        legs = self._legs
        best = self._reports["best_checkpoint"].facts.get("best")
        if legs is None or not isinstance(best, dict):  # said by the reason above
            return ()
        report = evaluate_heldout(
            plan=self._plan,
            trial=self._trial,
            lock_sha256=self._plan.lock_sha256 or "",
            best=best,
            observation=self._ended.observation,
            env=legs.env,
            interpreter=self._interpreter(),
            layout=self._layout,
            ledger_path=self._ledger,
            redactor=self._redactor,
            stop=self._stopped,
            deadline_s=self._plan.legs_s,
            say=self._say,
        )
        report = self._still_frozen(report)
        if self._interrupted():
            report = replace(report, facts={**report.facts, "interrupted": True})
        return (report,)

    def _still_frozen(self, report: CheckReport) -> CheckReport:
        """The files that judged the answers are those of the lock, also behind the last case."""
        drifted = [
            entry.reason for check in self._inputs() for entry in check.not_judged if entry.required
        ]
        if not drifted or not report.facts.get("models"):
            return report
        reason = f"{drifted[0]}, while the held-out cases were answered; its cases count as used"
        entry = NotJudged("heldout", "eval_mode", reason, True)
        return replace(report, not_judged=(*report.not_judged, entry))

    def _why_no_heldout(self) -> str:
        """Why no case may be used; empty when the evaluation can begin."""
        from seatrial.workflows.heldout import begun_before

        so_far, unused = self._ended.so_far, "no held-out case was used"
        if begun_before(self._layout, self._ledger, self._plan.run_id):
            return "the evaluation was begun and not finished: its cases count as used"
        if so_far.outcome not in _JUDGED_OUTCOMES or so_far.done == 0:
            return f"the run did not get as far ({so_far.outcome}); {unused}"
        if so_far.exit_code == EXIT_FAIL:
            return f"the run was disproved before it: {so_far.conclusion} ({unused})"
        for name in ("inputs", "checkpoint", "best_checkpoint"):
            report = self._reports.get(name)
            if report is None:
                continue
            errors = [finding for finding in report.findings if finding.severity == "error"]
            if errors:
                return f"{errors[0].message} ({unused})"
            if name == "inputs" and any(entry.required for entry in report.not_judged):
                return f"the inputs drifted from the lock; {unused}"
        best = self._reports.get("best_checkpoint")
        chosen = None if best is None else best.facts.get("best")
        if not isinstance(chosen, dict) or not isinstance(chosen.get("path"), str):
            return f"there is no checkpoint to evaluate; {unused}"
        if self._legs is None:
            return f"the supervisor ended before it; {unused}"
        if self._stopped():
            return f"a stop was asked for before it; {unused}"
        return ""

    def _interpreter(self) -> str | None:
        """The interpreter that the training ran in, as its own first event names it."""
        told = self._ended.observation.env.get("executable")
        return told if isinstance(told, str) and os.path.isabs(told) else None

    def _ask(self, request: ChildRequest) -> ChildAnswer:
        env = self._legs.env if self._legs is not None else None
        return run_child(replace(request, env=request.env or env), self._stopped)

    def _stopped(self) -> bool:
        """Whether a stop was asked for since the training ended.

        A request from before was for the training, be it of a person or of a gate, and was met.
        """
        return any(map(self._is_new, (self._layout.stop_request, self._layout.kill_request)))

    def _is_new(self, request: str) -> bool:
        try:
            return os.stat(request).st_mtime_ns > os.stat(self._layout.ended).st_mtime_ns
        except OSError:
            return False

    def _interrupted(self) -> bool:
        for path in (self._layout.kill_request, self._layout.stop_request):
            if not self._is_new(path):
                continue
            try:
                asked = read_json_limited(path)
            except (OSError, SeatrialError):
                continue
            if isinstance(asked, dict) and asked.get("reason") == "interrupt":
                return True
        return False

    def _say(self, text: str) -> None:
        """Progress for whoever follows the run; see ``workflows.follow``."""
        from seatrial.store.leg_events import append_leg_event

        self._said += 1
        append_leg_event(self._layout, self._said, self._redactor.text(text))


def _unmade(name: str, reason: str, *, required: bool = False) -> CheckReport:
    family = FAMILY.get(name, name if name in ("checkpoint", "best_checkpoint") else "environment")
    return CheckReport(name, not_judged=(NotJudged(name, family, reason, required),))
