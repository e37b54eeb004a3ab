"""What a record holds: missing is None, damaged is an error with the file's name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.core.errors import BrokenRecordError
from seatrial.core.finding import Finding
from seatrial.core.launch import Ended, Heartbeat, Started, StopRequest
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.run_result import RunResult
from seatrial.core.strict_json import dumps
from seatrial.readers import record
from seatrial.readers.json_file import read_json_limited

VALUES = {
    "plan": Plan("r", "/r", ("python", "t.py"), "/", 5, 60.0, 2**30, True),
    "started": Started(5, "t", 1.0, start_ticks=9),
    "ended": Ended("gate", "t", 1.5, signal=15, left_running=(4, 5)),
    "heartbeat": Heartbeat("t", 1.0, 5, 9, "training", step=3, loss="nan"),
    "stop_request": StopRequest("stop", "ada", "t", at_step=4),
    "result": RunResult(
        1, "gate", "It diverged.", findings=(Finding("gate.x", "scaling", "error", "m"),)
    ),
}


DEEP = b'{"a":' * 80 + b"1" + b"}" * 80


@pytest.fixture
def layout(tmp_path: Path) -> RecordLayout:
    made = RecordLayout(str(tmp_path))
    for path in (made.attach, os.path.dirname(made.stop_request), os.path.dirname(made.started)):
        os.makedirs(path)
    return made


def reader(name: str) -> Callable[[RecordLayout], object]:
    found: Callable[[RecordLayout], object] = getattr(record, f"read_{name}")
    return found


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was_written(layout: RecordLayout, name: str) -> None:
    value = VALUES[name]
    written = {**value.to_json(), "a_field_of_tomorrow": 1}  # type: ignore[attr-defined]
    Path(getattr(layout, name)).write_text(dumps(written))
    assert reader(name)(layout) == value


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b'{"schema": 3}',
        b"[" * 9999,
        DEEP,
    ],
    ids=["empty", "torn", "list", "bare", "bytes", "schema", "deep list", "deep"],
)
def test_a_damaged_file_is_named(layout: RecordLayout, name: str, content: bytes) -> None:
    path = getattr(layout, name)
    Path(path).write_bytes(content)
    with pytest.raises(BrokenRecordError) as caught:
        reader(name)(layout)
    assert path in caught.value.message
    assert caught.value.exit_code == 3


def test_missing_files_are_none_but_a_record_has_a_plan(layout: RecordLayout) -> None:
    for name in VALUES:
        if name != "plan":
            assert reader(name)(layout) is None
    with pytest.raises(BrokenRecordError, match="it has no plan"):
        record.read_plan(layout)


def test_large_files_and_pipes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "large").write_text(json.dumps("x" * 100))
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("large", "larger than 50 bytes"), ("pipe", "no regular"), (".", "folder")):
        with pytest.raises(BrokenRecordError, match=words):
            read_json_limited(str(tmp_path / name), max_bytes=50)


def test_hand_shakes_are_read_and_torn_ones_left_out(layout: RecordLayout) -> None:
    Path(layout.attach, "5.json").write_text('{"pid": 5, "role": "rank"}')
    Path(layout.attach, "6.json").write_text('{"pid": 6')
    Path(layout.attach, ".7.json.tmp").write_text("{}")
    assert [value["pid"] for value in record.read_attached(layout)] == [5]


def test_the_end_of_a_text_is_read_in_whole_lines(layout: RecordLayout) -> None:
    Path(layout.stderr).write_bytes(b"first line\n" + b"x" * 50 + b"\nlast \xff\n")
    assert record.tail_text(layout.stderr, 20) == "last \ufffd\n"
    assert record.tail_text(layout.stderr).startswith("first line\n")
    assert record.tail_text(layout.stdout) == ""
    os.mkfifo(layout.stdout)
    assert record.tail_text(layout.stdout) == ""
