"""What a record holds, as values: a missing file is None, a damaged one an error with its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from seatrial.core.check_report import CheckReport
from seatrial.core.errors import BrokenRecordError
from seatrial.core.launch import Ended, Heartbeat, Started, StopRequest
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.run_result import RunResult
from seatrial.core.trip import Sample
from seatrial.readers.events import read_all_events, read_samples
from seatrial.readers.json_file import open_regular, read_json_limited

__all__ = [
    "read_all_events",
    "read_attached",
    "read_check",
    "read_closing",
    "read_ended",
    "read_heartbeat",
    "read_plan",
    "read_resources",
    "read_result",
    "read_started",
    "read_stop_request",
    "tail_text",
]

_T = TypeVar("_T")


def _read(path: str, build: Callable[[Mapping[str, Any]], _T]) -> _T | None:
    try:
        value = read_json_limited(path)
    except FileNotFoundError:
        return None
    if not isinstance(value, dict):
        raise BrokenRecordError(f"{path} holds no JSON object")
    try:
        return build(value)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenRecordError(f"{path} is not what it should be: {error!r}") from error


def read_check(layout: RecordLayout, name: str) -> CheckReport | None:
    """What a check said that was made before.

    Raises:
        BrokenRecordError: it cannot be read.
    """
    return _read(layout.check(name), CheckReport.from_json)


def read_plan(layout: RecordLayout) -> Plan:
    """The plan of the run.

    Raises:
        BrokenRecordError: there is none, or it cannot be read.
    """
    plan = _read(layout.plan, Plan.from_json)
    if plan is None:
        raise BrokenRecordError(
            f"{layout.folder} is no record of a run: it has no plan.json", remedy="seatrial list"
        )
    return plan


def read_started(layout: RecordLayout) -> Started | None:
    """Process id and start of the runner; None while (or when never) started.

    Raises:
        BrokenRecordError: the file cannot be read as that.
    """
    return _read(layout.started, Started.from_json)


def read_ended(layout: RecordLayout) -> Ended | None:
    """How the process ended; None when nobody has said so.

    Raises:
        BrokenRecordError: the file cannot be read as that.
    """
    return _read(layout.ended, Ended.from_json)


def read_heartbeat(layout: RecordLayout) -> Heartbeat | None:
    """What the supervisor saw last.

    Raises:
        BrokenRecordError: the file cannot be read as that.
    """
    return _read(layout.heartbeat, Heartbeat.from_json)


def read_stop_request(layout: RecordLayout) -> StopRequest | None:
    """The request to stop cleanly, if somebody made one.

    Raises:
        BrokenRecordError: the file cannot be read as that.
    """
    return _read(layout.stop_request, StopRequest.from_json)


def read_result(layout: RecordLayout) -> RunResult | None:
    """The result; None until the run is judged.

    Raises:
        BrokenRecordError: the file cannot be read as that.
    """
    return _read(layout.result, RunResult.from_json)


def read_closing(layout: RecordLayout) -> Mapping[str, Any] | None:
    """What is said beside the result; None until the run is judged.

    Raises:
        BrokenRecordError: the file cannot be read as that.
    """
    return _read(layout.closing, dict)


def read_attached(layout: RecordLayout) -> tuple[Mapping[str, Any], ...]:
    """The hand-shakes of all interpreters that loaded the bootstrap; torn ones are left out."""
    try:
        names = sorted(os.listdir(layout.attach))
    except OSError:
        return ()
    found = []
    for name in names:
        if not name.endswith(".json") or name.startswith("."):
            continue
        try:
            value = read_json_limited(os.path.join(layout.attach, name))
        except (FileNotFoundError, BrokenRecordError):
            continue
        if isinstance(value, dict):
            found.append(value)
    return tuple(found)


def read_resources(layout: RecordLayout) -> tuple[Sample, ...]:
    """Samples of the process tree in order; unreadable lines are left out."""
    samples, _problems = read_samples(layout.resources)
    return samples


def tail_text(path: str, max_bytes: int = 65536) -> str:
    """The end of a text file, whole lines where possible; empty when it is missing."""
    try:
        file = open_regular(path)
    except (OSError, ValueError):
        return ""
    with file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - max_bytes))
        data = file.read(max_bytes)
    if size > max_bytes and b"\n" in data:
        data = data.split(b"\n", 1)[1]
    return data.decode("utf-8", "replace")
