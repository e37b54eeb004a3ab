"""Writing files so that a reader, or a crash, never meets half of one."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seatrial.core import strict_json
from seatrial.core.errors import CouldNotJudgeError, UsageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Turn what the system says about a write into a message with the place.

    Raises:
        UsageError: no permission, a read-only file system, a missing or wrong folder, a name that
            is too long.
        CouldNotJudgeError: the disk is full or broken.
    """
    try:
        yield
    except FileExistsError:
        raise  # an answer, not a fault: the caller knows what it means
    except OSError as error:
        place = path.encode("utf-8", "backslashreplace").decode("utf-8")
        if error.errno in _FULL:
            raise CouldNotJudgeError(
                f"no space left to write {place} ({error.strerror})",
                remedy="free some space (seatrial clean removes old runs), then run it again",
            ) from error
        if error.errno in _REFUSED:
            raise UsageError(
                f"cannot write {place}: {error.strerror}",
                remedy="choose a folder that you may write to (SEATRIAL_DIR, or --out)",
            ) from error
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG):
            raise UsageError(
                f"cannot write {place}: {error.strerror}",
                remedy="choose a folder that can be there (SEATRIAL_DIR, or --out)",
            ) from error
        raise CouldNotJudgeError(f"writing {place} failed: {error.strerror or error}") from error


def sync_folder(folder: str) -> None:
    """Make names created or replaced in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # some network file systems
            raise
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _write_temp(path: str, data: bytes) -> str:
    """A complete, synced sibling of ``path``; nothing is left behind when that fails."""
    folder, name = os.path.split(os.path.abspath(path))
    temp = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(6)}.tmp")
    handle = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        try:
            _write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        os.unlink(temp)
        raise
    return temp


def write_bytes(path: str, data: bytes) -> None:
    """Replace the file in one step: afterwards it holds the old content or all of the new.

    Raises:
        UsageError, CouldNotJudgeError: see ``writing``.
    """
    with writing(path):
        temp = _write_temp(path, data)
        try:
            os.replace(temp, path)
        except BaseException:
            os.unlink(temp)
            raise
        sync_folder(os.path.dirname(os.path.abspath(path)))


def write_text(path: str, text: str) -> None:
    """Replace the file with text in UTF-8; see ``write_bytes``. Lone surrogates become escapes."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json(path: str, value: Any, indent: int | None = 2) -> None:
    """Replace the file with strict JSON and a line end; see ``write_bytes``.

    Raises:
        TypeError: a value has no JSON form.
    """
    write_text(path, strict_json.dumps(value, indent=indent) + "\n")


def append_line(path: str, line: str) -> None:
    """Append one line in one write, and sync it.

    Raises:
        ValueError: the line holds a line end of its own.
        UsageError, CouldNotJudgeError: see ``writing``.
    """
    text = line[:-1] if line.endswith("\n") else line
    if "\n" in text:
        raise ValueError("one line at a time")
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            _write_all(handle, (text + "\n").encode("utf-8", "backslashreplace"))
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def open_append(path: str) -> Iterator[int]:
    """A file open for appending, for the output of a process that is about to start.

    Raises:
        UsageError, CouldNotJudgeError: see ``writing``.
    """
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        yield handle
    finally:
        os.close(handle)


def create_exclusive(path: str, data: bytes) -> bool:
    """Create a file that must not exist yet, complete from its first moment.

    Returns:
        Whether this call made it. Of any number of callers exactly one is told True.

    Raises:
        UsageError, CouldNotJudgeError: see ``writing``.
    """
    with writing(path):
        temp = _write_temp(path, data)
        try:
            os.link(temp, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            return _create_in_place(path, data)
        finally:
            os.unlink(temp)
        sync_folder(os.path.dirname(os.path.abspath(path)))
        return True


def _create_in_place(path: str, data: bytes) -> bool:
    # Without hard links the file is there before its content; its presence is what counts.
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        _write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(os.path.dirname(os.path.abspath(path)))
    return True


def make_folder(path: str, *, must_be_new: bool = False) -> None:
    """Create a folder and its parents.

    Raises:
        FileExistsError: ``must_be_new`` and it is there.
        UsageError: something else has the name, or the place may not be written.
        CouldNotJudgeError: see ``writing``.
    """
    with writing(path):
        try:
            if must_be_new:
                os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
                os.mkdir(path)
            else:
                os.makedirs(path, exist_ok=True)
        except FileExistsError:
            if must_be_new:
                raise
            raise UsageError(f"{path} is in the way: it is there and is no folder") from None
