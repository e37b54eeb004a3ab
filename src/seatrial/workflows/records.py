"""What can be asked of records, from any terminal: status, list, stop, report, clean."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from seatrial.core.errors import CouldNotJudgeError, UsageError
from seatrial.core.record_layout import RecordLayout
from seatrial.core.units import parse_duration
from seatrial.readers.record import read_heartbeat, read_plan, read_result, read_started
from seatrial.store.record_state import ENDED, LOST, keepers_alive, run_state
from seatrial.store.records import find_record, list_records, remove_record, summarize
from seatrial.store.state_folder import StateFolder
from seatrial.workflows.finalize import finalize
from seatrial.workflows.run import ask_to_stop


def close_if_left(layout: RecordLayout) -> None:
    """Write the result of a run that nobody looks after any more and that has none."""
    if os.path.exists(layout.result) or not os.path.exists(layout.plan):
        return
    if not keepers_alive(layout) and run_state(layout) in (ENDED, LOST):
        finalize(layout.folder)


def status_of(layout: RecordLayout) -> dict[str, Any]:
    """Where a run stands, as plain JSON values.

    Raises:
        BrokenRecordError: the record has no readable plan.
    """
    close_if_left(layout)
    plan = read_plan(layout)
    heartbeat, started = read_heartbeat(layout), read_started(layout)
    result = read_result(layout)
    value = summarize(layout).to_json()
    value.update(
        max_steps=plan.max_steps,
        wall_s=plan.wall_s,
        memory_bytes=plan.memory_bytes,
        pid=None if started is None else started.pid,
        supervisor_pid=None if heartbeat is None else heartbeat.supervisor_pid,
        guard_pid=None if started is None else started.guard_pid,
        seconds=None,
        loss=None,
        rss_bytes=None,
        probe=None,
    )
    if result is not None:
        value.update(
            seconds=result.seconds,
            rss_bytes=result.peak_memory_bytes,
            probe="attached" if result.probe_attached else "not attached",
        )
    elif heartbeat is not None:
        value.update(
            seconds=None if started is None else max(0.0, heartbeat.mono - started.mono),
            loss=heartbeat.loss,
            rss_bytes=heartbeat.rss_bytes,
            probe=heartbeat.probe.get("reason")
            or ("attached" if heartbeat.probe.get("attached") else "not attached yet"),
        )
    return value


def list_runs(state: StateFolder) -> list[dict[str, Any]]:
    """Every run of a state folder, oldest first, as plain JSON values."""
    runs = []
    for layout in list_records(state):
        try:
            close_if_left(layout)
        except (CouldNotJudgeError, OSError):
            pass  # the list shows what is known; `status` says what is wrong
        runs.append(summarize(layout).to_json())
    return runs


def stop_run(layout: RecordLayout, *, force: bool) -> str:
    """Ask a run to stop, or end it at once; returns what happened, in one sentence."""
    close_if_left(layout)
    name = os.path.basename(layout.folder)
    if run_state(layout) in (ENDED, LOST):
        return f"run {name} has ended already (seatrial status {name})"
    if not ask_to_stop(layout, "stop", force=force):
        return f"run {name} was asked to stop before; seatrial stop {name} --force ends it at once"
    if force:
        return f"run {name} is being ended"
    return f"run {name} was asked to stop after its current step"


def report_of(layout: RecordLayout) -> str:
    """The path of a run's report.

    Raises:
        CouldNotJudgeError: the run has none yet.
    """
    close_if_left(layout)
    if os.path.isfile(layout.report):
        return layout.report
    name = os.path.basename(layout.folder)
    raise CouldNotJudgeError(
        f"run {name} has no report: its state is {run_state(layout)}",
        remedy=f"seatrial watch {name}",
    )


@dataclass(frozen=True)
class CleanRequest:
    """Which records shall go. Flags are text, as typed."""

    runs: tuple[str, ...] = ()
    older_than: str | None = None
    keep: str | None = None
    everything: bool = False
    dry_run: bool = False


def clean_runs(state: StateFolder, request: CleanRequest) -> tuple[list[str], list[str]]:
    """Remove records of ended runs.

    Returns:
        Names that were removed (or would be), and names that fit but are of live runs.

    Raises:
        UsageError: nothing was selected, or a flag cannot be read.
    """
    removed, kept = [], []
    for layout in _selected(state, request):
        name = os.path.basename(layout.folder)
        if run_state(layout) not in (ENDED, LOST) or keepers_alive(layout):
            kept.append(name)
            continue
        if not request.dry_run:
            remove_record(state, layout)
        removed.append(name)
    return removed, kept


def _selected(state: StateFolder, request: CleanRequest) -> list[RecordLayout]:
    if request.runs:
        return [find_record(state, name) for name in request.runs]
    layouts = list(list_records(state))
    if request.keep is not None:
        if not request.keep.isdigit():
            raise UsageError(f"--keep {request.keep} is no number of runs", remedy="--keep 10")
        return layouts[: max(0, len(layouts) - int(request.keep))]
    if request.older_than is not None:
        try:
            age = parse_duration(request.older_than)
        except ValueError as error:
            raise UsageError(f"--older-than: {error}", remedy="--older-than 7d") from error
        before = datetime.now(timezone.utc) - timedelta(seconds=age)
        return [layout for layout in layouts if _created(layout) < before]
    if request.everything:
        return layouts
    raise UsageError(
        "say which runs to remove: names, --older-than 7d, --keep 10 or --all",
        remedy="seatrial clean --all --dry-run",
    )


def _created(layout: RecordLayout) -> datetime:
    try:
        moment = datetime.fromisoformat(summarize(layout).created)
    except ValueError:
        moment = datetime.fromtimestamp(_mtime(layout), timezone.utc)
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _mtime(layout: RecordLayout) -> float:
    try:
        return os.stat(layout.folder).st_mtime
    except OSError:
        return time.time()
