"""The files behind a path of a trial: one file, or every file of a folder, in a fixed order."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from seatrial.core.errors import UsageError
from seatrial.readers.json_file import NotRegularError, open_regular

MAX_FILES = 100_000
_MAX_DEPTH = 64
_EMPTY_BYTES = 256
# Written by tools beside the data while a healthy run goes; never part of what was given.
LEFT_OUT_FOLDERS = frozenset({".git", ".cache", "__pycache__", ".locks", ".ipynb_checkpoints"})
LEFT_OUT_FILES = frozenset({".DS_Store"})
_ROW_SUFFIXES = (".jsonl", ".ndjson")
_KINDS = (
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True)
class Listed:
    """What a path leads to.

    Attributes:
        path: absolute, as the trial names it.
        is_folder: whether ``files`` are those of a folder.
        files: absolute path by the name inside the folder (one entry with an empty name for a
            file), in the order of the names.
        links: real path of every symbolic link on the way, by its absolute path.
    """

    path: str
    is_folder: bool
    files: dict[str, str]
    links: dict[str, str] = field(default_factory=dict)


def has_rows(path: str) -> bool:
    """Whether a file's name says that it holds JSON lines."""
    return path.lower().endswith(_ROW_SUFFIXES)


def is_empty_json(path: str) -> bool:
    """Whether a ``.json`` file holds an empty list or table and nothing else."""
    if not path.lower().endswith(".json"):
        return False
    try:
        with open_regular(path) as handle:
            return handle.read(_EMPTY_BYTES).split() in ([b"[]"], [b"{}"], [b"[", b"]"])
    except (OSError, NotRegularError):
        return False


def list_input(path: str, label: str) -> Listed:
    """The files of an input. Nothing is opened but folders.

    Args:
        path: absolute path.
        label: how messages name it.

    Raises:
        UsageError: it is missing, a dangling link, a loop of links, a socket, pipe or device, holds
            one of these, holds no file at all, or may not be looked into.
    """
    found = _stat(path, label)
    links = _link(path)
    if not stat.S_ISDIR(found.st_mode):
        _refuse_special(found, label)
        return Listed(path, False, {"": path}, links)
    files: dict[str, str] = {}
    for name, file in _walk(path, label, "", ((found.st_dev, found.st_ino),), links):
        if len(files) >= MAX_FILES:
            raise UsageError(
                f"{label} holds more than {MAX_FILES} files",
                remedy="pack them into archives or shards, or name the folder that is used",
            )
        files[name] = file
    if not files:
        raise UsageError(f"{label} is a folder without any file", remedy=f"ls -la {path}")
    return Listed(path, True, dict(sorted(files.items())), links)


def _stat(path: str, label: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise _unreadable(path, label, error) from error
    except ValueError as error:
        raise UsageError(f"{label}: {error}") from error


def _unreadable(path: str, label: str, error: OSError) -> UsageError:
    if error.errno == errno.ELOOP:
        return UsageError(f"{label} is a loop of links", remedy=f"ls -l {path}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if os.path.islink(path):
            return UsageError(
                f"{label} is a link to {os.readlink(path)}, which is not there",
                remedy=f"ls -l {path}",
            )
        return UsageError(
            f"{label}: there is no such file or folder",
            remedy=f"ls {os.path.dirname(path)}, or correct the path in the trial",
        )
    return UsageError(f"{label} cannot be read: {error.strerror or error}", remedy=f"ls -ld {path}")


def _refuse_special(found: os.stat_result, label: str) -> None:
    for is_kind, name in _KINDS:
        if is_kind(found.st_mode):
            raise UsageError(
                f"{label} is {name}: it has no content that could be frozen",
                remedy="write what it gives into a file, and name that one",
            )


def _link(path: str) -> dict[str, str]:
    return {path: os.path.realpath(path)} if os.path.islink(path) else {}


def _walk(
    folder: str,
    label: str,
    inside: str,
    above: tuple[tuple[int, int], ...],
    links: dict[str, str],
) -> Iterator[tuple[str, str]]:
    """Files below a folder, links to folders followed; ``above`` are the folders around it."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        shown = f"{label}: the folder {inside or folder}"
        raise _unreadable(folder, shown, error) from error
    for name in names:
        path = os.path.join(folder, name)
        shown = f"{label}: {inside}{name}"
        if name in LEFT_OUT_FILES or _is_cache_file(name):
            continue
        found = _stat(path, shown)
        links.update(_link(path))
        if not stat.S_ISDIR(found.st_mode):
            _refuse_special(found, shown)
            yield inside + name, path
            continue
        if name in LEFT_OUT_FOLDERS:
            continue
        identity = (found.st_dev, found.st_ino)
        if identity in above or len(above) > _MAX_DEPTH:
            raise UsageError(f"{shown} leads back into itself", remedy=f"ls -l {path}")
        yield from _walk(path, label, f"{inside}{name}/", (*above, identity), links)


def _is_cache_file(name: str) -> bool:
    """Whether a data set library made it beside its data: ``cache-<fingerprint>.arrow``."""
    return name.startswith("cache-") and name.endswith(".arrow")
