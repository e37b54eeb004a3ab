"""Held-out cases of a trial: JSON lines with an id, and messages or a prompt."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.core.errors import UsageError
from seatrial.core.lock_values import case_sha256
from seatrial.readers.json_file import NotRegularError, open_regular
from seatrial.readers.row_scan import RowError, parse_row

MAX_CASES = 50_000
MAX_CASE_BYTES = 4 * 2**20
MAX_FILE_BYTES = 2**30


@dataclass(frozen=True)
class CaseFile:
    """The cases of a file, and the bytes that they were read from.

    Attributes:
        sha256, size: of the whole file.
        cases: each case with its line, in the order of the file.
    """

    sha256: str
    size: int
    cases: tuple[tuple[int, Mapping[str, Any]], ...]

    def hashes(self) -> tuple[tuple[str, str], ...]:
        """Id and hash of each case."""
        return tuple((str(case["id"]), case_sha256(case)) for _, case in self.cases)


def read_cases(path: str, label: str) -> CaseFile:
    """Read a file of held-out cases, line by line.

    Args:
        path: absolute path.
        label: how messages name it.

    Raises:
        UsageError: it is missing, empty or too large, a row is no case, an id comes twice, or it
            changed while it was read.
    """
    try:
        with open_regular(path) as file:
            before = os.fstat(file.fileno())
            read = _read(file, label)
            after = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{label}: there is no such file",
            remedy=f"ls {os.path.dirname(path)}, or correct heldout.cases in the trial",
        ) from None
    except RowError as error:
        raise UsageError(
            f"{label}, line {error.line}: {error.reason}", remedy=f"sed -n {error.line}p {path}"
        ) from None
    except NotRegularError as error:
        raise UsageError(f"{label}: {error}", remedy=f"ls -l {path}") from None
    except OSError as error:
        raise UsageError(
            f"{label} cannot be read: {error.strerror or error}", remedy=f"ls -l {path}"
        ) from error
    same = (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    if not same or read.size != before.st_size:
        raise UsageError(
            f"{label} changed while it was hashed",
            remedy="end what writes to it, then run it again",
        )
    return read


def _read(file: Any, label: str) -> CaseFile:
    hasher = hashlib.sha256()
    size = number = 0
    cases: list[tuple[int, Mapping[str, Any]]] = []
    seen: dict[str, int] = {}
    while True:
        line = file.readline(MAX_CASE_BYTES + 1)
        if not line:
            break
        number += 1
        size += len(line)
        hasher.update(line)
        if len(line) > MAX_CASE_BYTES:
            raise RowError(number, f"the case is longer than {MAX_CASE_BYTES} bytes, the limit")
        if size > MAX_FILE_BYTES or len(cases) >= MAX_CASES:
            raise RowError(
                number, f"more than {MAX_CASES} cases or {MAX_FILE_BYTES} bytes, the limits"
            )
        if line.strip():
            case = _case(parse_row(line, number), number)
            name = str(case["id"])
            if name in seen:
                raise RowError(number, f"the id {name!r} is taken by line {seen[name]}")
            seen[name] = number
            cases.append((number, case))
    if not cases:
        raise UsageError(
            f"{label} holds no case", remedy='write {"id": ..., "messages": [...]} lines into it'
        )
    return CaseFile(hasher.hexdigest(), size, tuple(cases))


def _case(row: object, number: int) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise RowError(number, f"a case is an object, this is {type(row).__name__}")
    name = row.get("id")
    if isinstance(name, bool) or not isinstance(name, (str, int)) or name == "":
        raise RowError(number, f"a case needs an id (text or a whole number), this has {name!r}")
    messages, prompt = row.get("messages"), row.get("prompt")
    if messages is None and prompt is None:
        raise RowError(number, f"case {str(name)!r} has neither messages nor prompt")
    if messages is not None and not (
        isinstance(messages, list) and messages and all(isinstance(m, dict) for m in messages)
    ):
        raise RowError(number, f"case {str(name)!r}: messages is no list of messages")
    if prompt is not None and not (isinstance(prompt, str) and prompt):
        raise RowError(number, f"case {str(name)!r}: prompt is no text, or empty")
    return row
