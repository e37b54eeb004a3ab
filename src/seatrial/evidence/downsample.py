"""Many points on few pixels, without losing a spike or a value that is no number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seatrial.core import strict_json

Point = tuple[float, float]


@dataclass(frozen=True)
class NonFinite:
    """Points of one column that are no finite numbers. ``kind`` is ``nan``, ``inf`` or ``-inf``."""

    kind: str
    x: float
    count: int


@dataclass(frozen=True)
class Drawn:
    """What is drawn of one series: connected runs of points, and the values that have no place."""

    runs: tuple[tuple[Point, ...], ...]
    non_finite: tuple[NonFinite, ...]


def downsampled(points: Sequence[Point], columns: int) -> Drawn:
    """Keep the first, lowest, highest and last point of each of ``columns`` columns.

    A curve with no more points than fit is kept as it is. A line is broken where a value was not
    finite: nothing is drawn through a hole.
    """
    usable = [point for point in points if math.isfinite(point[0])]
    if len(usable) <= 2 * columns:
        return Drawn(_runs(usable), _non_finite(usable, _column_finder(usable, columns)))
    usable.sort(key=lambda point: point[0])
    column = _column_finder(usable, columns)
    kept: list[Point] = []
    bucket: list[Point] = []
    current = -1
    for point in usable:
        at = column(point[0])
        if at != current:
            kept.extend(_kept_of(bucket))
            bucket, current = [], at
        bucket.append(point)
    kept.extend(_kept_of(bucket))
    return Drawn(_runs(kept), _non_finite(usable, column))


class _column_finder:  # noqa: N801 - used like a function
    """Which column an x belongs to."""

    def __init__(self, points: Iterable[Point], columns: int) -> None:
        xs = [x for x, _y in points] or [0.0]
        self._lo = min(xs)
        self._half = max(xs) / 2 - self._lo / 2
        self._last = columns - 1

    def __call__(self, x: float) -> int:
        if not self._half > 0:
            return 0
        return min(self._last, int((x / 2 - self._lo / 2) / self._half * (self._last + 1)))


def _kept_of(bucket: list[Point]) -> list[Point]:
    finite = [index for index, (_x, y) in enumerate(bucket) if math.isfinite(y)]
    if not finite:
        return bucket[:1]
    wanted = {
        finite[0],
        min(finite, key=lambda index: bucket[index][1]),
        max(finite, key=lambda index: bucket[index][1]),
        finite[-1],
    }
    kept = [bucket[index] for index in sorted(wanted)]
    if len(finite) < len(bucket):  # the hole stays a hole
        kept.append(next(point for point in bucket if not math.isfinite(point[1])))
    return kept


def _runs(points: Iterable[Point]) -> tuple[tuple[Point, ...], ...]:
    runs: list[list[Point]] = [[]]
    for point in points:
        if not math.isfinite(point[1]):
            runs.append([])
            continue
        if runs[-1] and point[0] < runs[-1][-1][0]:
            runs.append([])
        runs[-1].append(point)
    return tuple(tuple(run) for run in runs if run)


def _non_finite(points: Iterable[Point], column: _column_finder) -> tuple[NonFinite, ...]:
    found: dict[tuple[int, str], NonFinite] = {}
    for x, y in points:
        if math.isfinite(y):
            continue
        kind = str(strict_json.encode_number(y))
        key = (column(x), kind)
        earlier = found.get(key)
        found[key] = (
            NonFinite(kind, x, 1)
            if earlier is None
            else NonFinite(kind, earlier.x, earlier.count + 1)
        )
    return tuple(found.values())
