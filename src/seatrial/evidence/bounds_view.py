"""Bounds and gates of a plan in words: for the page, the summary and the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.core.gates.settings import GateSettings
from seatrial.core.plan import Plan
from seatrial.core.units import format_duration, format_size
from seatrial.evidence.plain_text import number, one_line
from seatrial.evidence.report_input import gate_settings

_SOURCES = {"default": "default", "trial": "trial file", "flag": "flag"}
STOPS, WARNS, OFF = "stops the run", "warns", "off"


@dataclass(frozen=True)
class BoundRow:
    """One bound: what may be used at most, and who said so."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class GateRow:
    """One gate and what it does when it trips."""

    code: str
    title: str
    action: str


def bound_rows(plan: Plan) -> list[BoundRow]:
    """The four bounds with the source of each."""
    return [
        BoundRow("steps", f"{number(plan.max_steps)} optimizer steps", _source(plan, "max_steps")),
        BoundRow("time", format_duration(plan.wall_s), _source(plan, "wall_s", "wall")),
        BoundRow("memory", format_size(plan.memory_bytes), _source(plan, "memory_bytes", "memory")),
        BoundRow(
            "money",
            f"{one_line(plan.money, 60)}, engine {one_line(plan.engine, 60)}",
            _source(plan, "money"),
        ),
    ]


def _source(plan: Plan, *names: str) -> str:
    for name in names:
        if name in plan.sources:
            said = str(plan.sources[name])
            return _SOURCES.get(said, one_line(said, 60))
    return "default"


def gate_rows(plan: Plan) -> list[GateRow]:
    """Every gate and what it does in this run; empty when the plan carries no settings."""
    from seatrial.core.gates import GATES

    settings = gate_settings(plan)
    if settings is None:
        return []
    rows = []
    for gate in GATES:
        info = gate.info
        if info.code.endswith(".project"):
            continue  # listed below, one by one
        stops = info.stops_ad_hoc or not settings.ad_hoc
        is_off = _is_off(info.code, settings) or (info.code in settings.disabled and not info.bound)
        rows.append(GateRow(info.code, info.title, OFF if is_off else STOPS if stops else WARNS))
    for spec in settings.project:
        mean = f", mean of the last {spec.window}" if spec.window > 1 else ""
        since = f", from step {spec.from_step:,}" if spec.from_step else ""
        title = f"{one_line(spec.metric, 80)} {spec.op} {number(spec.value)}{mean}{since}"
        rows.append(GateRow("gate.project", title, STOPS))
    return rows


def _is_off(code: str, settings: GateSettings) -> bool:
    switches: dict[str, object] = {
        "first_step": settings.first_step_s,
        "loader_exhausted": settings.loader or None,
        "device_memory": settings.device_memory_bytes,
        "throughput": settings.min_steps_per_second,
        "no_checkpoint": settings.checkpoint_by_step,
        "money": settings.money,
    }
    name = code.rsplit(".", 1)[-1]
    return name in switches and switches[name] is None
