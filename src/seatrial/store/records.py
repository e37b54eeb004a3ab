"""Records: list them, find one, ask one to stop, remove one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.core import strict_json
from seatrial.core.errors import UsageError
from seatrial.core.launch import StopRequest
from seatrial.core.record_layout import RecordLayout
from seatrial.store.atomic import create_exclusive, make_folder, sync_folder, write_json, writing
from seatrial.store.record_state import (
    LOST,
    keepers_alive,
    read_object,
    run_state,
    runner_alive,
)
from seatrial.store.state_folder import StateFolder

__all__ = [
    "RunSummary",
    "find_record",
    "keepers_alive",
    "list_records",
    "remove_record",
    "request_kill",
    "request_stop",
    "run_state",
    "summarize",
]

LATEST = "latest"
_ABANDONED = ".removing-"


@dataclass(frozen=True)
class RunSummary:
    """One line of ``seatrial list``; whatever is not known is None."""

    run_id: str
    record: str
    state: str
    name: str
    command: tuple[str, ...]
    created: str
    trial_file: str | None
    step: int | None
    planned: int | None
    outcome: str | None
    verdict: str | None
    exit_code: int | None
    conclusion: str

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {**vars(self), "command": list(self.command)}


def list_records(state: StateFolder) -> tuple[RecordLayout, ...]:
    """The records of a state folder, oldest first; links and strangers' files are passed over.

    Raises:
        UsageError: the folder cannot be read.
    """
    if not os.path.isdir(state.runs):
        return ()
    with writing(state.runs), os.scandir(state.runs) as entries:
        names = [
            entry.name
            for entry in entries
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        ]
    return tuple(state.record(name) for name in sorted(names))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def summarize(layout: RecordLayout) -> RunSummary:
    """What is known of a run at this moment; whatever is torn or missing stays unknown."""
    plan = _object(read_object(layout.plan))
    result = _object(read_object(layout.result))
    heartbeat = _object(read_object(layout.heartbeat))
    steps = _object(result.get("steps"))
    command = plan.get("command")
    return RunSummary(
        run_id=os.path.basename(layout.folder),
        record=layout.folder,
        state=run_state(layout),
        name=_text(plan.get("name")),
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        created=_text(plan.get("created")),
        trial_file=_text(_object(plan.get("trial")).get("file")) or None,
        step=_whole(steps.get("done", heartbeat.get("step"))),
        planned=_whole(steps.get("planned", heartbeat.get("planned"))),
        outcome=_text(result.get("outcome")) or None,
        verdict=_text(result.get("verdict")) or None,
        exit_code=_whole(result.get("exit_code")),
        conclusion=_text(result.get("conclusion")),
    )


def find_record(state: StateFolder, reference: str) -> RecordLayout:
    """The record that a person means.

    Args:
        state: where to look.
        reference: a run id, a beginning of one that fits a single run, ``latest``, or the path of
            a record.

    Raises:
        UsageError: no run fits, or several do.
    """
    records = list_records(state)
    if not reference or reference == LATEST:
        if not records:
            raise UsageError(
                f"there is no run in {state.runs}", remedy="seatrial run -- python train.py"
            )
        return records[-1]
    names = {os.path.basename(record.folder): record for record in records}
    if reference in names:
        return names[reference]
    if os.sep in reference and "\0" not in reference:
        folder = os.path.abspath(reference)
        layout = RecordLayout(folder)
        if os.path.isdir(layout.run) or os.path.isfile(layout.plan):
            return layout
        raise UsageError(f"{reference} is no record of a run", remedy="seatrial list")
    fitting = [record for name, record in names.items() if name.startswith(reference)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        listed = ", ".join(os.path.basename(record.folder) for record in fitting[:5])
        more = f" and {len(fitting) - 5} more" if len(fitting) > 5 else ""
        raise UsageError(
            f"{reference!r} fits {len(fitting)} runs: {listed}{more}",
            remedy="type more of the run id",
        )
    raise UsageError(f"no run {reference!r} in {state.runs}", remedy="seatrial list")


def request_stop(layout: RecordLayout, request: StopRequest) -> bool:
    """Ask for a clean stop. A second request changes nothing: the first one counts.

    Returns:
        Whether this call made the request.

    Raises:
        UsageError, CouldNotJudgeError: the record may not be written or the disk is full.
    """
    make_folder(os.path.dirname(layout.stop_request))
    return create_exclusive(
        layout.stop_request, (strict_json.dumps(request.to_json()) + "\n").encode("utf-8")
    )


def request_kill(layout: RecordLayout, request: StopRequest) -> None:
    """Ask to end the run at once, without waiting for a clean stop.

    Raises:
        UsageError, CouldNotJudgeError: the record may not be written or the disk is full.
    """
    make_folder(os.path.dirname(layout.kill_request))
    write_json(layout.kill_request, request.to_json())


def remove_record(state: StateFolder, layout: RecordLayout) -> None:
    """Remove the record of an ended or lost run, never that of a live one.

    The folder is renamed first, so that a removal that is cut short leaves no half record under
    the run's name. Links are removed, not followed.

    Raises:
        UsageError: the run is still going, or the folder is no record below ``runs``.
        CouldNotJudgeError: the disk fails.
    """
    folder = os.path.abspath(layout.folder)
    runs = os.path.abspath(state.runs)
    if os.path.dirname(folder) != runs or os.path.islink(folder) or not os.path.isdir(folder):
        raise UsageError(f"{folder} is no record in {runs}; nothing was removed")
    run_id = os.path.basename(folder)
    if keepers_alive(layout) or (run_state(layout) == LOST and runner_alive(layout)):
        raise UsageError(
            f"the run {run_id} is still going ({run_state(layout)}); nothing was removed",
            remedy=f"seatrial stop {run_id}",
        )
    _remove(runs, folder)


def discard_record(state: StateFolder, layout: RecordLayout) -> None:
    """Remove a record of our own in which nothing was ever started.

    Raises:
        UsageError, CouldNotJudgeError: the folder may not be written or the disk fails.
    """
    _remove(state.runs, layout.folder)


def _remove(runs: str, folder: str) -> None:
    # Renamed first, so that a removal that is cut short leaves no half record under its name.
    doomed = os.path.join(runs, _ABANDONED + os.path.basename(folder))
    with writing(folder):
        if os.path.lexists(doomed):
            shutil.rmtree(doomed)
        os.rename(folder, doomed)
        sync_folder(runs)
        shutil.rmtree(doomed)


def sweep(state: StateFolder) -> None:
    """Finish removals that were cut short.

    Raises:
        UsageError, CouldNotJudgeError: the folder may not be written or the disk fails.
    """
    if not os.path.isdir(state.runs):
        return
    with writing(state.runs):
        for name in os.listdir(state.runs):
            path = os.path.join(state.runs, name)
            if name.startswith(_ABANDONED) and not os.path.islink(path):
                shutil.rmtree(path)
