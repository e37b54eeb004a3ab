"""What a path of a trial leads to: links, loops, sockets, folders, and data in two roles."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.core.errors import UsageError
from seatrial.core.trial import Bounds, HeldoutSpec, InputSpec, RunnerSpec, Trial
from seatrial.readers.input_files import is_empty_json, list_input
from seatrial.readers.shared_inputs import shared_inputs


def refused(path: Path) -> UsageError:
    with pytest.raises(UsageError) as caught:
        list_input(str(path), "input 'x'")
    assert caught.value.remedy and "input 'x'" in caught.value.message
    return caught.value


def test_a_file_and_a_link_to_it(tmp_path: Path) -> None:
    real = tmp_path / "a.jsonl"
    real.write_text("{}")
    link = tmp_path / "link.jsonl"
    link.symlink_to("a.jsonl")
    assert list_input(str(real), "x").files == {"": str(real)}
    found = list_input(str(link), "x")
    assert found.files == {"": str(link)} and found.links == {str(link): str(real)}


def test_a_folder_in_the_order_of_its_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a/b/c.txt", "a.txt", "A.txt"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    found = list_input(str(tmp_path / "data"), "x")
    assert list(found.files) == ["A.txt", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt"]
    assert found.is_folder


def test_what_tools_leave_beside_data_is_left_out(tmp_path: Path) -> None:
    for name in (
        "data.arrow", "cache-1f2e.arrow", ".git/index", "__pycache__/x.pyc", ".DS_Store",
        ".cache/huggingface/x", "sub/cache-77.arrow",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert list(list_input(str(tmp_path), "x").files) == ["data.arrow"]
    # A folder that has such a name itself is looked into: that is what the trial names.
    assert list(list_input(str(tmp_path / ".cache"), "x").files) == ["huggingface/x"]


def test_links_that_lead_nowhere_or_in_circles(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("gone.txt")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    error = refused(tmp_path / "dangling")
    assert "is a link to gone.txt, which is not there" in error.message
    assert "is a loop of links" in refused(tmp_path / "one").message
    assert "no such file or folder" in refused(tmp_path / "none").message
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (data / "a").write_text("x")
    (data / "sub" / "up").symlink_to("..")
    assert "sub/up leads back into itself" in refused(data).message
    (data / "sub" / "up").unlink()
    (data / "sub" / "b").symlink_to("nowhere")
    assert "sub/b is a link to nowhere" in refused(data).message


def test_folders_reached_over_links_are_read(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "w").write_text("weights")
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.bin").symlink_to("../blobs/w")
    (snapshot / "again").symlink_to("../blobs")
    found = list_input(str(snapshot), "x")
    assert list(found.files) == ["again/w", "model.bin"] and len(found.links) == 2


def test_what_has_no_content(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(tmp_path)  # the path of a socket may not be long
    try:
        listener.bind("socket")
    finally:
        os.chdir(here)
    try:
        assert "is a pipe" in refused(tmp_path / "pipe").message
        assert "is a socket" in refused(tmp_path / "socket").message
        assert "is a device" in refused(Path("/dev/null")).message
        assert "is a device" in refused(Path("/dev/zero")).message
        assert "pipe is a pipe" in refused(tmp_path).message
    finally:
        listener.close()


def test_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deeper").mkdir(parents=True)
    assert "a folder without any file" in refused(tmp_path).message


def test_a_folder_that_may_not_be_looked_into(as_user: Path) -> None:
    (as_user / "data" / "closed").mkdir(parents=True)
    (as_user / "data" / "a").write_text("x")
    (as_user / "data" / "closed").chmod(0)
    assert "closed/ cannot be read: Permission denied" in refused(as_user / "data").message


def test_json_files_without_anything(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text, empty in (("[]", True), (" {}\n", True), ("[ ]", True), ("[1]", False), ("", False)):
        path.write_text(text)
        assert is_empty_json(str(path)) is empty, text
    other = tmp_path / "a.txt"
    other.write_text("[]")
    assert not is_empty_json(str(other)) and not is_empty_json(str(tmp_path / "none.json"))


# One thing in two roles


def trial(*inputs: InputSpec, cases: Path | None = None) -> Trial:
    return Trial(
        name="t",
        runner=RunnerSpec(("python", "t.py")),
        bounds=Bounds(1, 1.0, 1),
        inputs=inputs,
        heldout=None if cases is None else HeldoutSpec(str(cases)),
        file="trial.toml",
    )


def spec(role: str, path: Path, split: str | None = None) -> InputSpec:
    return InputSpec(role, role, str(path), split=split)


def hub(role: str, split: str | None = None) -> InputSpec:
    return InputSpec(role, role, hub="o/data", split=split)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "a.jsonl").write_text("{}\n")
    (tmp_path / "b.jsonl").write_text("{}\n")
    (tmp_path / "link.jsonl").symlink_to("a.jsonl")
    os.link(tmp_path / "a.jsonl", tmp_path / "hard.jsonl")
    return tmp_path


def test_held_out_data_in_another_role_is_refused(data: Path) -> None:
    train = spec("train", data / "a.jsonl")
    for other in ("a.jsonl", "link.jsonl", "hard.jsonl"):
        with pytest.raises(UsageError, match=r"input 'train' \(train\) and input 'heldout'"):
            shared_inputs(trial(train, spec("heldout", data / other)))
        with pytest.raises(UsageError, match=r"heldout\.cases \(heldout\) are both"):
            shared_inputs(trial(train, cases=data / other))
    with pytest.raises(UsageError, match="validation"):
        shared_inputs(trial(spec("validation", data), spec("heldout", data)))


def test_other_overlaps_are_warnings(data: Path) -> None:
    for one, other in (
        (spec("train", data / "a.jsonl"), spec("validation", data / "a.jsonl")),
        (spec("train", data), spec("heldout", data / "b.jsonl")),
        (hub("train", "train"), hub("heldout", "train")),
        (hub("train"), hub("heldout")),
    ):
        (finding,) = shared_inputs(trial(one, other))
        assert finding.code == "inputs.shared" and finding.severity == "warning"


def test_what_is_often_shared_is_fine(data: Path) -> None:
    a, b = data / "a.jsonl", data / "b.jsonl"
    for inputs in (
        (spec("train", a), spec("heldout", b)),
        (spec("model", data), spec("tokenizer", data)),
        (spec("train", data, "train"), spec("heldout", data, "test")),
        (hub("train", "train[:90%]"), hub("validation", "train[90%:]")),
        (spec("train", a), replace(spec("train", a), id="again")),
        (spec("train", data / "gone"), spec("heldout", data / "gone2")),
    ):
        assert shared_inputs(trial(*inputs)) == ()
    assert shared_inputs(trial(spec("heldout", a), cases=a)) == ()
