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
    path = os.path.abspath(out)
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
    parent = os.path.dirname(path)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise UsageError(
            f"--out {out}: {parent} is there and is no folder", remedy="name another folder"
        )
    probe = os.path.join(parent, f".seatrial-{secrets.token_hex(6)}.tmp")
    with writing(path):
        os.mkdir(probe)
        os.rmdir(probe)


def export_record(layout: RecordLayout, out: str) -> None:
    """Copy the record to ``out`` in one step: the folder is complete or it is not there.

    Only regular files are copied; links that somebody placed in the record are not followed.

    Raises:
        UsageError: ``out`` may not be written or has been filled since the run began.
        CouldNotJudgeError: the disk is full.
    """
    path = os.path.abspath(out)
    check_out_folder(path)
    parent, name = os.path.split(path)
    make_folder(parent)
    temp = os.path.join(parent, f".{name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with writing(path):
            _copy_tree(layout.folder, temp)
            os.rename(temp, path)  # replaces an empty folder, refuses any other
            sync_folder(parent)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


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
