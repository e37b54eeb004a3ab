"""Where the state folder is, and new records in it."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timezone
from pathlib import Path

import pytest

from seatrial.core.errors import UsageError
from seatrial.store.state_folder import (
    StateFolder,
    create_record,
    create_state_folder,
    find_state_folder,
    new_record,
    new_run_id,
)

NOW = datetime(2026, 11, 30, 22, 33, 19, tzinfo=timezone.utc)


def test_the_variable_goes_before_everything(tmp_path: Path) -> None:
    (tmp_path / ".seatrial").mkdir()
    found = find_state_folder(str(tmp_path), {"SEATRIAL_DIR": "other place"})
    assert found.path == str(tmp_path / "other place")
    assert find_state_folder(str(tmp_path), {"SEATRIAL_DIR": ""}).path == str(
        tmp_path / ".seatrial"
    )


def test_the_nearest_parent_with_a_state_folder_counts(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_state_folder(str(deep), {}).path == str(deep / ".seatrial")
    (tmp_path / ".seatrial").mkdir()
    assert find_state_folder(str(deep), {}).path == str(tmp_path / ".seatrial")
    (tmp_path / "a" / ".seatrial").write_text("a file is no state folder")
    assert find_state_folder(str(deep), {}).path == str(tmp_path / ".seatrial")


def test_it_keeps_itself_out_of_commits(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / ".seatrial"))
    create_state_folder(state)
    ignore = tmp_path / ".seatrial" / ".gitignore"
    assert ignore.read_text() == "*\n"
    ignore.write_text("mine\n")
    create_state_folder(state)
    assert ignore.read_text() == "mine\n"


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / ".seatrial").write_text("")
    with pytest.raises(UsageError, match="seatrial"):
        create_state_folder(StateFolder(str(tmp_path / ".seatrial")))
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "runs").write_text("")
    with pytest.raises(UsageError, match="in the way"):
        create_state_folder(StateFolder(str(tmp_path / "s")))


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("legal-moves", "legal-moves"),
        ("Größe 7b\n/../x", "groe-7b-x"),
        ("日本", "run"),
        ("", "run"),
        ("a" * 300, "a" * 40),
    ],
    ids=["plain", "odd", "no-ascii", "empty", "long"],
)
def test_run_ids_sort_by_time_and_say_what_ran(name: str, slug: str) -> None:
    made = new_run_id(NOW, name)
    assert re.fullmatch(rf"20261130-223319-{slug}-[0-9a-f]{{4}}", made), made


def test_a_record_has_its_folders_and_names_its_starter(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "state"))
    layout = create_record(state, "run-1")
    for folder in (layout.run, layout.attach, os.path.dirname(layout.stop_request)):
        assert os.path.isdir(folder)
    assert json.loads(Path(layout.intent).read_text())["pid"] == os.getpid()
    assert not os.path.exists(layout.claim)
    with pytest.raises(UsageError, match="is there already"):
        create_record(state, "run-1")


def test_many_runs_of_one_second_get_records_of_their_own(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "state"))
    made = {new_record(state, NOW, "x")[0] for _ in range(60)}
    assert len(made) == len(os.listdir(state.runs)) == 60


def test_a_read_only_place_is_refused_with_nothing_left(as_user: Path) -> None:
    as_user.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied") as caught:
        create_record(StateFolder(str(as_user / ".seatrial")), "run-1")
    assert "SEATRIAL_DIR" in caught.value.remedy
    as_user.chmod(0o700)
    assert os.listdir(as_user) == []


def test_a_new_state_folder_is_its_owners_alone_and_an_old_one_is_left(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        fresh = StateFolder(str(tmp_path / "fresh"))
        create_state_folder(fresh)
        shared = tmp_path / "shared"
        shared.mkdir(mode=0o755)
        create_state_folder(StateFolder(str(shared)))
    finally:
        os.umask(before)
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o700
    assert shared.stat().st_mode & 0o777 == 0o755
