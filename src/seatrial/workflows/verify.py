"""After a run: look at every checkpoint it left, and recompute which one is the best."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from seatrial.checkpoints.best_facts import best_facts
from seatrial.checkpoints.best_findings import (
    limit_findings,
    reload_findings,
    stale_findings,
    unusable_findings,
)
from seatrial.checkpoints.earlier import earlier_findings, earlier_run
from seatrial.checkpoints.examine import Examined, Surroundings, examine
from seatrial.checkpoints.final_weights import final_weights
from seatrial.checkpoints.find import Checkpoint, Found
from seatrial.checkpoints.memory_match import failed_saves, saves_by_path
from seatrial.checkpoints.run_folder import (
    BestAnswer,
    RunFolder,
    best_answer,
    filtered_nan,
    run_folders,
)
from seatrial.checkpoints.search import search
from seatrial.checkpoints.torch_files import Asker, read_torch_files
from seatrial.checkpoints.weight_faults import changing
from seatrial.core.best_judgement import judge_best
from seatrial.core.check_report import CheckReport
from seatrial.core.child import Ask
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.launch import Started
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.trial import Trial

# Kept back from the child for the files that are read here.
_CHILD_SHARE = 0.6


def verify_checkpoints(
    plan: Plan,
    trial: Trial,
    observation: Observation,
    started: Started | None,
    ask: Ask,
    stop: Callable[[], bool],
    deadline_s: float,
) -> tuple[CheckReport, ...]:
    """The reports ``checkpoint`` and ``best_checkpoint`` of an ended run.

    Args:
        plan: of the run.
        trial: tells the declared output folder.
        observation: what the events say.
        started: when the runner was started; None when it never was.
        ask: runs a capped child.
        stop: asked often; True ends the check, and what is left is not judged.
        deadline_s: seconds for all of it, from now.
    """
    began = time.monotonic()
    work = _Work(plan, trial, observation, started, ask, stop, began + deadline_s)
    work.look()
    checked = time.monotonic()
    best = work.decide()
    return (
        CheckReport(
            "checkpoint",
            tuple(_gathered(work.findings)),
            tuple(_once(work.not_judged)),
            {"checkpoints": len(work.found.checkpoints), "compared_tensors": work.compared},
            checked - began,
        ),
        CheckReport("best_checkpoint", *best, time.monotonic() - checked),
    )


def _gathered(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for the same fault in several checkpoints: that of the earliest step."""
    groups: dict[tuple[str, str, str | None], list[Finding]] = {}
    for item in findings:
        groups.setdefault((item.code, item.severity, item.place.parameter), []).append(item)
    found = []
    for items in groups.values():
        first = min(items, key=lambda item: item.place.step or 0)
        more = len({item.place.file for item in items}) - 1
        if more > 0:
            words = f"; likewise in {more} more place{'s' if more > 1 else ''}"
            first = replace(first, message=first.message + words)
        found.append(first)
    return found


def _once(entries: Sequence[NotJudged]) -> list[NotJudged]:
    return list(dict.fromkeys(entries))


@dataclass
class _Work:
    """The check as it goes on."""

    plan: Plan
    trial: Trial
    observation: Observation
    started: Started | None
    ask: Ask
    stop: Callable[[], bool]
    deadline: float
    findings: list[Finding] = field(default_factory=list)
    not_judged: list[NotJudged] = field(default_factory=list)
    found: Found = field(default_factory=Found)
    folders: tuple[RunFolder, ...] = ()
    examined: dict[str, Examined] = field(default_factory=dict)
    earlier: frozenset[str] = frozenset()
    compared: int = 0

    def _over(self) -> bool:
        return self.stop() or time.monotonic() > self.deadline

    def _left(self) -> float:
        return 0.0 if self.stop() else max(0.0, self.deadline - time.monotonic())

    def look(self) -> None:
        """Find and examine every checkpoint, the likely best ones first."""
        self.found = search(self.observation.saves, self.trial.output.dir, self._over)
        self.folders = run_folders(self.observation, self.found.checkpoints.values())
        for path, why in self.found.skipped:
            self._open("checkpoint.search", f"{path} was not looked at: {why}")
        self.findings += failed_saves(self.observation.saves)
        self.earlier = earlier_run(
            self.found.checkpoints.values(),
            self.observation,
            self.folders,
            _seconds(self.started),
        )
        ordered = sorted(
            (item for item in self.found.checkpoints.values() if item.path not in self.earlier),
            key=self._urgency,
        )
        around = self._surroundings(ordered)
        for checkpoint in ordered:
            if self._over():
                self._open("checkpoint.time", f"{checkpoint.path} was not read: no time was left")
                continue
            answer = examine(checkpoint, around)
            self.examined[checkpoint.path] = answer
            self.findings += answer.findings
            self.not_judged += answer.not_judged
            self.compared += answer.compared
        beside = self.earlier.difference(*(self._stale(folder) for folder in self.folders))
        self.findings += earlier_findings(beside)
        if not ordered:
            self._open("checkpoint.none", "the run left no checkpoint to look at")

    def _open(self, code: str, reason: str, family: str = "checkpoint") -> None:
        self.not_judged.append(NotJudged(code, family, reason))

    def _urgency(self, checkpoint: Checkpoint) -> tuple[bool, float]:
        best = self.observation.best or {}
        return (checkpoint.path != best.get("path"), -checkpoint.mtime)

    def _surroundings(self, ordered: Sequence[Checkpoint]) -> Surroundings:
        observation = self.observation
        lead = observation.lead
        saves = saves_by_path(observation.saves)
        moved, still = changing(observation.saves)
        return Surroundings(
            saves=saves,
            moved=moved,
            still=still,
            models=tuple(model.data for model in observation.models),
            cwd=self.plan.cwd,
            rated=self._rated,
            cut_short=lead is None or not lead.ended,
            torch_files=self._torch_files(ordered),
            stop=self._over,
        )

    def _rated(self, step: int) -> bool:
        rates, lead = self.observation.curve("lr"), self.observation.lead
        if rates is None or lead is None:
            return False
        first = max(
            (
                part.first_step
                for part in self.observation.segments
                if part.rank == lead.rank and part.first_step is not None
                if part.first_step <= step
            ),
            default=1,
        )
        return any(first <= x <= step and y > 0 for x, y in rates.points)

    def _torch_files(self, ordered: Sequence[Checkpoint]) -> Mapping[str, Any]:
        paths = [
            path
            for checkpoint in ordered
            for path in checkpoint.weights
            if not path.endswith((".safetensors", ".distcp")) and _size(path)
        ]
        interpreter = self.observation.env.get("executable")
        if not paths or not isinstance(interpreter, str) or not os.path.isabs(interpreter):
            return {}
        asker = Asker(
            ask=self.ask,
            interpreter=interpreter,
            env={k: v for k, v in os.environ.items() if not k.startswith("SEATRIAL_")},
            memory_bytes=self.plan.memory_bytes,
            left=lambda: self._left() * _CHILD_SHARE,
        )
        return read_torch_files(asker, paths)

    # -- the best ---------------------------------------------------------------------------------

    def decide(self) -> tuple[tuple[Finding, ...], tuple[NotJudged, ...], Mapping[str, Any]]:
        """Findings, open points and facts about the best."""
        findings: list[Finding] = []
        open_points: list[NotJudged] = []
        answers: list[tuple[RunFolder, BestAnswer]] = []
        for folder in self.folders:
            answer = self._answer(folder)
            answers.append((folder, answer))
            findings += self._judge(folder, answer, open_points)
        facts = best_facts(
            self.found, self.examined, self.observation, [answer for _folder, answer in answers]
        )
        if facts["best"] is None:
            reason = "the run left no checkpoint" + (
                " that can be used" if self.found.checkpoints else ""
            )
            open_points.append(NotJudged("best_checkpoint.none", "best_checkpoint", reason))
        return tuple(findings), tuple(_once(open_points)), facts

    def _answer(self, folder: RunFolder) -> BestAnswer:
        return best_answer(
            folder,
            self.observation,
            usable={
                step: item.path
                for step, item in sorted(folder.checkpoints.items())
                if item.weights and not item.incomplete and self._is_mine(folder, item)
            },
            stale=self._stale(folder),
            cwd=self.plan.cwd,
            ad_hoc=self.plan.ad_hoc,
        )

    def _is_mine(self, folder: RunFolder, item: Checkpoint) -> bool:
        return item.path not in self._stale(folder)

    def _stale(self, folder: RunFolder) -> frozenset[str]:
        """Folders in a Trainer's output folder that an earlier run left there."""
        return frozenset(
            item.path
            for item in folder.checkpoints.values()
            if item.step not in folder.steps and item.path in self.earlier
        )

    def _judge(
        self, folder: RunFolder, answer: BestAnswer, open_points: list[NotJudged]
    ) -> list[Finding]:
        case = answer.case
        stale = self._stale(folder)
        for path, why in answer.problems:
            open_points.append(
                NotJudged("best_checkpoint.state", "best_checkpoint", f"{path}: {why}")
            )
        if case.greater is None and case.history.finite:
            open_points.append(
                NotJudged(
                    "best_checkpoint.direction",
                    "best_checkpoint",
                    f"whether more or less of {case.history.metric} is better is not known; "
                    "greater_is_better says it",
                )
            )
        self.findings += stale_findings(folder, stale, case.recorded.path)
        found = [*judge_best(case), *unusable_findings(case, self.examined)]
        found += limit_findings(case, folder, stale)
        best = case.best_saved
        if best is not None and case.saved:
            last = case.saved[max(case.saved)]
            final = final_weights(self.observation.saves, folder.path, case.saved[best[0]], last)
            found += reload_findings(case, final)
        filtered = filtered_nan(folder, self.observation, case.history)
        if filtered is not None:
            found.append(_filtered(case.history.metric, *filtered))
        # A script may train several times, each time into a folder of its own.
        return [
            item
            if item.place.file is not None
            else replace(item, place=replace(item.place, file=folder.path))
            for item in found
        ]


def _filtered(metric: str, step: int, logged: float) -> Finding:
    return Finding(
        "best_checkpoint.nan_filtered",
        "best_checkpoint",
        "error",
        f"{metric} at step {step} was emitted as nan, and the log that decides about the best says "
        f"{logged:g}: values that are not finite were left out of the mean",
        Place(step=step),
        Evidence("nan", logged),
        "set logging_nan_inf_filter=False, and do not select by this evaluation",
        "proven",
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _seconds(started: Started | None) -> float | None:
    """When the runner was started, in seconds since the epoch."""
    if started is None:
        return None
    try:
        return datetime.fromisoformat(started.t.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
