"""Curves: one metric over steps or seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple


@dataclass(frozen=True)
class Curve:
    """Points of one metric, in order. ``y`` may be nan or inf: a curve never hides a bad value.

    Attributes:
        name: metric name, for example ``loss_raw``, ``lr``, ``grad_norm``, ``eval_loss``.
        x_name: ``step`` or ``seconds``.
        points: ``(x, y)`` pairs, x rising.
        rank: the rank it comes from, None when it belongs to the whole run.
    """

    name: str
    x_name: str
    points: Tuple[Tuple[float, float], ...]
    unit: str = ""
    rank: Optional[int] = None
