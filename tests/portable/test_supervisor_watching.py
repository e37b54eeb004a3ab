"""What the loop goes by: event files that grow, progress, signs of life, exit statuses."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from typing import Any

from seatrial.core.event import Event
from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.activity import Activity
from seatrial.supervisor.exit_status import ExitStatus, decode_status, signal_name
from seatrial.supervisor.leaving import HangWatch, linger_limit_s
from seatrial.supervisor.oom import has_risen, oom_kills
from seatrial.supervisor.processes import Process
from seatrial.supervisor.progress import PROCESS, SEGMENT, Progress
from seatrial.supervisor.tail import EventTail


def _line(seq: int, **data: Any) -> str:
    value = {"v": 1, "seq": seq, "t": "", "mono": 1.0, "pid": 7, "rank": 0}
    return json.dumps({**value, "event": "step", "data": data}) + "\n"


def _event(name: str, rank: int = 0, **data: Any) -> Event:
    return Event(0, "", 0.0, 100 + rank, rank, name, data)


def test_event_files_are_read_while_they_grow_break_and_vanish() -> None:
    layout = RecordLayout(tempfile.mkdtemp())
    tail = EventTail(layout)
    assert tail.poll() == []  # no folder yet
    os.makedirs(layout.run)
    path = layout.events(0)

    def write(text: str) -> None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)

    write(_line(0) + _line(1)[:20])
    assert [event.seq for event in tail.poll()] == [0]
    assert tail.poll() == []
    write(_line(1)[20:] + "garbage\n\n[1]\n" + _line(2))
    assert [event.seq for event in tail.poll()] == [1, 2] and tail.unreadable == 2
    write(_line(3, text="x" * (1 << 20)) + _line(4))
    assert [event.seq for event in tail.drain()] == [3, 4]
    with open(layout.events(11), "w", encoding="utf-8") as file:
        file.write(_line(9))
    with open(os.path.join(layout.run, "events.rankX.jsonl"), "w", encoding="utf-8") as file:
        file.write(_line(8))
    assert [event.seq for event in tail.poll()] == [9]
    os.unlink(path)
    assert tail.poll() == []
    write(_line(20))
    assert [event.seq for event in tail.poll()] == [20]
    os.unlink(path)
    tail.poll()
    with open(path, "wb") as file:
        file.write(b"\xff\xfe\n" + b"y" * (9 << 20) + b"\n" + _line(30).encode())
    assert [event.seq for event in tail.drain()] == [30] and tail.unreadable == 4


def test_progress_is_the_furthest_rank_and_the_last_loss_of_the_first() -> None:
    progress = Progress()
    assert progress.furthest is None and progress.finished() is None
    progress.feed(_event("env", world_size=2))
    for step in (1, 2, 3):
        progress.feed(_event("step", 0, step=step, loss_raw=1.0 / step, seconds=0.5))
    progress.feed(_event("step", 1, step=4, loss_raw=9.0))
    assert (progress.furthest, progress.loss, progress.ranks) == (4, 1.0 / 3, 2)
    assert progress.world_size == 2 and progress.step_seconds == 0.5
    progress.feed(_event("step", 0, step="four"))
    progress.feed(_event("eval", 0, steps_planned=50))
    assert progress.planned == 50


def test_training_is_finished_when_every_rank_says_so() -> None:
    progress = Progress()
    progress.feed(_event("env", world_size=2))
    progress.feed(_event("train.end", 0, scope=PROCESS, reason="completed"))
    assert progress.finished() is None  # the other rank has not been seen
    progress.feed(_event("step", 1, step=1))
    assert progress.finished() is None
    progress.feed(_event("train.end", 1, scope=SEGMENT, reason="step_cap"))
    assert progress.finished() == SEGMENT and progress.training_pids() == {101}
    progress.feed(_event("step", 1, step=2))  # a second train() begins
    assert progress.finished() is None
    progress.feed(_event("train.end", 1, scope=PROCESS, reason="exception"))
    assert progress.finished() is None and not progress.has_obeyed()
    for rank in (0, 1):
        progress.feed(_event("train.end", rank, scope=PROCESS, reason="stop_request"))
    assert progress.has_obeyed() and progress.training_pids() == set()


def test_signs_of_life() -> None:
    activity = Activity(0.0)
    activity.sample(0.0, 5.0, 1000)
    activity.sample(30.0, 5.05, 2000)  # a thread that ticks is no life
    assert activity.quiet_s == 30.0
    activity.sample(31.0, 6.0, 2000)
    assert activity.quiet_s == 0.0 and activity.silent_s == 31.0
    activity.sample(40.0, 3.0, 2000)  # a child left and took its seconds with it
    activity.sample(41.0, 3.5, 2000)
    assert activity.quiet_s == 0.0
    activity.sample(50.0, 3.5, 200000)
    assert activity.silent_s == 0.0
    activity.note(55.0)
    activity.sample(60.0, 3.5, 200000)
    assert activity.quiet_s == activity.silent_s == 5.0


def test_a_hang_needs_success_and_silence() -> None:
    watch, progress, activity = HangWatch(30.0), Progress(), Activity(0.0)
    activity.sample(100.0, 0.0, 0)
    assert watch.look(100.0, progress, activity) is None  # nothing is finished
    progress.feed(_event("train.end", scope=PROCESS, reason="completed"))
    assert watch.look(100.0, progress, activity) is None  # only just
    activity.sample(129.0, 0.0, 0)
    assert watch.look(129.0, progress, activity) is None
    activity.sample(131.0, 0.0, 0)
    assert "no work" in str(watch.look(131.0, progress, activity))
    spinning = Activity(100.0)
    for second in range(101, 219):
        spinning.sample(float(second), float(second), 0)
    assert watch.look(218.0, progress, spinning) is None
    spinning.sample(221.0, 221.0, 0)
    assert "used CPU" in str(watch.look(221.0, progress, spinning))
    progress.feed(_event("step", step=9))
    assert watch.look(400.0, progress, activity) is None


def test_how_long_what_stayed_behind_may_idle() -> None:
    left = [Process(100, 1, 1, "S", 1, 0.0, 0, 1)]
    progress = Progress()
    assert linger_limit_s(left, progress, {}, False, 10.0) == 10.0
    assert linger_limit_s(left, progress, {100: "interpreter"}, False, 10.0) == 60.0
    assert linger_limit_s(left, progress, {100: "interpreter"}, True, 10.0) == 10.0
    progress.feed(_event("step", step=1))
    assert linger_limit_s(left, progress, {}, False, 10.0) is None  # it is the training
    assert linger_limit_s(left, progress, {}, True, 10.0) == 30.0
    progress.feed(_event("train.end", scope=PROCESS, reason="completed"))
    assert linger_limit_s(left, progress, {100: "rank"}, False, 10.0) == 10.0


def test_exit_statuses_are_exact() -> None:
    ended = decode_status(0x0300)
    assert ended == ExitStatus(3, None) and str(ended) == "left with exit code 3"
    killed = decode_status(int(signal.SIGKILL))
    assert killed == ExitStatus(None, 9) and killed.looks_killed and "SIGKILL" in str(killed)
    shell = ExitStatus(137, None)
    assert shell.looks_killed and "SIGKILL" in str(shell)
    assert decode_status(0).is_success and not ExitStatus(None, None).is_success
    assert signal_name(4711) == ""


def test_the_kernels_kills_are_counted_per_group_and_per_machine() -> None:
    if sys.platform.startswith("linux"):
        assert oom_kills()
    before = {"/group": 1, "/proc/vmstat": 5}
    assert not has_risen(before, dict(before), whole_machine=True)
    assert has_risen(before, {"/group": 2, "/proc/vmstat": 6}, whole_machine=False)
    machine = {"/group": 1, "/proc/vmstat": 6, "/new": 9}
    assert has_risen(before, machine, whole_machine=True)
    assert not has_risen(before, machine, whole_machine=False)
