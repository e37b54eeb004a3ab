"""Which axes a chart gets, and which gates fit into them."""

from __future__ import annotations

import math

from seatrial.evidence.chart import Chart, Line
from seatrial.evidence.scale import Scale, linear, logarithmic, needs_log

# A gate far beyond the data would flatten it; it is then shown at the edge, and says so.
_ROOM_FOR_GATES = 4.0
_ROOM_FOR_VERTICAL = 1.6
_DECADES_FOR_GATES = 2.0


def y_axis(chart: Chart) -> Scale:
    """The y axis: all finite values, and the gates that are near enough."""
    values = [y for _x, y in chart.finite()]
    gates = [line.value for line in chart.lines if not line.vertical and math.isfinite(line.value)]
    if not values:
        values = gates or [0.0, 1.0]
    if chart.may_log and needs_log(values):
        return _log_axis([value for value in values if value > 0], gates)
    lo, hi = min(values), max(values)
    if lo >= 0 and (chart.from_zero or lo <= 0.35 * hi):
        lo = 0.0
    half_width = (hi / 2 - lo / 2) or abs(hi) / 20 or 0.5
    wide_lo, wide_hi = lo, hi
    for gate in gates:
        new_lo, new_hi = min(wide_lo, gate), max(wide_hi, gate)
        if new_hi / 2 - new_lo / 2 <= _ROOM_FOR_GATES * half_width:
            wide_lo, wide_hi = new_lo, new_hi
    return linear(wide_lo, wide_hi)


def _log_axis(values: list[float], gates: list[float]) -> Scale:
    low, high = math.log10(min(values)), math.log10(max(values))
    inside = [
        gate
        for gate in gates
        if gate > 0 and low - _DECADES_FOR_GATES <= math.log10(gate) <= high + _DECADES_FOR_GATES
    ]
    return logarithmic(min([*values, *inside]), max([*values, *inside]))


def x_axis(chart: Chart) -> Scale:
    """The x axis: every point that has a place on it, finite or not."""
    xs = [x for one in chart.series for x, _y in one.points if math.isfinite(x)]
    xs += [mark.x for mark in chart.markers if mark.x is not None and math.isfinite(mark.x)]
    lo, hi = (min(xs), max(xs)) if xs else (0.0, 1.0)
    width = hi - lo
    for line in chart.lines:
        if line.vertical and hi < line.value <= hi + (_ROOM_FOR_VERTICAL - 1) * width:
            hi = line.value
    return linear(lo, hi, whole=chart.whole_x, snap=False)


def beyond(line: Line, axis: Scale) -> int:
    """-1 or 1 when the line stands before or behind the axis, else 0."""
    if line.value < axis.lo:
        return -1
    return 1 if line.value > axis.hi else 0
