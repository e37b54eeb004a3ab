"""Event files: bad lines are reported, never fatal, and never hide the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from seatrial.core.event import Event, to_line
from seatrial.core.record_layout import RecordLayout
from seatrial.readers.events import (
    MAX_LINE_BYTES,
    MAX_PROBLEMS,
    rank_files,
    read_all_events,
    read_events,
    read_samples,
)


def line(seq: int, *, mono: float | None = None, rank: int | None = 0, pid: int = 1) -> str:
    at = float(seq) if mono is None else mono
    return to_line(Event(seq, "2026-11-30T22:00:00Z", at, pid, rank, "step", {"step": seq}))


def test_every_good_line_is_read_and_every_bad_one_reported(tmp_path: Path) -> None:
    path = tmp_path / "events.rank0.jsonl"
    bad = [
        b"not json\n",
        b"\xff\xfe\n",
        b"[]\n",
        b'{"event": "step"}\n',
        b'{"v":1,"seq":NaN}\n',
        b"[" * 200_000 + b"\n",
        b'{"event":"x","seq":"a","t":"","mono":0,"pid":0}\n',
        b'{"event":"step","data":"' + b"x" * (MAX_LINE_BYTES + 10) + b'"}\n',
        b"\0" * 100 + b"\n",
        b"\n",
    ]
    data = line(1).encode()
    for number, raw in enumerate(bad):
        data += raw + line(number + 2).encode()
    path.write_bytes(data)
    events, problems = read_events(str(path))
    assert [event.seq for event in events] == list(range(1, len(bad) + 2))
    assert [problem.line for problem in problems] == [2 * n for n in range(1, len(bad) + 1)]
    assert "longer than" in str(problems[7])
    assert str(problems[0]).startswith(f"{path}:2: ")


def test_a_line_that_was_being_written_is_left_out_in_silence(tmp_path: Path) -> None:
    whole = line(1) + line(2)
    path = tmp_path / "e"
    for cut in range(len(line(1)), len(whole)):
        path.write_text(whole[:cut])
        events, problems = read_events(str(path))
        assert [event.seq for event in events] == [1]
        assert problems == ()


def test_a_gigabyte_of_rubbish_is_counted_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_text("rubbish\n" * 5000 + line(7))
    events, problems = read_events(str(path))
    assert [event.seq for event in events] == [7]
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].message == f"{5000 - MAX_PROBLEMS} more lines are unreadable"


def test_missing_files_have_no_events_and_pipes_are_not_waited_for(tmp_path: Path) -> None:
    assert read_events(str(tmp_path / "none")) == ((), ())
    os.mkfifo(tmp_path / "pipe")
    events, problems = read_events(str(tmp_path / "pipe"))
    assert events == ()
    assert "no regular file" in problems[0].message


def test_all_ranks_are_read_in_time_and_nobodys_order_changes(tmp_path: Path) -> None:
    layout = RecordLayout(str(tmp_path))
    os.makedirs(layout.run)
    Path(layout.events(10)).write_text(line(1, mono=3, rank=10, pid=3))
    Path(layout.events(0)).write_text(
        line(1, mono=1) + line(2, mono=5) + line(3, mono=4) + line(4, mono=9)
    )
    Path(layout.supervisor_events).write_text(line(1, mono=4.5, rank=None, pid=2))
    Path(layout.run, "events.rankX.jsonl").write_text("not a rank")
    assert [rank for rank, _ in rank_files(layout)] == [0, 10]
    events, problems = read_all_events(layout)
    assert problems == ()
    assert [(event.rank, event.seq) for event in events] == [
        (0, 1), (10, 1), (None, 1), (0, 2), (0, 3), (0, 4),
    ]  # fmt: skip


def test_a_clock_that_is_no_number_changes_no_order(tmp_path: Path) -> None:
    layout = RecordLayout(str(tmp_path))
    os.makedirs(layout.run)
    odd = line(2).replace('"mono":2.0', '"mono":"nan"')
    Path(layout.events(0)).write_text(line(1) + odd + line(3))
    events, _ = read_all_events(layout)
    assert [event.seq for event in events] == [1, 2, 3]


def test_samples_are_read_like_events(tmp_path: Path) -> None:
    path = tmp_path / "resources.jsonl"
    good = {"mono": 1.5, "rss_bytes": 7, "cpu_seconds": 0.1, "processes": 2, "new_field": "x"}
    path.write_text(
        json.dumps(good) + "\n" + '{"mono": "soon"}\n{"rss_bytes": 1}\n' + json.dumps(good)[:9]
    )
    samples, problems = read_samples(str(path))
    assert [(sample.mono, sample.rss_bytes) for sample in samples] == [(1.5, 7)]
    assert [problem.line for problem in problems] == [2, 3]


@pytest.mark.parametrize("word", ["nan", "inf"])
def test_non_finite_values_come_back_as_they_went(tmp_path: Path, word: str) -> None:
    path = tmp_path / "e"
    event = Event(1, "t", 1.0, 1, 0, "step", {"loss_raw": float(word)})
    path.write_text(to_line(event))
    (read,), _ = read_events(str(path))
    assert read.data["loss_raw"] == word
