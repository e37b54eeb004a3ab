"""Metrics that a script prints: lines of output that are JSON objects with numbers in them."""

from __future__ import annotations

import json
from typing import Dict, List, NamedTuple, Optional

from seatrial.core.strict_json import decode_number

MAX_LINE_BYTES = 8 * 1024
MAX_METRICS = 64


class MetricLine(NamedTuple):
    """What one line said."""

    step: Optional[int]
    metrics: Dict[str, float]


def parse_metric_line(line: bytes) -> Optional[MetricLine]:
    """Metrics of one line, None when it is ordinary output.

    A line counts when it is a JSON object of at most 8 KiB with at least one number at its top
    level besides ``step``. A bare ``NaN`` (Python's own) is a number here.
    """
    line = line.strip()
    if not line.startswith(b"{") or len(line) > MAX_LINE_BYTES:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    metrics: Dict[str, float] = {}
    for name, item in value.items():
        if isinstance(item, str) and item not in ("nan", "inf", "-inf"):
            continue
        try:
            number = decode_number(item)
        except OverflowError:  # an integer of more than 308 digits
            continue
        if number is not None and name != "step" and len(metrics) < MAX_METRICS:
            metrics[name] = number
    if not metrics:
        return None
    step = value.get("step")
    is_step = isinstance(step, (int, float)) and not isinstance(step, bool)
    try:
        return MetricLine(int(step) if is_step else None, metrics)
    except (ValueError, OverflowError):
        return MetricLine(None, metrics)


class LineSplitter:
    """Cuts a byte stream into lines; of a line beyond the limit nothing is kept."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._rest = b""
        self._skipping = False

    def feed(self, data: bytes) -> List[bytes]:
        """The lines that are complete now."""
        *whole, rest = data.split(b"\n")
        lines: List[bytes] = []
        if whole:
            whole[0] = self._rest + whole[0]
            self._rest = b""
            if self._skipping:
                self._skipping = False
                del whole[0]
            lines = [line for line in whole if len(line) <= self._limit]
        if not self._skipping:
            self._rest += rest
            if len(self._rest) > self._limit:
                self._rest = b""
                self._skipping = True
        return lines
