"""What was seen of a run: frozen values, folded from its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from seatrial.core.curve import Curve


@dataclass(frozen=True)
class SegmentView:
    """One ``train()`` call (or newly stepping optimizer) of one process of one rank.

    Attributes:
        steps_done: update rounds of this segment.
        steps_planned: what the training loop itself said it would do; None when unknown.
        first_step, last_step: numbers of its rounds, as the process counts them; None without any.
        reason: why it ended, as ``train.end`` has it; None when it never said so.
        exception: what ended it, as the probe recorded it.
        best: the best checkpoint as the trainer recorded it.
        optimizers: how many optimizers stepped in it.
        skipped: steps that a scaler left out before one of its rounds.
    """

    rank: int
    pid: int
    segment: int
    steps_done: int = 0
    steps_planned: Optional[int] = None
    first_step: Optional[int] = None
    last_step: Optional[int] = None
    reason: Optional[str] = None
    exception: Optional[Mapping[str, Any]] = None
    best: Optional[Mapping[str, Any]] = None
    optimizers: int = 1
    skipped: int = 0


@dataclass(frozen=True)
class LearningView:
    """Optimizer steps of a rank, counted by what could be learnt from them.

    Attributes:
        losses: steps that a backward pass came before.
        gradients: steps in which at least one parameter of the optimizer had a gradient.
        idle_losses: steps whose loss was exactly 0 or nan.
        rated: steps whose learning rate is known.
        at_rest: those of them in which every learning rate was 0.
    """

    losses: int = 0
    gradients: int = 0
    idle_losses: int = 0
    rated: int = 0
    at_rest: int = 0


@dataclass(frozen=True)
class RankView:
    """Everything of one rank, all its processes together.

    Attributes:
        pids: processes that wrote events for this rank, in order of appearance.
        steps_done: update rounds, summed over its processes.
        ended: whether every process said that it ended (``train.end`` of scope ``process``).
        reason, exception: of the last ``train.end`` of scope ``process``.
        env: data of its first ``env`` event.
        seconds: from its first to its last event.
    """

    rank: int
    pids: Tuple[int, ...] = ()
    steps_done: int = 0
    ended: bool = False
    reason: Optional[str] = None
    exception: Optional[Mapping[str, Any]] = None
    env: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    tokens: int = 0
    supervised_tokens: Optional[int] = None
    learning: LearningView = field(default_factory=LearningView)


@dataclass(frozen=True)
class SaveView:
    """One save. ``error`` is a text when it failed; ``digests`` by tensor name."""

    rank: Optional[int]
    step: Optional[int]
    path: str = ""
    kind: str = ""
    tensors: Optional[int] = None
    bytes: Optional[int] = None
    seconds: Optional[float] = None
    error: Optional[str] = None
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationView:
    """One evaluation (or line of emitted metrics). Values may be nan or inf.

    ``global_step`` is the Trainer's own count, which a resumed run does not begin at 0.
    ``in_training`` is False before the first step of its segment and after the segment's end: a
    trainer chose nothing by what was evaluated then.
    """

    rank: Optional[int]
    step: Optional[int]
    segment: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    global_step: Optional[int] = None
    in_training: bool = True


@dataclass(frozen=True)
class ModelView:
    """One model as the probe summarised it; ``data`` as the architecture page lists it."""

    rank: Optional[int]
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeErrorView:
    """A fault inside the probe, which the run never noticed."""

    rank: Optional[int]
    where: str
    error: str
    count: int = 1


@dataclass(frozen=True)
class Observation:
    """What the events of a run say, all ranks together.

    Attributes:
        ranks: by rank number; launchers are not among them.
        segments: by rank, process and segment.
        framework: ``transformers``, ``trl``, ... or ``torch``; None when nothing was seen.
        frameworks: all libraries that took part, as far as they are known.
        curves: ``loss_raw``, ``lr``, ``grad_norm``, ``tokens``, ``supervised_tokens``,
            ``seconds``, ``rss_bytes``, ``device_bytes`` of each rank, and evaluation metrics.
        resumes: data of ``resume`` events.
        best: the best checkpoint as recorded by the last trainer that named one.
        first_mono, last_mono: times of the first and the last event; None without events.
        events: how many events there were.
    """

    ranks: Tuple[RankView, ...] = ()
    segments: Tuple[SegmentView, ...] = ()
    framework: Optional[str] = None
    frameworks: Tuple[str, ...] = ()
    curves: Tuple[Curve, ...] = ()
    saves: Tuple[SaveView, ...] = ()
    evaluations: Tuple[EvaluationView, ...] = ()
    models: Tuple[ModelView, ...] = ()
    resumes: Tuple[Mapping[str, Any], ...] = ()
    probe_errors: Tuple[ProbeErrorView, ...] = ()
    best: Optional[Mapping[str, Any]] = None
    first_mono: Optional[float] = None
    last_mono: Optional[float] = None
    events: int = 0

    @property
    def env(self) -> Mapping[str, Any]:
        """Environment of the lowest rank; empty when it never wrote one."""
        return self.ranks[0].env if self.ranks else {}

    @property
    def lead(self) -> Optional[RankView]:
        """The lowest rank (rank 0 as a rule); None when no rank was seen."""
        return self.ranks[0] if self.ranks else None

    @property
    def steps_done(self) -> int:
        """Update rounds of the lowest rank."""
        return self.ranks[0].steps_done if self.ranks else 0

    @property
    def steps_planned(self) -> Optional[int]:
        """Planned rounds of the lowest rank, summed over its segments; None when one is unknown."""
        mine = [part for part in self.segments if self.ranks and part.rank == self.ranks[0].rank]
        plans = [part.steps_planned for part in mine]
        known = [plan for plan in plans if plan is not None]
        return sum(known) if known and len(known) == len(plans) else None

    def curve(self, name: str, rank: Optional[int] = None) -> Optional[Curve]:
        """The first curve of this name (of this rank, if given); None when there is none."""
        for curve in self.curves:
            if curve.name == name and rank in (None, curve.rank):
                return curve
        return None
