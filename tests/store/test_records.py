"""Records: their state from files and real processes, finding one, removing one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.errors import UsageError
from seatrial.core.launch import StopRequest
from seatrial.core.record_layout import RecordLayout
from seatrial.store.liveness import pid_alive, start_ticks
from seatrial.store.record_state import keepers_alive, run_state
from seatrial.store.records import (
    find_record,
    list_records,
    remove_record,
    request_kill,
    request_stop,
    summarize,
    sweep,
)
from seatrial.store.state_folder import StateFolder, create_record


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"))


@pytest.fixture
def living() -> Iterator[int]:
    """A real process that stays."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture
def dead() -> int:
    """The pid of a process that has ended and was collected."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def put(path: str, value: Any) -> None:
    Path(path).write_text(json.dumps(value))


def forget_starter(layout: RecordLayout, dead: int) -> None:
    put(layout.intent, {"pid": dead, "start_ticks": 1})


def beat(layout: RecordLayout, pid: int, ticks: int | None) -> None:
    put(layout.heartbeat, {"supervisor_pid": pid, "supervisor_start_ticks": ticks, "state": "x"})


def test_a_zombie_and_a_reused_pid_are_not_alive(living: int, dead: int) -> None:
    ticks = start_ticks(living)
    assert ticks is not None
    assert pid_alive(living, ticks)
    assert pid_alive(living)
    assert not pid_alive(living, ticks + 1)
    assert not pid_alive(dead)
    assert not pid_alive(0)
    zombie = os.fork()
    if zombie == 0:
        os._exit(0)
    os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
    assert not pid_alive(zombie)
    os.waitpid(zombie, 0)


def test_states_follow_a_run_through_its_life(state: StateFolder, living: int, dead: int) -> None:
    layout = create_record(state, "r")
    assert run_state(layout) == "starting"  # this process is the starter
    forget_starter(layout, dead)
    assert run_state(layout) == "lost"
    put(layout.claim, {"pid": living, "start_ticks": start_ticks(living)})
    assert run_state(layout) == "starting"
    put(layout.started, {"pid": living, "t": "", "mono": 0, "supervisor_pid": living})
    beat(layout, living, start_ticks(living))
    assert run_state(layout) == "running"
    put(layout.ended, {"reason": "natural"})
    assert run_state(layout) == "finalizing"
    put(layout.result, {"schema": "seatrial.run/1"})
    assert run_state(layout) == "ended"


def test_a_run_whose_supervisor_is_gone_is_lost(state: StateFolder, living: int, dead: int) -> None:
    layout = create_record(state, "r")
    forget_starter(layout, dead)
    put(layout.claim, {"pid": dead, "start_ticks": 1})
    put(layout.started, {"pid": dead, "t": "", "mono": 0})
    ticks = start_ticks(living)
    assert ticks is not None
    beat(layout, living, ticks + 1)  # the pid is somebody else's now
    assert run_state(layout) == "lost"
    beat(layout, living, ticks)
    assert run_state(layout) == "running"


def test_a_guard_keeps_a_record_for_a_while(state: StateFolder, living: int, dead: int) -> None:
    layout = create_record(state, "r")
    forget_starter(layout, dead)
    put(layout.claim, {"pid": dead})
    put(layout.started, {"pid": dead, "t": "", "mono": 0, "guard_pid": living})
    beat(layout, dead, 1)
    assert keepers_alive(layout)
    for path in (layout.heartbeat, layout.started):
        os.utime(path, (1, 1))
    assert not keepers_alive(layout)
    ticks = start_ticks(living)
    assert ticks is not None
    claim = {"role": "supervisor", "pid": dead, "parent_pid": living}
    put(layout.claim, {**claim, "parent_start_ticks": ticks})
    assert keepers_alive(layout)
    put(layout.claim, {**claim, "parent_start_ticks": ticks + 1})
    assert not keepers_alive(layout)


def test_a_run_on_another_machine_goes_by_its_heartbeat(state: StateFolder, living: int) -> None:
    layout = create_record(state, "r")
    put(layout.claim, {})
    put(layout.started, {"pid": 1, "t": "", "mono": 0, "host": "not-" + socket.gethostname()})
    beat(layout, 999999, 1)
    assert run_state(layout) == "running"
    os.utime(layout.heartbeat, (1, 1))
    assert run_state(layout) == "lost"


def test_torn_and_strange_files_are_as_if_missing(state: StateFolder, dead: int) -> None:
    layout = create_record(state, "r")
    forget_starter(layout, dead)
    Path(layout.claim).write_text("")
    Path(layout.heartbeat).write_text("[" * 100_000)
    os.mkfifo(layout.started)
    Path(layout.plan).write_bytes(b"\xff\xfe")
    os.symlink("/proc/self/environ", layout.result + "x")
    assert run_state(layout) == "lost" or os.path.exists(layout.started)
    summary = summarize(layout)
    assert (summary.command, summary.verdict, summary.step) == ((), None, None)


def test_a_summary_holds_what_the_files_say(state: StateFolder) -> None:
    layout = create_record(state, "r")
    put(
        layout.plan,
        {
            "name": "moves",
            "command": ["python", "t.py"],
            "created": "2026",
            "trial": {"file": "/t"},
        },
    )
    put(layout.heartbeat, {"step": 4, "planned": 9})
    summary = summarize(layout)
    assert (summary.name, summary.command, summary.step, summary.planned) == (
        "moves",
        ("python", "t.py"),
        4,
        9,
    )
    assert summary.trial_file == "/t"
    put(
        layout.result,
        {
            "verdict": "pass",
            "exit_code": 0,
            "outcome": "completed",
            "steps": {"done": 9, "planned": 9},
        },
    )
    summary = summarize(layout)
    assert (summary.state, summary.verdict, summary.exit_code, summary.step) == (
        "ended",
        "pass",
        0,
        9,
    )
    assert json.dumps(summary.to_json())


def test_runs_are_found_by_id_beginning_latest_and_path(state: StateFolder) -> None:
    with pytest.raises(UsageError, match="there is no run in"):
        find_record(state, "latest")
    for name in ("20260101-a-1", "20260101-b-2", "20260202-c-3"):
        create_record(state, name)
    os.symlink(state.record("20260101-a-1").folder, os.path.join(state.runs, "z-link"))
    Path(state.runs, "zz-file").write_text("")
    assert [os.path.basename(r.folder) for r in list_records(state)][-1] == "20260202-c-3"
    assert find_record(state, "latest").folder.endswith("c-3")
    assert find_record(state, "20260101-b").folder.endswith("b-2")
    assert find_record(state, "20260101-a-1").folder.endswith("a-1")
    inside = state.record("20260101-a-1").folder
    assert find_record(state, inside).folder == inside
    with pytest.raises(UsageError, match="fits 2 runs: 20260101-a-1, 20260101-b-2"):
        find_record(state, "20260101")
    for name in ("nope", "../runs", state.path, "a\0b/"):
        with pytest.raises(UsageError, match="no r"):
            find_record(state, name)


def test_the_first_request_to_stop_counts(state: StateFolder) -> None:
    layout = create_record(state, "r")
    assert request_stop(layout, StopRequest("stop", "ada", "t", at_step=4))
    assert not request_stop(layout, StopRequest("stop", "bob", "t"))
    assert json.loads(Path(layout.stop_request).read_text())["by"] == "ada"
    request_kill(layout, StopRequest("stop", "ada", "t", force=True))
    assert json.loads(Path(layout.kill_request).read_text())["force"] is True


def test_a_live_run_is_never_removed(state: StateFolder, living: int, dead: int) -> None:
    layout = create_record(state, "r")
    with pytest.raises(UsageError, match="still going \\(starting\\)") as caught:
        remove_record(state, layout)
    assert caught.value.remedy == "seatrial stop r"
    forget_starter(layout, dead)
    put(layout.claim, {"pid": dead, "start_ticks": 1})
    put(layout.started, {"pid": living, "start_ticks": start_ticks(living), "t": "", "mono": 0})
    with pytest.raises(UsageError, match="still going \\(lost\\)"):
        remove_record(state, layout)  # nobody keeps it, and the runner itself goes on
    put(layout.started, {"pid": dead, "t": "", "mono": 0})
    remove_record(state, layout)
    assert os.listdir(state.runs) == []


def test_links_and_strangers_are_not_removed(state: StateFolder, tmp_path: Path) -> None:
    layout = create_record(state, "r")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("keep")
    link = os.path.join(state.runs, "link")
    os.symlink(outside, link)
    for folder in (link, str(outside), state.runs, state.path, layout.run):
        with pytest.raises(UsageError, match="is no record in"):
            remove_record(state, RecordLayout(folder))
    put(layout.result, {})
    put(layout.intent, {"pid": 0})
    os.symlink(outside, os.path.join(layout.run, "inner"))
    remove_record(state, layout)
    assert (outside / "file").read_text() == "keep"
    assert os.listdir(state.runs) == ["link"]


def test_a_removal_that_was_cut_short_is_finished_later(state: StateFolder) -> None:
    create_record(state, "r")
    os.rename(os.path.join(state.runs, "r"), os.path.join(state.runs, ".removing-r"))
    assert list_records(state) == ()
    sweep(state)
    assert os.listdir(state.runs) == []
