"""Tables and blocks of text for the commands that look at records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.core.units import format_duration, format_size
from seatrial.evidence.plain_text import one_line

_COLUMNS = ("run_id", "state", "verdict", "outcome", "steps", "name")
_HEADINGS = ("run", "state", "verdict", "outcome", "steps", "name")


def _steps(run: Mapping[str, Any]) -> str:
    step, planned = run.get("step"), run.get("planned")
    if step is None:
        return "-"
    return f"{step}/{planned}" if planned is not None else str(step)


def runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """One line a run, oldest first."""
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for run in runs:
        cells = {**run, "steps": _steps(run)}
        rows.append(tuple(one_line(cells.get(column) or "-", 80) for column in _COLUMNS))
    widths = [max(len(row[index]) for row in rows) for index in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def status_text(status: Mapping[str, Any]) -> str:
    """Where a run stands, a fact a line."""
    lines = [
        ("run", status["run_id"]),
        ("state", status["state"]),
        ("command", " ".join(status["command"])),
        ("steps", _steps(status)),
        ("step cap", status.get("max_steps")),
        ("time", _time(status)),
        ("loss", status.get("loss")),
        ("memory", _memory(status)),
        ("probe", status.get("probe")),
        ("verdict", status.get("verdict")),
        ("outcome", status.get("outcome")),
        ("conclusion", status.get("conclusion") or None),
        ("record", status["record"]),
    ]
    return "\n".join(
        f"{name + ':':<12}{one_line(value)}" for name, value in lines if value is not None
    )


def _time(status: Mapping[str, Any]) -> str | None:
    seconds, wall = status.get("seconds"), status.get("wall_s")
    if seconds is None or wall is None:
        return None
    return f"{format_duration(seconds)} of {format_duration(wall)}"


def _memory(status: Mapping[str, Any]) -> str | None:
    used, cap = status.get("rss_bytes"), status.get("memory_bytes")
    if not used or cap is None:
        return None
    return f"{format_size(used)} of {format_size(cap)}"
