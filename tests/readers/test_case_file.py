"""Held-out cases: what is one, and what is refused with its line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.errors import UsageError
from seatrial.core.lock import case_sha256
from seatrial.readers.case_file import MAX_CASE_BYTES, read_cases

GOOD = {"id": "1", "messages": [{"role": "user", "content": "x"}], "expected": "y"}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_cases(str(path), "heldout.cases")
    assert caught.value.remedy and caught.value.message.startswith("heldout.cases")
    return caught.value.message


def test_cases_with_their_hashes(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", GOOD, {"id": 2, "prompt": "p", "mine": [1]})
    found = read_cases(str(path), "x")
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.hashes() == (
        ("1", case_sha256(GOOD)),
        ("2", case_sha256({"id": 2, "prompt": "p", "mine": [1]})),
    )
    assert [line for line, _ in found.cases] == [1, 2] and found.size == path.stat().st_size


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([1], "line 2: a case is an object, this is list"),
        ({"prompt": "x"}, "needs an id"),
        ({"id": "", "prompt": "x"}, "needs an id"),
        ({"id": True, "prompt": "x"}, "needs an id"),
        ({"id": "2"}, "case '2' has neither messages nor prompt"),
        ({"id": "2", "messages": []}, "messages is no list of messages"),
        ({"id": "2", "messages": ["x"]}, "messages is no list of messages"),
        ({"id": "2", "prompt": ""}, "prompt is no text, or empty"),
        ({"id": "2", "prompt": 3}, "prompt is no text, or empty"),
        ({"id": "1", "prompt": "x"}, "line 2: the id '1' is taken by line 1"),
        ({"id": 1, "prompt": "x"}, "the id '1' is taken"),
        ({"id": "2", "prompt": "x" * MAX_CASE_BYTES}, "longer than 4194304 bytes"),
    ],
)
def test_what_is_no_case(tmp_path: Path, row: Any, reason: str) -> None:
    assert reason in refused(write(tmp_path / "c.jsonl", GOOD, row))


def test_files_that_hold_no_cases(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    for text, reason in (
        (b"", "holds no case"),
        (b"\n\n", "holds no case"),
        (b'{"id": "1", "prompt": "x"}\n{"id"\n', "line 2: it is no JSON"),
        (b'{"id": "\xff"}\n', "line 1: byte 0xff is not UTF-8"),
        (b"\xff\xfe", "is not UTF-8"),
    ):
        path.write_bytes(text)
        assert reason in refused(path)
    assert "no such file" in refused(tmp_path / "none")
    assert "folder" in refused(tmp_path)
