"""Files that anybody may have written: opened and parsed with limits, never waiting on a pipe."""

from __future__ import annotations

import os
import stat
from typing import Any, BinaryIO

from seatrial.core.errors import BrokenRecordError
from seatrial.core.limited_json import MAX_BYTES, MAX_DEPTH, parse_limited


class NotRegularError(ValueError):
    """Something else than a regular file has the name; the text says what."""


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading, and nothing else.

    Raises:
        OSError: it is missing or may not be read.
        NotRegularError: it is a folder, a pipe, a device, or the name holds a NUL.
    """
    if "\0" in path:
        raise NotRegularError("its name holds a NUL byte")
    # Without O_NONBLOCK a FIFO of that name would hold us until somebody writes to it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise NotRegularError("it is a folder" if stat.S_ISDIR(mode) else "it is no regular file")
    return open(handle, "rb")


def read_bytes_limited(path: str, max_bytes: int) -> bytes:
    """The content of a regular file of at most ``max_bytes``.

    Raises:
        FileNotFoundError: there is no such file.
        BrokenRecordError: it is no regular file, too large, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise
    except (OSError, NotRegularError) as error:
        raise BrokenRecordError(f"cannot read {path}: {error}") from error
    if len(data) > max_bytes:
        raise BrokenRecordError(f"{path} is larger than {max_bytes} bytes")
    return data


def read_json_limited(path: str, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """Strict JSON of a regular file.

    Raises:
        FileNotFoundError: there is no such file.
        BrokenRecordError: no regular file, too large, nested too deeply, or not strict JSON.
    """
    data = read_bytes_limited(path, max_bytes)
    try:
        return parse_limited(data, max_depth)
    except ValueError as error:
        raise BrokenRecordError(f"{path} is not readable as JSON: {error}") from error
