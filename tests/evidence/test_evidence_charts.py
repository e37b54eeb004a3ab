"""Axes, thinning and SVG: what must be seen is seen, whatever the numbers are."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.core.curve import Curve
from seatrial.core.trip import Trip
from seatrial.evidence.chart import Chart, Line, Marker, Series
from seatrial.evidence.chart_axes import x_axis, y_axis
from seatrial.evidence.downsample import downsampled
from seatrial.evidence.panels import TABLE_ROWS, build_panels
from seatrial.evidence.report_input import GateLine, ReportInput, gate_lines_for
from seatrial.evidence.scale import linear, logarithmic, needs_log, tidy
from seatrial.evidence.svg_chart import describe, render_chart

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
POINTS = st.lists(st.tuples(st.floats(0, 1e9), ANY_FLOAT), max_size=60)


def chart(points: list[tuple[float, float]], **changes: object) -> Chart:
    values = {"title": "t", "x_label": "step", "y_label": "loss", **changes}
    return Chart(series=(Series("rank 0", tuple(points)),), **values)  # type: ignore[arg-type]


def svg(a_chart: Chart) -> ET.Element:
    return ET.fromstring(render_chart(a_chart))


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter("text")]


@pytest.mark.parametrize(
    ("lo", "hi", "labels"),
    [
        (0.0, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0.0, 2e-4, ["0", "5e-5", "1e-4", "1.5e-4", "2e-4"]),
        (0.0, 1.2e9, ["0", "2.5e8", "5e8", "7.5e8", "1e9", "1.25e9"]),
        (-3.0, 7.0, ["-4", "-2", "0", "2", "4", "6", "8"]),
        (2.30, 2.31, ["2.3", "2.302", "2.304", "2.306", "2.308", "2.31"]),
    ],
)
def test_ticks_are_numbers_that_people_read(lo: float, hi: float, labels: list[str]) -> None:
    assert [label for _value, label in linear(lo, hi).ticks] == labels


def test_values_that_differ_in_late_digits_are_counted_from_a_base() -> None:
    scale = linear(1e6, 1e6 + 0.03)
    labels = [label for _value, label in scale.ticks]
    assert scale.base.startswith("1,000,000")
    assert len(set(labels)) == len(labels)
    assert all(label.startswith("+") for label in labels)


@given(FINITE, FINITE)
def test_a_linear_axis_holds_its_ends_and_rises(a: float, b: float) -> None:
    lo, hi = min(a, b), max(a, b)
    scale = linear(lo, hi)
    unseen = 1e-9 * (scale.hi / 2 - scale.lo / 2)  # far less than a pixel
    assert scale.lo <= lo + unseen
    assert scale.hi >= hi - unseen
    assert 0.0 <= scale.place(lo) <= scale.place(hi) <= 1.0
    values = [value for value, _label in scale.ticks]
    assert values == sorted(values)
    assert 1 <= len(values) <= 21


@given(st.floats(5e-324, 1e308), st.floats(1e3, 1e9))
def test_a_log_axis_holds_its_ends(lo: float, ratio: float) -> None:
    hi = min(lo * ratio, 1.7e308)
    scale = logarithmic(lo, hi)
    assert 0.0 <= scale.place(lo) <= scale.place(hi) <= 1.0
    assert len(scale.ticks) <= 8


def test_a_log_axis_comes_when_the_range_needs_it_and_only_then() -> None:
    assert needs_log([1e-3, 1.0, 2.0])
    assert needs_log([0.0, 1e-3, 1.0])
    assert not needs_log([1.0, 2.0, 900.0])
    assert not needs_log([-1.0, 1e-3, 1e3])
    assert not needs_log([0.0])
    assert "loss, log scale" in texts(svg(chart([(1, 0.001), (2, 10.0)])))
    assert "loss" in texts(svg(chart([(1, 0.001), (2, 10.0)], may_log=False)))


def test_a_spike_of_one_point_survives_thinning() -> None:
    points = [(float(step), 1.0) for step in range(100_000)]
    points[54_321] = (54_321.0, 99.0)
    points[77_777] = (77_777.0, -99.0)
    drawn = downsampled(points, 360)
    kept = [point for run in drawn.runs for point in run]
    assert (54_321.0, 99.0) in kept
    assert (77_777.0, -99.0) in kept
    assert len(kept) <= 4 * 360
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]


def test_thinning_never_draws_through_a_hole() -> None:
    points = [(float(step), math.nan if step == 5_000 else 1.0) for step in range(10_000)]
    drawn = downsampled(points, 100)
    assert len(drawn.runs) == 2
    assert [(bad.kind, bad.x, bad.count) for bad in drawn.non_finite] == [("nan", 5_000.0, 1)]


@given(POINTS, st.integers(1, 50))
def test_thinning_counts_every_value_that_is_no_number(
    points: list[tuple[float, float]], columns: int
) -> None:
    drawn = downsampled(points, columns)
    bad = [y for _x, y in points if not math.isfinite(y)]
    assert sum(one.count for one in drawn.non_finite) == len(bad)
    kept = {point for run in drawn.runs for point in run}
    assert kept <= set(points)
    finite = [y for _x, y in points if math.isfinite(y)]
    if finite:
        assert max(y for _x, y in kept) == max(finite)
        assert min(y for _x, y in kept) == min(finite)


def test_each_kind_of_non_finite_value_is_marked_at_the_top_with_its_step() -> None:
    points = [(1, 1.0), (2, math.nan), (3, math.inf), (4, -math.inf), (5, 2.0)]
    root = svg(chart(points))
    marks = [g for g in root.iter("g") if g.get("class") == "bad"]
    assert [(g.findtext("title")) for g in marks] == [
        "nan at step 2",
        "inf at step 3",
        "-inf at step 4",
    ]
    assert len({g.find("path").get("d") for g in marks}) == 3  # type: ignore[union-attr]
    heights = {float((g.get("transform") or "").split()[1].rstrip(")")) for g in marks}
    plot_top = min(
        float((path.get("d") or "").split()[1].split("H")[0])
        for path in root.iter("path")
        if path.get("class") == "grid"
    )
    assert all(height < plot_top for height in heights)
    assert any(text.startswith("nan, inf, -inf from step 2, 3 in all") for text in texts(root))


def test_a_curve_without_one_finite_value_says_so() -> None:
    root = svg(chart([(1, math.nan), (2, math.nan)]))
    assert "no finite value" in texts(root)
    assert "none of them a finite number" in describe(chart([(1, math.nan)]))


def test_a_gate_in_range_is_a_labelled_line_and_one_out_of_range_points_away() -> None:
    near = Line("gate: loss < 3", 3.0)
    far = Line("memory bound 12 GiB", 5000.0)
    root = svg(chart([(1, 2.0), (2, 1.0)], lines=(near, far, Line("step cap 2", 2.0, True))))
    assert sum(path.get("class") == "gate" for path in root.iter("path")) == 2
    assert "gate: loss < 3" in texts(root)
    assert "\u2191 memory bound 12 GiB" in texts(root)
    assert "step cap 2" in texts(root)


def test_a_gate_far_away_does_not_flatten_the_curve() -> None:
    scale = y_axis(chart([(1, 2.0), (2, 1.0)], lines=(Line("far", 5000.0),)))
    assert scale.hi < 10
    assert y_axis(chart([(1, 2.0), (2, 1.0)], lines=(Line("near", 4.0),))).hi >= 4


def test_a_trip_is_marked_with_number_value_and_step() -> None:
    mark = Marker(3, "gate.divergence: loss_raw = 9 at step 2", "9 at 2", 2.0, 9.0, True)
    root = svg(chart([(1, 2.0), (2, 9.0)], markers=(mark,)))
    trip = next(g for g in root.iter("g") if g.get("class") == "trip stopped")
    assert trip.findtext("text") == "3"
    assert trip.findtext("title") == "gate.divergence: loss_raw = 9 at step 2"
    assert "9 at 2" in texts(root)


def test_hovering_tells_step_rank_value_and_unit() -> None:
    two = (Series("rank 0", ((1.0, 2.5),)), Series("rank 1", ((1.0, math.nan),)))
    root = svg(Chart("t", "step", "memory", two, unit="GiB"))
    titles = [path.findtext("title") for path in root.iter("path") if path.get("class") == "hit"]
    assert titles == ["step 1\nrank 0: 2.5 GiB\nrank 1: nan GiB"]


@settings(deadline=None, max_examples=60)
@given(POINTS, ANY_FLOAT, ANY_FLOAT, st.text(max_size=40))
def test_any_numbers_and_texts_give_well_formed_svg_inside_its_frame(
    points: list[tuple[float, float]], gate: float, observed: float, text: str
) -> None:
    lines = (Line(text, gate), Line(text, gate, vertical=True))
    mark = Marker(1, text, text, None, observed, False)
    root = svg(chart(points, title=text, unit=text, lines=lines, markers=(mark,)))
    for circle in root.iter("circle"):
        assert 0 <= float(circle.get("cx", "")) <= 460
        assert 0 <= float(circle.get("cy", "")) <= 274
    assert {element.tag for element in root.iter()} <= {
        "svg",
        "path",
        "circle",
        "text",
        "g",
        "title",
    }


def test_a_hundred_thousand_points_of_two_ranks_stay_small_and_quick() -> None:
    ranks = tuple(
        Series(f"rank {rank}", tuple((float(x), math.sin(x * 1.7) + rank) for x in range(100_000)))
        for rank in range(2)
    )
    started = time.perf_counter()
    drawn = render_chart(Chart("t", "step", "loss", ranks))
    assert time.perf_counter() - started < 4
    assert len(drawn) < 150_000


def test_panels_come_in_the_order_of_the_page(reports: Mapping[str, ReportInput]) -> None:
    titles = [panel.chart.title for panel in build_panels(reports["pass"])[0]]
    assert titles == [
        "Training loss",
        "Learning rate",
        "Gradient norm",
        "eval_loss",
        "eval_legal",
        "Memory of the whole run",
        "Memory of each rank",
    ]


def test_ranks_and_segments_are_told_apart(reports: Mapping[str, ReportInput]) -> None:
    base = reports["pass"]
    points = ((1.0, 1.0), (2.0, 2.0))
    twice = (
        Curve("loss_raw", "step", points, rank=0),
        Curve("loss_raw", "step", points, rank=0),
        Curve("loss_raw", "step", points, rank=1),
    )
    panels, _left_out = build_panels(ReportInput(base.result, base.plan, twice))
    labels = [one.label for one in panels[0].chart.series]
    assert labels == ["rank 0, segment 1", "rank 0, segment 2", "rank 1"]


def test_bytes_are_shown_in_a_readable_unit_with_their_gate(
    reports: Mapping[str, ReportInput],
) -> None:
    panels, _left_out = build_panels(reports["pass"])
    tree = next(panel for panel in panels if panel.chart.title == "Memory of the whole run")
    assert tree.chart.y_label == "resident memory (GiB)"
    assert tree.chart.x_label == "seconds"
    gates = {line.label: line.value for line in tree.chart.lines}
    assert gates["memory bound 12 GiB"] == 12
    ranks = next(panel for panel in panels if panel.chart.title == "Memory of each rank")
    assert "memory bound 12 GiB" not in {line.label for line in ranks.chart.lines}


def test_the_table_of_a_long_curve_keeps_extremes_and_non_finite_values(
    reports: Mapping[str, ReportInput],
) -> None:
    base = reports["pass"]
    points = [(float(step), 1.0 + step / 1e4) for step in range(1, 5_001)]
    points[2_499] = (2_500.0, math.nan)
    points[3_332] = (3_333.0, 77.5)
    report = ReportInput(base.result, base.plan, (Curve("loss_raw", "step", tuple(points)),))
    panel = build_panels(report)[0][0]
    rows = dict(panel.rows)
    assert rows["2,500"] == "nan"
    assert rows["3,333"] == "77.5"
    assert len(panel.rows) <= TABLE_ROWS
    assert panel.rows_left_out == 5_000 - len(panel.rows)


def test_a_trip_stands_in_the_panel_of_its_metric(reports: Mapping[str, ReportInput]) -> None:
    panels, _left_out = build_panels(reports["fail"])
    by_title = {panel.chart.title: panel.chart.markers for panel in panels}
    assert [mark.number for mark in by_title["Training loss"]] == [1, 2]
    assert [mark.number for mark in by_title["Gradient norm"]] == [3]
    assert by_title["Learning rate"] == ()
    assert by_title["Training loss"][1].y is not None
    assert math.isnan(by_title["Training loss"][1].y or 0)


def test_gate_lines_follow_from_the_plan(reports: Mapping[str, ReportInput]) -> None:
    plan = reports["pass"].plan
    lines = gate_lines_for(plan)
    assert GateLine("*", "step cap 200", 200.0, "step") in lines
    assert GateLine("*", "wall 15m", 900.0, "seconds") in lines
    assert GateLine("rss_bytes", "memory bound 12 GiB", 12 * 2.0**30, "y", True) in lines
    project = "gate: eval_loss < 2.5, mean of 2 from step 100"
    assert GateLine("eval_loss", project, 2.5) in lines
    without = gate_lines_for(reports["empty"].plan)
    assert [line.label for line in without] == ["step cap 200", "wall 15m", "memory bound 12 GiB"]


def test_an_x_axis_of_steps_has_whole_ticks_and_room_for_a_near_cap() -> None:
    a_chart = chart([(1, 1.0), (150, 1.0)], lines=(Line("step cap 200", 200.0, True),))
    axis = x_axis(a_chart)
    assert axis.hi == 200
    assert all(value == int(value) for value, _label in axis.ticks)
    assert x_axis(chart([(1, 1.0), (3, 1.0)], lines=(Line("c", 200.0, True),))).hi == 3


def test_tidy_never_says_minus_zero() -> None:
    assert tidy(-0.0) == "0"
    assert tidy(-0.0004, 2) == "-4e-4"


def test_a_trip_of_a_metric_without_a_curve_is_in_no_panel(
    reports: Mapping[str, ReportInput],
) -> None:
    base = reports["pass"]
    trip = Trip("gate.stall", "warn", "performance", "silent for 61s", "silence", 61.0)
    report = ReportInput(base.result, base.plan, base.curves, trips=(trip,))
    assert all(not panel.trips for panel in build_panels(report)[0])
