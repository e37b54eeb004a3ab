"""Gather what the page shows, and write page and summary into the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from seatrial.core.check_report import CheckReport
from seatrial.core.curve import Curve
from seatrial.core.launch import Started
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.run_result import RunResult
from seatrial.core.trip import Sample, Trip
from seatrial.evidence.page import render_page
from seatrial.evidence.report_input import ReportInput, gate_lines_for
from seatrial.evidence.summary import render_summary
from seatrial.store.atomic import write_text


def report_input(
    result: RunResult,
    plan: Plan,
    started: Started | None,
    observation: Observation,
    trips: tuple[Trip, ...],
    samples: Sequence[Sample],
    output_tail: str,
    checks: Sequence[CheckReport] = (),
) -> ReportInput:
    """The values behind a page; ``not_tested`` and ``next_command`` are the caller's to add."""
    return ReportInput(
        result=result,
        plan=plan,
        curves=(*observation.curves, *_memory(started, samples)),
        trips=trips,
        gate_lines=gate_lines_for(plan),
        environment=dict(observation.env),
        model=dict(observation.models[0].data) if observation.models else {},
        tested=_tested(result, observation, checks),
        started="" if started is None else started.t,
        evaluations=tuple(dict(vars(item)) for item in observation.evaluations),
        saves=tuple(_save(dict(vars(item))) for item in observation.saves),
        checks=tuple(checks),
        output_tail=output_tail,
    )


def write_report(layout: RecordLayout, report: ReportInput) -> None:
    """Write ``report.html`` and ``summary.md``.

    Raises:
        UsageError, CouldNotJudgeError: they cannot be written.
    """
    write_text(layout.summary, render_summary(report))
    write_text(layout.report, render_page(report))


def _memory(started: Started | None, samples: Sequence[Sample]) -> tuple[Curve, ...]:
    """Memory of the whole process tree over seconds since the start."""
    if not samples:
        return ()
    zero = samples[0].mono if started is None else started.mono
    points = tuple((sample.mono - zero, float(sample.rss_bytes)) for sample in samples)
    return (Curve("rss_bytes", "seconds", points, unit="bytes"),)


def _save(save: dict[str, Any]) -> dict[str, Any]:
    # A large model has thousands of tensors: the page says how many, the events keep the digests.
    save["digests"] = len(save.get("digests") or {})
    return save


def _tested(
    result: RunResult, observation: Observation, checks: Sequence[CheckReport]
) -> tuple[str, ...]:
    if result.done == 0:
        return ()
    ranks = f"{len(observation.ranks)} rank{'s' if len(observation.ranks) != 1 else ''}"
    watched = "raw loss, gradient norm, learning rate, tokens"
    sentences = [f"{result.done} optimizer steps were watched from inside on {ranks}: {watched}."]
    evaluations = [item for item in observation.evaluations if item.source == "trainer"]
    if evaluations:
        sentences.append(f"{len(evaluations)} evaluations ran and their metrics were kept.")
    good = [save for save in observation.saves if save.error is None]
    if good:
        sentences.append(
            f"{len(good)} saves ended without an error; the digests of their tensors were taken "
            "in memory."
        )
    return (*sentences, *(text for report in checks for text in _checked(report)))


def _checked(report: CheckReport) -> Iterator[str]:
    facts = report.facts
    said = facts.get("tested")
    if isinstance(said, str):
        yield said
    elif report.name == "preflight" and isinstance(facts.get("rules"), int):
        yield f"{facts['rules']} rules looked at the runner before the launch."
    elif report.name == "checkpoint" and facts.get("checkpoints"):
        count = facts["checkpoints"]
        yield (
            f"{count} checkpoint{'s' if count != 1 else ''} on disk were read whole: headers, "
            f"shapes, finite values; {facts.get('compared_tensors', 0)} tensors were compared with "
            "what was in memory when they were saved."
        )
    elif report.name == "best_checkpoint" and isinstance(facts.get("best"), dict):
        best = facts["best"]
        yield (
            f"The best checkpoint was recomputed from the evaluations of {best['metric']}: step "
            f"{best.get('step')}."
            if best.get("metric")
            else f"No evaluation decides which checkpoint is best; the last is {best.get('path')}."
        )
    elif report.name == "inputs" and not report.not_judged:
        yield "The inputs were hashed before and after the run and were as frozen."
    elif report.name == "heldout" and facts.get("models"):
        yield (
            f"The best checkpoint was loaded in a fresh process and answered {facts.get('cases')} "
            "held-out cases once each."
        )
