"""Events folded into one value: what was seen of a run."""

from __future__ import annotations

from seatrial.core.observation.fold import observe
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

__all__ = [
    "observe",
    "Observation",
    "RankView",
    "LearningView",
    "SegmentView",
    "SaveView",
    "EvaluationView",
    "ModelView",
    "ProbeErrorView",
]
