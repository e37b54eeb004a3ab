"""What the page, the summary and the terminal are made from: values, gathered by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from seatrial.core.check_report import CheckReport
from seatrial.core.curve import Curve
from seatrial.core.gates.settings import GateSettings
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.trip import Trip
from seatrial.core.units import format_duration, format_size

EVERY_CURVE = "*"
TREE_MEMORY = "rss_bytes"


@dataclass(frozen=True)
class GateLine:
    """A bound or a gate that is drawn into a chart as a line.

    Attributes:
        curve: name of the curve that it belongs to, or ``EVERY_CURVE``.
        label: short text beside the line, for example ``step cap 200``.
        value: where the line stands, in the unit of its axis.
        axis: ``y`` for a horizontal line; ``step`` or ``seconds`` for a vertical one, drawn only
            into charts whose x axis has that name.
        whole_run: drawn only where the curve belongs to the whole run, not to a single rank.
    """

    curve: str
    label: str
    value: float
    axis: str = "y"
    whole_run: bool = False


@dataclass(frozen=True)
class ReportInput:
    """Everything that a report shows. Texts come from the run and are not trusted.

    Attributes:
        gate_lines: see ``gate_lines_for``.
        environment, model: data of the events ``env`` and ``model``; empty when there were none.
        tested, not_tested: plain sentences.
        next_command: the next command to type.
        started: when the runner was started, UTC.
        evaluations, saves: data of the events ``eval`` and ``save``, in order.
        checks: what was checked beside the run, before and after it.
        output_tail: the end of the run's output, secrets removed.
    """

    result: RunResult
    plan: Plan
    curves: tuple[Curve, ...] = ()
    trips: tuple[Trip, ...] = ()
    gate_lines: tuple[GateLine, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    tested: tuple[str, ...] = ()
    not_tested: tuple[str, ...] = ()
    next_command: str = ""
    started: str = ""
    evaluations: tuple[Mapping[str, Any], ...] = ()
    saves: tuple[Mapping[str, Any], ...] = ()
    checks: tuple[CheckReport, ...] = ()
    output_tail: str = ""


def gate_lines_for(plan: Plan) -> tuple[GateLine, ...]:
    """The bounds and gates of a plan that have a fixed place in a chart."""
    lines = [
        GateLine(EVERY_CURVE, f"step cap {plan.max_steps:,}", float(plan.max_steps), "step"),
        GateLine(EVERY_CURVE, f"wall {format_duration(plan.wall_s)}", plan.wall_s, "seconds"),
        GateLine(
            TREE_MEMORY,
            f"memory bound {format_size(plan.memory_bytes)}",
            float(plan.memory_bytes),
            whole_run=True,
        ),
    ]
    settings = gate_settings(plan)
    if settings is None:
        return tuple(lines)
    if settings.device_memory_bytes is not None:
        size = settings.device_memory_bytes
        lines.append(
            GateLine("device_bytes", f"device memory bound {format_size(size)}", float(size))
        )
    for spec in settings.project:
        mean = f", mean of {spec.window}" if spec.window > 1 else ""
        since = f" from step {spec.from_step:,}" if spec.from_step else ""
        label = f"gate: {spec.metric} {spec.op} {spec.value:g}{mean}{since}"
        lines.append(GateLine(spec.metric, label, float(spec.value)))
    return tuple(lines)


def gate_settings(plan: Plan) -> GateSettings | None:
    """The gates' settings inside a plan, or None when it carries none that can be read."""
    try:
        return GateSettings.from_json(plan.gates)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        return None
