"""``--out DIR``: refused before the run when it cannot work, complete or absent after it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from seatrial.core.errors import CouldNotJudgeError, UsageError
from seatrial.core.record_layout import RecordLayout
from seatrial.store import export
from seatrial.store.export import check_out_folder, export_record


def record(folder: Path) -> RecordLayout:
    layout = RecordLayout(str(folder / "record"))
    os.makedirs(layout.attach)
    os.makedirs(os.path.dirname(layout.claim))
    for path in (layout.plan, layout.result, layout.report, layout.events(0), layout.claim):
        Path(path).write_text(os.path.basename(path))
    return layout


def test_a_copy_is_complete_and_private_folders_stay(tmp_path: Path) -> None:
    layout = record(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("not ours")
    os.symlink(secret, os.path.join(layout.run, "link"))
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("not ours")
    os.symlink(tmp_path / "private", os.path.join(layout.run, "linked"))
    os.mkfifo(os.path.join(layout.run, "pipe"))
    out = tmp_path / "deep" / "out dir"
    check_out_folder(str(out))
    assert not out.parent.exists()
    export_record(layout, str(out))
    found = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
    assert found == ["plan.json", "report.html", "result.json", "run/events.rank0.jsonl"]
    assert os.listdir(out.parent) == ["out dir"]


def test_an_empty_folder_is_taken_and_keeps_its_identity(tmp_path: Path) -> None:
    layout, out = record(tmp_path), tmp_path / "out"
    out.mkdir(mode=0o700)
    before = out.stat()
    check_out_folder(str(out))
    assert os.listdir(out) == []
    export_record(layout, str(out))
    assert sorted(os.listdir(out)) == ["plan.json", "report.html", "result.json", "run"]
    assert (out.stat().st_ino, out.stat().st_mode) == (before.st_ino, before.st_mode)


def test_a_folder_that_holds_something_is_refused_and_untouched(tmp_path: Path) -> None:
    layout, out = record(tmp_path), tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("1")
    for attempt in (
        lambda: check_out_folder(str(out)),
        lambda: export_record(layout, str(out)),
    ):
        with pytest.raises(UsageError, match="is not empty \\(it holds 'mine'\\)"):
            attempt()
    assert os.listdir(out) == ["mine"]


def test_files_and_places_below_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    for name in ("file", "file/below", "dangling"):
        with pytest.raises(UsageError, match="is no folder"):
            check_out_folder(str(tmp_path / name))


def test_a_read_only_place_is_refused_before_the_run(as_user: Path) -> None:
    locked = as_user / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        check_out_folder(str(locked / "out"))


def test_an_empty_folder_that_may_not_be_written_is_refused_before_the_run(
    as_user: Path,
) -> None:
    locked = as_user / "out"
    locked.mkdir()
    locked.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        check_out_folder(str(locked))


def test_a_disk_that_fills_up_leaves_no_half_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, out = record(tmp_path), tmp_path / "out"

    def fail(*_args: object, **_words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(export.os, "fsync", fail)
    with pytest.raises(CouldNotJudgeError, match="no space left"):
        export_record(layout, str(out))
    assert sorted(os.listdir(tmp_path)) == ["record"]
    out.mkdir()
    with pytest.raises(CouldNotJudgeError, match="no space left"):
        export_record(layout, str(out))
    assert os.listdir(out) == []
