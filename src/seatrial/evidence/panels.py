"""From curves to panels: which curves share a chart, in which order, in which unit."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from seatrial.core import strict_json
from seatrial.core.curve import Curve
from seatrial.core.trip import STOP, Trip
from seatrial.evidence.chart import Chart, Line, Marker, Series
from seatrial.evidence.plain_text import any_value, number, one_line
from seatrial.evidence.report_input import EVERY_CURVE, GateLine, ReportInput

MAX_PANELS = 24
MAX_MARKERS = 20
TABLE_ROWS = 200
TABLE_SERIES = 8
_BYTE_UNITS = (("TiB", 2.0**40), ("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10))


@dataclass(frozen=True)
class Style:
    """How curves of one name are shown; ``order`` is their place on the page."""

    title: str
    y_label: str
    order: int
    from_zero: bool = False
    may_log: bool = True


_KNOWN = {
    "loss_raw": Style("Training loss", "raw loss", 0),
    "loss": Style("Training loss, as logged", "loss", 1),
    "lr": Style("Learning rate", "learning rate", 2, from_zero=True, may_log=False),
    "grad_norm": Style("Gradient norm", "norm before clipping", 3),
    "rss_bytes": Style("Memory", "resident memory", 60, from_zero=True, may_log=False),
    "device_bytes": Style("Device memory", "device memory", 61, from_zero=True, may_log=False),
    "seconds": Style("Time of a step", "time", 70, from_zero=True),
    "tokens": Style("Tokens of a step", "tokens", 71, from_zero=True),
    "supervised_tokens": Style("Supervised tokens of a step", "tokens", 72, from_zero=True),
}
_EVALUATION_ORDER = 10


@dataclass(frozen=True)
class Panel:
    """A chart with its trips and the numbers behind it."""

    chart: Chart
    trips: tuple[tuple[int, Trip], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rows_left_out: int
    series_left_out: int


def build_panels(report: ReportInput) -> tuple[list[Panel], int]:
    """Panels in the page's order, and how many were left out.

    Trips are numbered in the order of ``report.trips``; a trip stands in the first panel that
    shows its metric.
    """
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in report.curves:
        if curve.points:
            groups.setdefault((curve.name, curve.x_name), []).append(curve)
    ordered = sorted(groups.items(), key=lambda item: _order(item[0], item[1]))
    unplaced = list(enumerate(report.trips, start=1))
    panels: list[Panel] = []
    for (name, x_name), curves in ordered[:MAX_PANELS]:
        mine = [(index, trip) for index, trip in unplaced if _names(trip.metric, name)]
        unplaced = [item for item in unplaced if item not in mine]
        panels.append(_panel(name, x_name, curves, report.gate_lines, mine, first=not panels))
    return panels, max(0, len(ordered) - MAX_PANELS)


def _order(key: tuple[str, str], curves: list[Curve]) -> tuple[int, str, int]:
    name, _x_name = key
    whole_run_first = 0 if curves[0].rank is None else 1
    known = _KNOWN.get(name)
    if known:
        return known.order, name, whole_run_first
    return _EVALUATION_ORDER + ("loss" not in name), name, whole_run_first


def _names(metric: str, curve: str) -> bool:
    return metric == curve or (metric == "loss" and curve == "loss_raw")


def _panel(
    name: str,
    x_name: str,
    curves: list[Curve],
    gate_lines: Iterable[GateLine],
    trips: list[tuple[int, Trip]],
    *,
    first: bool,
) -> Panel:
    unit, factor = _unit(curves)
    series = _series(curves, factor)
    style = _KNOWN.get(name) or Style(one_line(name, 60), "value", 0)
    of_run = all(curve.rank is None for curve in curves)
    title = style.title
    if name == "rss_bytes":
        title += " of the whole run" if of_run else " of each rank"
    lines = [
        Line(
            gate.label,
            gate.value if gate.axis != "y" else gate.value / factor,
            vertical=gate.axis != "y",
            pinned=first or (x_name == "seconds" and of_run),
        )
        for gate in gate_lines
        if gate.curve in (name, EVERY_CURVE)
        and gate.axis in ("y", x_name)
        and (of_run or not gate.whole_run)
    ]
    chart = Chart(
        title=title,
        x_label="seconds" if x_name == "seconds" else one_line(x_name, 30),
        y_label=f"{style.y_label} ({unit})" if unit else style.y_label,
        series=series,
        unit=unit,
        lines=tuple(lines),
        from_zero=style.from_zero,
        may_log=style.may_log,
        whole_x=x_name != "seconds",
    )
    markers = tuple(
        _marker(index, trip, chart, x_name, factor) for index, trip in trips[:MAX_MARKERS]
    )
    header, rows, left_out = _table(chart)
    return Panel(
        chart=replace(chart, markers=markers),
        trips=tuple(trips),
        header=header,
        rows=rows,
        rows_left_out=left_out,
        series_left_out=max(0, len(series) - TABLE_SERIES),
    )


def _unit(curves: list[Curve]) -> tuple[str, float]:
    unit = one_line(curves[0].unit, 20)
    if unit not in ("B", "bytes"):
        return unit, 1.0
    values = [abs(y) for curve in curves for _x, y in curve.points if math.isfinite(y)]
    largest = max(values, default=0.0)
    return next(((name, size) for name, size in _BYTE_UNITS if largest >= size), ("B", 1.0))


def _series(curves: list[Curve], factor: float) -> tuple[Series, ...]:
    seen: dict[int | None, int] = {}
    repeated = {curve.rank for curve in curves if sum(c.rank == curve.rank for c in curves) > 1}
    series = []
    for curve in curves:
        seen[curve.rank] = seen.get(curve.rank, 0) + 1
        label = "whole run" if curve.rank is None else f"rank {curve.rank}"
        if curve.rank in repeated:
            label += f", segment {seen[curve.rank]}"
        points = curve.points if factor == 1.0 else tuple((x, y / factor) for x, y in curve.points)
        series.append(Series(label, points))
    return tuple(series)


def _marker(index: int, trip: Trip, chart: Chart, x_name: str, factor: float) -> Marker:
    x = float(trip.step) if trip.step is not None and x_name == "step" else None
    if x is None:
        x = max((x for one in chart.series for x, _y in one.points), default=None)
    observed = strict_json.decode_number(trip.observed)
    return Marker(
        number=index,
        label=trip_text(trip),
        value=any_value(trip.observed, 20) + ("" if trip.step is None else f" at {trip.step}"),
        x=x,
        y=None if observed is None else observed / factor,
        stopped=trip.action == STOP,
    )


def trip_text(trip: Trip) -> str:
    """What tripped, with value and step, in one line."""
    where = [] if trip.step is None else [f"step {trip.step}"]
    if trip.rank is not None:
        where.append(f"rank {trip.rank}")
    metric = f" {one_line(trip.metric, 60)}" if trip.metric else ""
    at = f" at {', '.join(where)}" if where else ""
    value = "" if trip.observed is None else f" = {any_value(trip.observed)}"
    return f"{one_line(trip.gate, 60)}:{metric}{value}{at}"


def _table(chart: Chart) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], int]:
    shown = chart.series[:TABLE_SERIES]
    unit = f" ({chart.unit})" if chart.unit else ""
    header = (chart.x_label, *(one_line(f"{one.label}{unit}", 60) for one in shown))
    by_x: dict[float, dict[int, float]] = {}
    for index, one in enumerate(shown):
        for x, y in one.points:
            by_x.setdefault(x, {})[index] = y
    xs = sorted(by_x, key=lambda x: (math.isnan(x), x))
    wanted = _row_choice(xs, by_x)
    rows = tuple(
        (number(x), *(number(by_x[x][i]) if i in by_x[x] else "" for i in range(len(shown))))
        for x in wanted
    )
    return header, rows, len(xs) - len(wanted)


def _row_choice(xs: list[float], by_x: dict[float, dict[int, float]]) -> list[float]:
    """At most ``TABLE_ROWS`` rows: extremes and non-finite ones first, the rest evenly spread."""
    if len(xs) <= TABLE_ROWS:
        return xs
    bad = [x for x in xs if not all(math.isfinite(y) for y in by_x[x].values())]
    finite = [(y, x) for x in xs for y in by_x[x].values() if math.isfinite(y)]
    chosen = {xs[0], xs[-1], *bad[: TABLE_ROWS // 2]}
    if finite:
        chosen |= {min(finite)[1], max(finite)[1]}
    room = TABLE_ROWS - len(chosen)
    chosen |= {xs[index * len(xs) // room] for index in range(room)}
    return [x for x in xs if x in chosen]
