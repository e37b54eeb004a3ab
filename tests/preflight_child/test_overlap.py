"""Held-out rows in train or validation files are found; rows that only look alike are not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.finding import Finding, NotJudged
from seatrial.core.trial import Trial
from seatrial.preflight.overlap import overlap

Make = Callable[..., Trial]
SYSTEM = {"role": "system", "content": "You are a careful calculator. Answer with a number."}


def talk(question: str, answer: str = "4", **rest: Any) -> dict[str, Any]:
    turns = [SYSTEM, {"role": "user", "content": question}]
    return {"messages": [*turns, {"role": "assistant", "content": answer}], **rest}


def case(question: str, number: int = 0, **rest: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "messages": [SYSTEM, {"role": "user", "content": question}], **rest}


def write(folder: Path, name: str, rows: list[Any]) -> None:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def judge(
    make_trial: Make, folder: Path, train: list[Any], heldout: list[Any], role: str = "train"
) -> tuple[list[Finding], list[NotJudged]]:
    write(folder, "train.jsonl", train)
    write(folder, "cases.jsonl", heldout)
    return overlap(make_trial((role, "train.jsonl"), cases="cases.jsonl"))


def test_the_same_system_turn_and_the_same_answers_are_no_overlap(
    make_trial: Make, tmp_path: Path
) -> None:
    train = [talk(f"What is {n} plus 1?", "yes") for n in range(50)]
    heldout = [case(f"What is {n} plus 2?", n, expected="yes") for n in range(20)]
    assert judge(make_trial, tmp_path, train, heldout) == ([], [])


def test_a_planted_case_is_found_with_its_rows(make_trial: Make, tmp_path: Path) -> None:
    train = [talk(f"What is {n} plus 1?") for n in range(50)]
    heldout = [case(f"What is {n} plus 2?", n) for n in range(20)]
    train[30] = talk("What is 7 plus 2?", "9")
    (found,), unjudged = judge(make_trial, tmp_path, train, heldout)
    assert unjudged == []
    assert (found.code, found.severity) == ("inputs.heldout_in_train", "error")
    assert (found.place.row, found.confidence) == (31, "proven")
    assert "31=8" in found.message
    assert found.evidence.observed["rows"] == found.evidence.observed["exact"] == 1
    assert found.evidence.observed["first"]["heldout_row"] == 8


@pytest.mark.parametrize(
    ("train", "heldout"),
    [
        (talk("what  is 1 PLUS 1?"), case("What is 1 plus 1? ")),
        ({"prompt": "What is 1 plus 1?", "completion": "2"}, case("What is 1 plus 1?")),
        (talk("What is 1 plus 1?"), {"id": "x", "prompt": "what is 1 plus 1?", "expected": "2"}),
        ({"text": "One row."}, {"id": "x", "text": "one  ROW."}),
        (
            {"instruction": "Add", "input": "1 1", "output": "2"},
            {"id": 1, "input": "1 1", "instruction": "add"},
        ),
        ({"question": "ﬁve?", "answer": "5"}, {"question": "five?", "id": "q"}),
        ({"b": 1, "a": "X"}, {"a": "x", "b": 1, "id": "other"}),
        (
            {"conversations": [{"from": "human", "value": "Hi A"}, {"from": "gpt", "value": "B"}]},
            {"id": "x", "messages": [{"role": "user", "content": "hi a"}]},
        ),
        (
            {"prompt": [{"role": "user", "content": "Hi"}], "completion": [{"role": "assistant"}]},
            {
                "id": "x",
                "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            },
        ),
    ],
)
def test_rows_that_differ_in_form_only(
    make_trial: Make, tmp_path: Path, train: Any, heldout: Any
) -> None:
    (found,), _ = judge(make_trial, tmp_path, [train], [heldout])
    assert (found.code, found.severity) == ("inputs.heldout_in_train", "error")


@pytest.mark.parametrize(
    ("train", "heldout"),
    [
        (talk("What is 1 plus 1?"), case("What is 1 plus 1 plus 1?")),
        ({"prompt": "2", "completion": "a"}, {"id": "x", "prompt": "3", "expected": "a"}),
        ({"instruction": "Add", "input": "1"}, {"id": "x", "instruction": "Add", "input": "2"}),
        ({"b": 1, "a": "x", "id": "same"}, {"a": "y", "b": 1, "id": "same"}),
    ],
)
def test_rows_that_share_a_part_only(
    make_trial: Make, tmp_path: Path, train: Any, heldout: Any
) -> None:
    assert judge(make_trial, tmp_path, [train], [heldout]) == ([], [])


def test_the_same_words_under_another_system_turn_are_a_note(
    make_trial: Make, tmp_path: Path
) -> None:
    heldout = {
        "id": "x",
        "messages": [
            {"role": "system", "content": "Translate to French."},
            {"role": "user", "content": "Go on."},
        ],
    }
    (found,), _ = judge(make_trial, tmp_path, [talk("Go on.")], [heldout])
    assert found.severity == "note"


def test_later_turns_of_a_conversation_are_part_of_its_input(
    make_trial: Make, tmp_path: Path
) -> None:
    long = talk("A", "B")
    long["messages"] += [{"role": "user", "content": "C"}, {"role": "assistant", "content": "D"}]
    assert judge(make_trial, tmp_path, [long], [case("C")]) == ([], [])
    (found,), _ = judge(make_trial, tmp_path, [long], [case("A", expected="b")])
    assert found.evidence.observed["with the same answer"] == 1
    same = {"id": "x", "messages": long["messages"][:4], "expected": "E"}
    (found,), _ = judge(make_trial, tmp_path, [long], [same])
    assert found.evidence.observed["with the same answer"] == 0


def test_validation_rows_count_as_well(make_trial: Make, tmp_path: Path) -> None:
    (found,), _ = judge(make_trial, tmp_path, [talk("A?")], [case("A?")], "validation")
    assert found.code == "inputs.heldout_in_validation"
    assert "choose the checkpoint" in found.message


def test_one_file_in_two_roles(make_trial: Make, tmp_path: Path) -> None:
    write(tmp_path, "cases.jsonl", [case("A?")])
    os.symlink(tmp_path / "cases.jsonl", tmp_path / "link.jsonl")
    for name in ("cases.jsonl", "link.jsonl"):
        (found,), _ = overlap(make_trial(("validation", name), cases="cases.jsonl"))
        assert "is the validation file and the held-out file" in found.message


def test_without_files_nothing_is_judged(make_trial: Make, tmp_path: Path) -> None:
    write(tmp_path, "train.jsonl", [talk("A?")])
    for trial in (make_trial(), make_trial(("train", "train.jsonl"))):
        findings, (entry,) = overlap(trial)
        assert findings == []
        assert "no local held-out" in entry.reason
    write(tmp_path, "cases.jsonl", [case("A?")])
    _, (entry,) = overlap(make_trial(cases="cases.jsonl"))
    assert "no local train or validation" in entry.reason


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"prompt": "a"}\nnot json\n{"prompt": "b"}\n', "row 2 of the train file"),
        (b'{"prompt": "a"}\n[1, 2]\n', "row 2 of the train file"),
        (b'{"prompt": "\xff"}\n', "is not UTF-8"),
        (b"[" * 5 + b'{"prompt": "a"}' + b"\n", "no JSON|cannot be read"),
        (b'{"a":' * 100_000 + b"\n", "nested too deeply|no JSON"),
        (b"", "has no rows"),
        (b"\n \n", "has no rows"),
        (b"{}\n{}\n", "has 2 rows and nothing in them"),
    ],
)
def test_bad_files_are_named(make_trial: Make, tmp_path: Path, data: bytes, said: str) -> None:
    import re

    (tmp_path / "train.jsonl").write_bytes(data)
    write(tmp_path, "cases.jsonl", [case("A?")])
    findings, unjudged = overlap(make_trial(("train", "train.jsonl"), cases="cases.jsonl"))
    texts = [f.message for f in findings] + [entry.reason for entry in unjudged]
    assert any(re.search(said, text) for text in texts), texts
    assert [f.severity for f in findings] in (["error"], [])


@pytest.mark.parametrize("kind", ["parquet", "folder", "pipe", "missing", "object"])
def test_what_cannot_be_read_is_not_judged(make_trial: Make, tmp_path: Path, kind: str) -> None:
    write(tmp_path, "cases.jsonl", [case("A?")])
    name = "train.parquet" if kind == "parquet" else "train.json"
    path = tmp_path / name
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "object":
        path.write_text('{\n  "steps": 3\n}\n')
    elif kind == "parquet":
        path.write_bytes(b"PAR1")
    findings, (entry,) = overlap(make_trial(("train", name), cases="cases.jsonl"))
    assert findings == []
    assert str(path) in entry.reason


def test_arrays_and_tables_are_read(make_trial: Make, tmp_path: Path) -> None:
    write(tmp_path, "cases.jsonl", [{"id": 1, "prompt": "a, b"}])
    (tmp_path / "train.json").write_text(json.dumps([{"prompt": "x"}, {"prompt": "A, b"}]))
    (tmp_path / "more.json").write_text('{\n"data": [{"prompt": "a, b"}]\n}')
    (tmp_path / "train.csv").write_text('prompt,completion\nx,y\n"a, b",z\n')
    for name, row in (("train.json", 2), ("more.json", 1), ("train.csv", 3)):
        (found,), unjudged = overlap(make_trial(("train", name), cases="cases.jsonl"))
        assert (found.place.row, unjudged) == (row, [])


def test_ten_megabytes_on_one_line_are_a_row_like_others(make_trial: Make, tmp_path: Path) -> None:
    long = "word " * 2_000_000
    write(tmp_path, "train.jsonl", [{"prompt": long}, {"prompt": "b"}])
    write(tmp_path, "cases.jsonl", [{"id": 1, "prompt": long}])
    (found,), _ = overlap(make_trial(("train", "train.jsonl"), cases="cases.jsonl"))
    assert found.place.row == 1
    assert len(found.message) < 1000


def test_a_line_beyond_the_limit_is_a_fault_and_reading_goes_on(
    make_trial: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seatrial.preflight.data_rows.MAX_LINE_BYTES", 1000)
    write(tmp_path, "train.jsonl", [{"prompt": "x" * 5000}, {"prompt": "b"}])
    write(tmp_path, "cases.jsonl", [{"id": 1, "prompt": "b"}])
    findings, _ = overlap(make_trial(("train", "train.jsonl"), cases="cases.jsonl"))
    assert {f.code for f in findings} == {"inputs.heldout_in_train", "inputs.row_unreadable"}
    assert {f.place.row for f in findings} == {1, 2}


def test_more_cases_than_are_remembered_are_said(
    make_trial: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seatrial.preflight.overlap.MAX_REMEMBERED", 3)
    _, (entry,) = judge(make_trial, tmp_path, [talk("Z")], [case(f"A{n}?") for n in range(9)])
    assert "only the first 3" in entry.reason
