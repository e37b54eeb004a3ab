"""Files of the record: replaced atomically, created once, or only appended to.

Functions raise ``OSError``; ``record.py`` decides what a full disk or a deleted folder means.
"""

from __future__ import annotations

import errno
import os
from datetime import datetime, timezone
from typing import Any, Mapping, Optional

from seatrial.core import strict_json
from seatrial.core.event import Event, to_line

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def utc_now() -> str:
    """This moment in UTC as ISO-8601."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def sync_folder(folder: str) -> None:
    """Make a rename or creation in this folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems know no such thing
            raise
    finally:
        os.close(handle)


def _write_beside(path: str, value: Any, durable: bool) -> str:
    beside = f"{path}.{os.getpid()}.tmp"
    raw = (strict_json.dumps(value) + "\n").encode("ascii")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        while raw:
            raw = raw[os.write(handle, raw) :]
        if durable:
            os.fsync(handle)
    except OSError:
        os.unlink(beside)
        raise
    finally:
        os.close(handle)
    return beside


def replace_json(path: str, value: Any, durable: bool = True) -> None:
    """Put a whole file in place at once; readers see the old one or the new one.

    Args:
        path: of the file.
        value: JSON value.
        durable: wait until it is on the disk.

    Raises:
        OSError: the folder is gone, the disk is full, ...
    """
    beside = _write_beside(path, value, durable)
    os.replace(beside, path)
    if durable:
        sync_folder(os.path.dirname(path))


def create_json(path: str, value: Any) -> bool:
    """Create a file that must not exist yet; of many that try, one succeeds.

    The content is complete at the moment in which the name appears.

    Returns:
        Whether it was us; False when the file exists already.

    Raises:
        OSError: the folder is gone, the disk is full, ...
    """
    beside = _write_beside(path, value, durable=True)
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _create_without_links(path, beside)
    finally:
        os.unlink(beside)
    sync_folder(os.path.dirname(path))
    return True


def _create_without_links(path: str, beside: str) -> bool:
    """For file systems without hard links: exclusive first, the content a moment later."""
    with open(beside, "rb") as file:
        raw = file.read()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        os.write(handle, raw)
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(os.path.dirname(path))
    return True


def read_json(path: str) -> Optional[Mapping[str, Any]]:
    """An object from the record; None when it is missing or not one (yet)."""
    try:
        with open(path, encoding="utf-8") as file:
            value = strict_json.loads(file.read())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


class LineFile:
    """Append-only lines, one ``write`` each. What a full disk tore is closed before the next."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._handle = -1
        self._torn = False

    def append(self, line: str) -> None:
        """Write one line, newline included.

        Raises:
            OSError: the folder is gone, the disk is full, ...
        """
        if self._handle < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o644)
        raw = (("\n" if self._torn else "") + line).encode("ascii", "backslashreplace")
        written = os.write(self._handle, raw)
        self._torn = written < len(raw)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def close(self) -> None:
        """Close; a later ``append`` opens again."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


class EventFile:
    """Events of one writer, numbered in order; ``rank`` is null."""

    def __init__(self, path: str) -> None:
        self._lines = LineFile(path)
        self._seq = 0

    def append(self, name: str, data: Mapping[str, Any], mono: float) -> Event:
        """Write one event and give it back.

        Raises:
            OSError: the folder is gone, the disk is full, ...
        """
        event = Event(self._seq, utc_now(), mono, os.getpid(), None, name, data)
        self._seq += 1
        self._lines.append(to_line(event))
        return event

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
