"""``--out DIR``: a complete copy of what a run leaves, outside the state folder."""

from __future__ import annotations

import os
import secrets
import shutil

from seatrial.core.errors import UsageError
from seatrial.core.record_layout import RecordLayout
from seatrial.store.atomic import make_folder, sync_folder, writing

# Folders of a record that only mean something while its processes live.
_LEFT_OUT = frozenset({"control", "launch", "finalize.lock"})


def check_out_folder(out: str) -> None:
    """Refuse a folder that could not take the copy, before anything runs. Leaves nothing behind.

    Raises:
        UsageError: it is a file, holds something, or may not be written.
        CouldNotJudgeError: the disk is full.
    """
    if not out:
        raise UsageError("--out is empty", remedy="name a new folder: --out DIR")
    path = os.path.abspath(out)
    with writing(path):
        _refuse_name(path)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise UsageError(f"--out {out} is there and is no folder", remedy="name a new folder")
    if os.path.isdir(path):
        with writing(path):
            held = sorted(os.listdir(path))
        if held:
            raise UsageError(
                f"--out {out} is not empty (it holds {held[0]!r})",
                remedy="name a new or empty folder; nothing is ever written over",
            )
    place = path
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise UsageError(
            f"--out {out}: {place} is there and is no folder", remedy="name another folder"
        )
    probe = os.path.join(place, _temp_name())
    with writing(path):
        os.mkdir(probe)
        os.rmdir(probe)


def _refuse_name(path: str) -> None:
    """Let the system say that a name is too long, which ``lexists`` takes for "not there"."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return


def check_apart(out: str, state: str) -> None:
    """Refuse a copy among the records, and one that would hold the state folder itself.

    Args:
        out: where the copy goes.
        state: the state folder, whether it is there or not.

    Raises:
        UsageError: it is such a place.
    """
    path, home = os.path.realpath(out), os.path.realpath(state)
    if os.path.commonpath((path, home)) == path:
        raise UsageError(
            f"--out {out} would hold the state folder {state}", remedy="name another folder"
        )
    runs = os.path.join(home, "runs")
    if os.path.commonpath((path, runs)) == runs:
        raise UsageError(
            f"--out {out} is among the records in {runs}, where it would look like a run",
            remedy="name a folder outside of it",
        )


def _temp_name() -> str:
    return f".seatrial-{secrets.token_hex(6)}.tmp"


def export_record(layout: RecordLayout, out: str) -> None:
    """Copy the record to ``out``: a new folder appears in one step, complete.

    A folder that is there already (empty, as ``check_out_folder`` asks) keeps its place and
    permissions; the copy is completed in a hidden folder inside it and then moved up, the result
    last. Only regular files are copied; links that somebody placed in the record are not followed.

    Raises:
        UsageError: ``out`` may not be written or has been filled since the run began.
        CouldNotJudgeError: the disk is full; nothing is left behind.
    """
    path = os.path.abspath(out)
    check_out_folder(path)
    is_there = os.path.isdir(path)
    parent = path if is_there else os.path.dirname(path)
    make_folder(parent)
    temp = os.path.join(parent, _temp_name())
    try:
        with writing(path):
            _copy_tree(layout.folder, temp)
            if is_there:
                _move_up(temp, path, last=os.path.basename(layout.result))
            else:
                os.rename(temp, path)
            sync_folder(parent)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def _move_up(source: str, target: str, last: str) -> None:
    for name in sorted(os.listdir(source), key=lambda name: name == last):
        os.rename(os.path.join(source, name), os.path.join(target, name))


def _copy_tree(source: str, target: str) -> None:
    os.mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.name in _LEFT_OUT or entry.name.endswith(".tmp"):
                continue
            copy = os.path.join(target, entry.name)
            if entry.is_dir(follow_symlinks=False):
                _copy_tree(entry.path, copy)
            elif entry.is_file(follow_symlinks=False):
                shutil.copyfile(entry.path, copy, follow_symlinks=False)
                handle = os.open(copy, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
    sync_folder(target)
