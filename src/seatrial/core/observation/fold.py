"""Folding: events in, one Observation out. Odd and missing fields are passed over."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from seatrial.core.event import Event
from seatrial.core.event_data import as_number, number, rates, text, whole
from seatrial.core.observation.curves import CurveFold
from seatrial.core.observation.frameworks import frameworks_of
from seatrial.core.observation.values import (
    EvaluationView,
    LearningView,
    ModelView,
    Observation,
    ProbeErrorView,
    RankView,
    SaveView,
    SegmentView,
)

_Key = Tuple[int, int, int]  # rank, pid, segment


def _learning(data: Mapping[str, Any]) -> Iterator[str]:
    """The counts of ``LearningView`` that one step event adds to."""
    loss, known = number(data, "loss_raw"), rates(data)
    if loss is not None:
        yield "losses"
        if loss == 0 or math.isnan(loss):
            yield "idle_losses"
    if data.get("grad_norm") is not None or "grad_norm" not in data:
        yield "gradients"
    if known:
        yield "rated"
        if not any(rate > 0 for rate in known):
            yield "at_rest"


class _Segment:
    def __init__(self) -> None:
        self.rounds: Set[int] = set()
        self.skipped = 0
        self.optimizers: Set[str] = set()
        self.end: Mapping[str, Any] = {}
        self.planned: Optional[int] = None


class _Process:
    def __init__(self) -> None:
        self.last_step = 0
        self.tokens = 0
        self.supervised: Optional[int] = None
        self.end: Optional[Mapping[str, Any]] = None
        self.env: Mapping[str, Any] = {}
        self.monos: List[float] = []
        self.learning: Counter[str] = Counter()


class _Fold:
    def __init__(self) -> None:
        self.processes: Dict[Tuple[int, int], _Process] = {}
        self.segments: Dict[_Key, _Segment] = {}
        self.saves: List[SaveView] = []
        self.evaluations: List[EvaluationView] = []
        self.models: List[ModelView] = []
        self.resumes: List[Mapping[str, Any]] = []
        self.probe_errors: List[ProbeErrorView] = []
        self.best: Optional[Mapping[str, Any]] = None
        self.curves = CurveFold()
        self.monos: List[float] = []

    def take(self, event: Event) -> None:
        """Fold one event in; events that nobody asked for only move the clock."""
        self.monos.append(event.mono)
        if event.rank is not None:
            self._process(event).monos.append(event.mono)
        if event.event == "step" and event.rank is not None:
            self._step(event, event.rank)
        elif event.event == "eval":
            self._evaluation(event)
        elif event.event == "save":
            self.saves.append(_save(event))
        elif event.event == "model":
            self.models.append(ModelView(event.rank, dict(event.data)))
        elif event.event == "resume":
            self.resumes.append({"rank": event.rank, **event.data})
        elif event.event == "probe.error":
            self.probe_errors.append(_probe_error(event))
        elif event.event == "env" and event.rank is not None:
            self._process(event).env = dict(event.data)
        elif event.event == "train.end" and event.rank is not None:
            self._end(event, event.rank)

    def _process(self, event: Event) -> _Process:
        return self.processes.setdefault((event.rank or 0, event.pid), _Process())

    def _segment(self, event: Event, rank: int) -> _Segment:
        key = (rank, event.pid, whole(event.data, "segment") or 0)
        return self.segments.setdefault(key, _Segment())

    def _step(self, event: Event, rank: int) -> None:
        process, segment = self._process(event), self._segment(event, rank)
        step = whole(event.data, "step")
        if step is None:
            step = process.last_step + 1
        if step not in segment.rounds:
            process.tokens += whole(event.data, "tokens") or 0
            supervised = whole(event.data, "supervised_tokens")
            if supervised is not None:
                process.supervised = (process.supervised or 0) + supervised
        process.learning.update(_learning(event.data))
        segment.rounds.add(step)
        segment.skipped += whole(event.data, "skipped_before") or 0
        segment.optimizers.add(str(event.data.get("optimizer")))
        planned = whole(event.data, "steps_planned")
        segment.planned = planned if planned is not None else segment.planned
        process.last_step = max(process.last_step, step)
        self.curves.step(event, rank, step)

    def _evaluation(self, event: Event) -> None:
        given = event.data.get("metrics")
        metrics = {
            str(name): value
            for name, value in (given.items() if isinstance(given, dict) else ())
            for value in [as_number(value)]
            if value is not None
        }
        step = whole(event.data, "step")
        self.evaluations.append(
            EvaluationView(
                rank=event.rank,
                step=step,
                segment=whole(event.data, "segment") or 0,
                metrics=metrics,
                source=text(event.data, "source"),
                global_step=whole(event.data, "global_step"),
                in_training=self._is_training(event),
            )
        )
        self.curves.evaluation(event, step, metrics)

    def _is_training(self, event: Event) -> bool:
        key = (event.rank or 0, event.pid, whole(event.data, "segment") or 0)
        segment = self.segments.get(key)
        return segment is not None and bool(segment.rounds) and not segment.end

    def _end(self, event: Event, rank: int) -> None:
        if event.data.get("scope") == "process":
            self._process(event).end = dict(event.data)
            return
        segment = self._segment(event, rank)
        segment.end = dict(event.data)
        best = event.data.get("best")
        if isinstance(best, dict) and (rank == 0 or self.best is None):
            self.best = dict(best)

    def finish(self) -> Observation:
        """The frozen value."""
        segments = tuple(_segment_view(key, part) for key, part in sorted(self.segments.items()))
        ranks = tuple(
            _rank_view(rank, {pid: p for (r, pid), p in self.processes.items() if r == rank})
            for rank in sorted({rank for rank, _pid in self.processes})
        )
        frameworks: Tuple[str, ...] = ()
        if segments:
            frameworks = frameworks_of(ranks[0].env, self.models, self.curves.sources)
        return Observation(
            ranks=ranks,
            segments=segments,
            framework=frameworks[0] if frameworks else None,
            frameworks=frameworks,
            curves=self.curves.finish(),
            saves=tuple(self.saves),
            evaluations=tuple(self.evaluations),
            models=tuple(self.models),
            resumes=tuple(self.resumes),
            probe_errors=tuple(self.probe_errors),
            best=self.best,
            first_mono=min(self.monos, default=None),
            last_mono=max(self.monos, default=None),
            events=len(self.monos),
        )


def observe(events: Iterable[Event]) -> Observation:
    """Fold the events of a run, of all ranks and of the supervisor, into one value.

    The order of ``events`` does not matter: they are sorted by time, and within one process by
    sequence number. Nothing in ``data`` makes this fail; what cannot be read is left out.

    Args:
        events: events as read from the record.
    """
    fold = _Fold()
    for event in sorted(events, key=lambda item: (item.mono, item.pid, item.seq)):
        fold.take(event)
    return fold.finish()


def _segment_view(key: _Key, part: _Segment) -> SegmentView:
    rank, pid, number_ = key
    said = whole(part.end, "steps_done")
    planned = whole(part.end, "steps_planned")
    exception, best = part.end.get("exception"), part.end.get("best")
    return SegmentView(
        rank=rank,
        pid=pid,
        segment=number_,
        steps_done=max(len(part.rounds), said or 0),
        steps_planned=part.planned if planned is None else planned,
        first_step=min(part.rounds, default=None),
        last_step=max(part.rounds, default=None),
        reason=text(part.end, "reason") or None,
        exception=as_exception(exception),
        best=dict(best) if isinstance(best, dict) else None,
        optimizers=max(1, len(part.optimizers)),
        skipped=part.skipped,
    )


def _rank_view(rank: int, processes: Mapping[int, _Process]) -> RankView:
    ends = [process.end for process in processes.values()]
    last: Mapping[str, Any] = next((end for end in reversed(ends) if end is not None), {})
    supervised = [p.supervised for p in processes.values() if p.supervised is not None]
    monos = [mono for process in processes.values() for mono in process.monos]
    return RankView(
        rank=rank,
        pids=tuple(processes),
        steps_done=sum(process.last_step for process in processes.values()),
        ended=all(end is not None for end in ends),
        reason=text(last, "reason") or None,
        exception=as_exception(last.get("exception")),
        env=next((process.env for process in processes.values() if process.env), {}),
        seconds=max(monos) - min(monos),
        tokens=sum(process.tokens for process in processes.values()),
        supervised_tokens=sum(supervised) if supervised else None,
        learning=LearningView(**sum((p.learning for p in processes.values()), Counter())),
    )


def as_exception(value: Any) -> Optional[Mapping[str, Any]]:
    """An exception as the probe recorded it: an object, or a bare text."""
    if isinstance(value, dict) and value:
        return dict(value)
    return {"message": value} if isinstance(value, str) and value else None


def _save(event: Event) -> SaveView:
    digests = event.data.get("digests")
    error = event.data.get("error")
    return SaveView(
        rank=event.rank,
        step=whole(event.data, "step"),
        path=text(event.data, "path"),
        kind=text(event.data, "kind"),
        tensors=whole(event.data, "tensors"),
        bytes=whole(event.data, "bytes"),
        seconds=number(event.data, "seconds"),
        error=None if error in (None, "") else str(error),
        digests={str(k): str(v) for k, v in digests.items()} if isinstance(digests, dict) else {},
    )


def _probe_error(event: Event) -> ProbeErrorView:
    return ProbeErrorView(
        rank=event.rank,
        where=text(event.data, "where"),
        error=text(event.data, "error"),
        count=whole(event.data, "count") or 1,
    )
