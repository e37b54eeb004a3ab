"""Opening files that a training left: regular files alone, with limits, never waiting on a pipe."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from typing import Any

JSON_BYTES = 64 * 2**20
JSON_DEPTH = 64


class UnreadableError(ValueError):
    """A file cannot be read as what it should be. The text says why, without the file's name."""


def open_regular(path: str) -> int:
    """A descriptor for reading a regular file; the caller closes it.

    Raises:
        UnreadableError: it is missing, may not be read, or is a folder, a pipe or a device.
    """
    try:
        # Without O_NONBLOCK a FIFO of that name would hold us until somebody writes to it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnreadableError("it does not exist") from None
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else None
        raise UnreadableError(f"it cannot be opened: {words or error}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableError("it is no regular file")
    return handle


def read_limited(path: str, max_bytes: int) -> bytes:
    """The content of a regular file of at most ``max_bytes``.

    Raises:
        UnreadableError: as ``open_regular``, or it is larger.
    """
    handle = open_regular(path)
    try:
        size = os.fstat(handle).st_size
        if size > max_bytes:
            raise UnreadableError(f"it has {size} bytes; at most {max_bytes} are read")
        parts = []
        room = max_bytes + 1
        while room > 0 and (part := os.read(handle, min(room, 2**20))):
            parts.append(part)
            room -= len(part)
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)
    data = b"".join(parts)
    if len(data) > max_bytes:
        raise UnreadableError(f"it has more than {max_bytes} bytes")
    return data


def parse_json(
    data: bytes,
    *,
    allow_nan: bool = False,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """JSON of bytes that may be anything.

    Args:
        data: UTF-8.
        allow_nan: read the literals ``NaN``, ``Infinity`` and ``-Infinity``, which Python's own
            writer makes and strict JSON does not have.
        pairs: builds an object from its pairs; sees repeated keys.

    Raises:
        UnreadableError: not UTF-8, not JSON, or nested deeper than 64 levels.
    """

    def constant(name: str) -> float:
        if not allow_nan:
            raise UnreadableError(f"it holds {name}, which is no JSON")
        return float(name.replace("Infinity", "inf"))

    try:
        value = json.loads(data.decode("utf-8"), parse_constant=constant, object_pairs_hook=pairs)
    except RecursionError:
        raise UnreadableError(f"it is nested deeper than {JSON_DEPTH} levels") from None
    except UnicodeDecodeError as error:
        raise UnreadableError(f"it is not UTF-8 at byte {error.start}") from None
    except UnreadableError:
        raise
    except ValueError as error:
        raise UnreadableError(f"it is not JSON: {str(error)[:120]}") from None
    if _depth_above(value, JSON_DEPTH):
        raise UnreadableError(f"it is nested deeper than {JSON_DEPTH} levels")
    return value


def _depth_above(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            part
            for item in level
            if isinstance(item, (dict, list))
            for part in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def read_json_object(path: str, *, allow_nan: bool = False) -> dict[str, Any]:
    """The JSON object in a file of at most 64 MiB.

    Raises:
        UnreadableError: as ``read_limited`` and ``parse_json``, or it holds no object.
    """
    value = parse_json(read_limited(path, JSON_BYTES), allow_nan=allow_nan)
    if not isinstance(value, dict):
        raise UnreadableError("it holds no JSON object")
    return value
