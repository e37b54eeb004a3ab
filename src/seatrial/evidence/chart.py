"""A chart as a value: what is to be drawn, before any drawing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One line of a chart; y may be nan or inf."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Line:
    """A gate or bound across the chart. ``pinned``: shown at the edge when it is out of range."""

    label: str
    value: float
    vertical: bool = False
    pinned: bool = True


@dataclass(frozen=True)
class Marker:
    """Where a gate tripped.

    ``number`` refers to the list above the charts; ``value`` is short, ``label`` says everything.
    """

    number: int
    label: str
    value: str
    x: float | None
    y: float | None
    stopped: bool


@dataclass(frozen=True)
class Chart:
    """One panel. Values are in ``unit``; the axis labels name it.

    Attributes:
        from_zero: the y axis starts at zero when no value is below.
        may_log: the y axis may become logarithmic when the range asks for it.
        whole_x: x counts something (steps).
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    unit: str = ""
    lines: tuple[Line, ...] = ()
    markers: tuple[Marker, ...] = ()
    from_zero: bool = False
    may_log: bool = True
    whole_x: bool = True

    def finite(self) -> Iterator[Point]:
        """Every point that has a place."""
        for one in self.series:
            for x, y in one.points:
                if math.isfinite(x) and math.isfinite(y):
                    yield x, y
