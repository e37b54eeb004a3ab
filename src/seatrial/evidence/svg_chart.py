"""Charts as inline SVG: no script, no style attribute, every text escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from seatrial.evidence.chart import Chart, Line, Marker, Series
from seatrial.evidence.chart_axes import beyond, x_axis, y_axis
from seatrial.evidence.downsample import Drawn, NonFinite, downsampled
from seatrial.evidence.plain_text import number, one_line

WIDTH, HEIGHT = 460, 274
LEFT, RIGHT, BOTTOM = 60, 446, 232
NAME_ROW, STRIP_ROW = 20, 18  # heights of what stands above the plot
STYLES = 8  # line styles that differ in colour and in dash
MAX_SERIES = 128
_MAX_COLUMNS = 360
_POINT_BUDGET = 8_000
_DOTS_UP_TO = 60
_HOVER_SLOTS = 90
_HOVER_SERIES = 8
_GATE = 'class="gate" stroke="#a40" stroke-dasharray="7 3"'
_SHAPES = {  # around (0, 0), in the strip above the plot
    "nan": "M-4-4 4 4M4-4-4 4",
    "inf": "M-5 4 0-4 5 4Z",
    "-inf": "M-5-4 0 4 5-4Z",
}


def render_chart(chart: Chart) -> str:
    """The chart as one ``<svg>`` element.

    Colours come from the page's classes; without them the chart is still readable black on white.
    """
    plot = _Plot(chart)
    start = (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{_text(describe(chart), 1000)}" fill="none" stroke="none">'
    )
    parts = [
        start,
        *plot.axes(),
        *plot.curves(),
        *plot.hover(),  # under whatever has a title of its own
        *plot.lines(),
        *plot.non_finite(),
        *plot.markers(),
        "</svg>",
    ]
    return "".join(parts)


def describe(chart: Chart) -> str:
    """One sentence for those who cannot see the chart."""
    values = [y for _x, y in chart.finite()]
    total = sum(len(one.points) for one in chart.series)
    if not values:
        return f"{chart.title}: {total} points, none of them a finite number"
    unit = f" {chart.unit}" if chart.unit else ""
    bad = total - len(values)
    end = f"; {bad} of {total} points are no finite numbers" if bad else ""
    return (
        f"{chart.title} by {chart.x_label}: first {number(values[0])}{unit}, last "
        f"{number(values[-1])}{unit}, lowest {number(min(values))}{unit}, highest "
        f"{number(max(values))}{unit}{end}"
    )


def _text(value: object, limit: int = 200) -> str:
    return escape(one_line(value, limit))


def _label(x: float, y: float, text: str, css: str, anchor: str = "start") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


class _Plot:
    """One chart with its axes and what was left of its points."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.x_axis = x_axis(chart)
        self.y_axis = y_axis(chart)
        self.series = chart.series[:MAX_SERIES]
        columns = min(_MAX_COLUMNS, max(40, _POINT_BUDGET // max(1, len(self.series))))
        self.drawn: list[Drawn] = [downsampled(one.points, columns) for one in self.series]
        self.has_labels = any(self._stands_above(line) for line in chart.lines)
        self.has_bad = any(drawn.non_finite for drawn in self.drawn)
        self.label_row = NAME_ROW + 10
        self.top = NAME_ROW + 8 + STRIP_ROW * (self.has_labels + self.has_bad)

    def _stands_above(self, line: Line) -> bool:
        """Whether the line's label stands above the plot, where it covers no data."""
        if not math.isfinite(line.value):
            return False
        if line.vertical:
            return line.pinned or beyond(line, self.x_axis) == 0
        return beyond(line, self.y_axis) > 0

    def x(self, value: float) -> float:
        return LEFT + self.x_axis.place(value) * (RIGHT - LEFT)

    def y(self, value: float) -> float:
        return BOTTOM - self.y_axis.place(value) * (BOTTOM - self.top)

    def axes(self) -> Iterable[str]:
        chart = self.chart
        for value, text in self.y_axis.ticks:
            at = self.y(value)
            yield f'<path class="grid" stroke="#999" d="M{LEFT} {at:.1f}H{RIGHT}"/>'
            yield _label(LEFT - 7, at + 4, escape(text), "tick", "end")
        for value, text in self.x_axis.ticks:
            at = self.x(value)
            yield f'<path class="axis" stroke="#666" d="M{at:.1f} {BOTTOM}v4"/>'
            yield _label(at, BOTTOM + 17, escape(text), "tick", "middle")
        yield f'<path class="axis" stroke="#666" d="M{LEFT} {BOTTOM}H{RIGHT}"/>'
        log = ", log scale" if self.y_axis.is_log else ""
        base = f", above {self.y_axis.base}" if self.y_axis.base else ""
        yield _label(4, 12, _text(chart.y_label + log + base, 70), "name")
        yield _label(RIGHT, HEIGHT - 6, _text(chart.x_label, 40), "name", "end")
        if not any(True for _ in chart.finite()):
            middle = (LEFT + RIGHT) / 2
            yield _label(middle, (self.top + BOTTOM) / 2, "no finite value", "name", "middle")

    def lines(self) -> Iterable[str]:
        taken: list[float] = []
        for line in self.chart.lines:
            if not math.isfinite(line.value):
                continue
            if line.vertical:
                yield from self._vertical(line)
            else:
                yield from self._horizontal(line, taken)

    def _horizontal(self, line: Line, taken: list[float]) -> Iterable[str]:
        side = beyond(line, self.y_axis)
        if side > 0:
            text = "\u2191 " + line.label
            yield self._gate_label(LEFT, self.label_row, text, f"{line.label}, above this scale")
            return
        at = BOTTOM - 2 if side else self.y(line.value)
        baseline = at + 13 if at < self.top + 16 else at - 5
        while any(abs(baseline - other) < 13 for other in taken):
            baseline += 13
        taken.append(baseline)
        if side:
            text = "\u2193 " + line.label
            yield self._gate_label(
                RIGHT - 3, baseline, text, f"{line.label}, below this scale", "end"
            )
            return
        yield f'<path {_GATE} d="M{LEFT} {at:.1f}H{RIGHT}"/>'
        yield self._gate_label(RIGHT - 3, baseline, line.label, line.label, "end")

    def _vertical(self, line: Line) -> Iterable[str]:
        side = beyond(line, self.x_axis)
        if side and not line.pinned:
            return
        if side:
            arrow = f"{line.label} \u2192" if side > 0 else f"\u2190 {line.label}"
            where = "further right" if side > 0 else "further left"
            yield self._gate_label(RIGHT, self.label_row, arrow, f"{line.label}, {where}", "end")
            return
        at = self.x(line.value)
        anchor = "end" if at > (LEFT + RIGHT) / 2 else "start"
        yield f'<path {_GATE} d="M{at:.1f} {self.label_row + 4}V{BOTTOM}"/>'
        yield self._gate_label(at, self.label_row, line.label, line.label, anchor)

    def _gate_label(self, x: float, y: float, text: str, title: str, anchor: str = "start") -> str:
        return (
            f'<text class="gate-name" fill="#a40" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{_text(text, 60)}<title>{_text(title)}</title></text>"
        )

    def curves(self) -> Iterable[str]:
        for index in reversed(range(len(self.series))):  # the first lies on top
            css = f"s s{index % STYLES}" + (" thin" if len(self.series) > STYLES else "")
            drawn = self.drawn[index]
            total = sum(len(run) for run in drawn.runs)
            path = "".join(
                "M" + " ".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in run)
                for run in drawn.runs
                if len(run) > 1
            )
            if path:
                yield f'<path class="{css}" stroke="#036" d="{path}"/>'
            for run in drawn.runs:
                if len(run) == 1 or total <= _DOTS_UP_TO:
                    for x, y in run:
                        yield (
                            f'<circle class="d{index % STYLES}" fill="#036" '
                            f'cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.4"/>'
                        )

    def non_finite(self) -> Iterable[str]:
        slots: dict[tuple[int, str], tuple[NonFinite, int]] = {}
        for drawn in self.drawn:
            for bad in drawn.non_finite:
                key = (int(self.x(bad.x) // 11), bad.kind)
                first, count = slots.get(key, (bad, 0))
                slots[key] = (first, count + bad.count)
        for (_slot, kind), (first, count) in sorted(slots.items()):
            more = f" and {count - 1} more beside it" if count > 1 else ""
            what = f"{kind} at {self.chart.x_label} {number(first.x)}{more}"
            at = self.x(first.x)
            yield f'<path class="bad-line" stroke="#b00" d="M{at:.1f} {self.top}V{BOTTOM}"/>'
            yield (
                f'<g class="bad" stroke="#b00" transform="translate({at:.1f} {self.top - 9})">'
                f'<path d="{_SHAPES[kind]}"/><title>{_text(what)}</title></g>'
            )
        if slots:
            first = min((bad for bad, _count in slots.values()), key=lambda bad: bad.x)
            total = sum(count for _bad, count in slots.values())
            times = f", {total} in all" if total > 1 else ""
            kinds = ", ".join(kind for kind in _SHAPES if any(kind == k for _slot, k in slots))
            text = _text(f"{kinds} from {self.chart.x_label} {number(first.x)}{times}", 60)
            yield _label(
                RIGHT, 26 if self.x(first.x) < RIGHT - 190 else 12, text, "bad-name", "end"
            )

    def markers(self) -> Iterable[str]:
        taken: list[tuple[float, float]] = []
        for mark in self.chart.markers:
            yield from self._marker(mark, taken)

    def _marker(self, mark: Marker, taken: list[tuple[float, float]]) -> Iterable[str]:
        x = RIGHT if mark.x is None or not math.isfinite(mark.x) else self.x(mark.x)
        y = self.top + 12 if mark.y is None or not math.isfinite(mark.y) else self.y(mark.y)
        away = 18 if y < (self.top + BOTTOM) / 2 else -18
        while any(abs(x - a) < 17 and abs(y - b) < 17 for a, b in taken):
            y += away
        taken.append((x, y))
        css = "trip stopped" if mark.stopped else "trip warned"
        yield f'<path class="trip-line" stroke="#b00" d="M{x:.1f} {y:.1f}V{BOTTOM}"/>'
        yield (
            f'<g class="{css}" transform="translate({x:.1f} {y:.1f})">'
            f'<path fill="#b00" d="M0-10 10 0 0 10-10 0Z"/>'
            f'<text class="trip-number" fill="#fff" text-anchor="middle" y="4">{mark.number}</text>'
            f"<title>{_text(mark.label, 400)}</title></g>"
        )
        anchor, shift = ("end", -14) if x > (LEFT + RIGHT) / 2 else ("start", 14)
        yield _label(x + shift, y + 4, _text(mark.value, 34), css + " trip-value", anchor)

    def hover(self) -> Iterable[str]:
        slots: dict[int, dict[int, list[tuple[float, float]]]] = {}
        for index, one in enumerate(self.series[:_HOVER_SERIES]):
            for x, y in one.points:
                if math.isfinite(x):
                    slot = min(_HOVER_SLOTS - 1, int(self.x_axis.place(x) * _HOVER_SLOTS))
                    slots.setdefault(slot, {}).setdefault(index, []).append((x, y))
        width = (RIGHT - LEFT) / _HOVER_SLOTS
        for slot, found in sorted(slots.items()):
            title = escape(self._slot_title(found))
            yield (
                f'<path class="hit" d="M{LEFT + slot * width:.1f} {self.top}h{width:.1f}V{BOTTOM}'
                f'h-{width:.1f}Z"><title>{title}</title></path>'
            )

    def _slot_title(self, found: dict[int, list[tuple[float, float]]]) -> str:
        xs = [x for points in found.values() for x, _y in points]
        first, last = min(xs), max(xs)
        where = number(first) if first == last else f"{number(first)} to {number(last)}"
        lines = [f"{one_line(self.chart.x_label, 60)} {where}"]
        unit = f" {one_line(self.chart.unit, 20)}" if self.chart.unit else ""
        for index, points in sorted(found.items()):
            values = [y for _x, y in points]
            finite = [value for value in values if math.isfinite(value)]
            shown = sorted({number(value) for value in values if not math.isfinite(value)})
            if finite:
                low, high = number(min(finite)), number(max(finite))
                shown.insert(0, low if low == high else f"{low} to {high}")
            lines.append(f"{one_line(self.series[index].label, 60)}: {', '.join(shown)}{unit}")
        return "\n".join(lines)


def swatch(index: int) -> str:
    """The line style of one series, for a legend."""
    return (
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true" fill="none">'
        f'<path class="s s{index % STYLES}" stroke="#036" d="M1 5H25"/></svg>'
    )


def legend_entries(series: tuple[Series, ...]) -> list[tuple[int, str]]:
    """Index and label of the series that a legend names: those with a style of their own."""
    return [(index, one.label) for index, one in enumerate(series[:STYLES])]
