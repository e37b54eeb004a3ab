"""Rows of a data file, read one by one with limits, and the keys by which two rows are the same."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

MAX_LINE_BYTES = 64 * 2**20
MAX_ARRAY_BYTES = 64 * 2**20
MAX_FILE_BYTES = 2 * 2**30
MAX_CELL_BYTES = 2**20
LINE_SUFFIXES = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES = (".csv", ".tsv")
# Fields that name a row and say nothing of its content.
_NAMES = frozenset({"id", "idx", "index", "uuid", "uid", "_id", "case_id", "row_id"})
_ANSWERS = (
    "expected", "completion", "answer", "output", "response", "label", "labels", "target", "chosen",
)  # fmt: skip
_QUESTIONS = (("prompt",), ("instruction", "input"), ("question", "context"), ("input",))
_MAX_ANSWERS = 64
_SIZE = 12  # bytes of a hash that are kept: two of 10^9 rows agree by chance once in 10^10 files


class UnreadableRowsError(Exception):
    """The file cannot be read as rows at all; the text says why."""


@dataclass(frozen=True)
class Row:
    """One row: its number (lines and rows count from 1), and its value or what is wrong with it."""

    number: int
    value: Any = None
    fault: str = ""


def rows_of(path: str) -> Iterator[Row]:
    """All rows of a file. A row that cannot be read has a ``fault``; reading goes on.

    Raises:
        UnreadableRowsError: no regular file, another format, or larger than 2 GiB.
    """
    lower = path.lower()
    if not lower.endswith((*LINE_SUFFIXES, *TABLE_SUFFIXES)):
        kind = os.path.splitext(path)[1] or "no ending"
        raise UnreadableRowsError(f"files with {kind} are not read; JSON lines and CSV are")
    with _opened(path) as handle:
        if lower.endswith(TABLE_SUFFIXES):
            yield from _table(handle, "\t" if lower.endswith(".tsv") else ",")
        elif _is_one_value(handle, lower):
            yield from _array(handle)
        else:
            yield from _lines(handle)


def _opened(path: str) -> BinaryIO:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise UnreadableRowsError(f"it cannot be read: {text}") from error
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        os.close(handle)
        raise UnreadableRowsError(
            "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no regular file"
        )
    if found.st_size > MAX_FILE_BYTES:
        os.close(handle)
        raise UnreadableRowsError(f"it is larger than {MAX_FILE_BYTES // 2**30} GiB")
    return open(handle, "rb")


def _is_one_value(handle: BinaryIO, name: str) -> bool:
    """Whether a file is one JSON value, and not a value on each line."""
    head = handle.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    handle.seek(0)
    if not name.endswith(".json") or head[:1] != b"{":
        return head[:1] == b"["
    line = handle.readline(MAX_LINE_BYTES)
    handle.seek(0)
    return bool(_parsed(1, line.removeprefix(b"\xef\xbb\xbf")).fault)


def _lines(handle: BinaryIO) -> Iterator[Row]:
    number = 0
    while True:
        line = handle.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        number += 1
        if len(line) > MAX_LINE_BYTES:
            yield Row(number, fault=f"is longer than {MAX_LINE_BYTES // 2**20} MiB")
            while line and not line.endswith(b"\n"):
                line = handle.readline(MAX_LINE_BYTES)
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield _parsed(number, line)


def _parsed(number: int, line: bytes) -> Row:
    try:
        return Row(number, json.loads(line.decode("utf-8")))
    except UnicodeDecodeError:
        return Row(number, fault="is not UTF-8")
    except RecursionError:
        return Row(number, fault="is nested too deeply")
    except ValueError as error:
        return Row(number, fault=f"is no JSON ({str(error)[:80]})")


def _array(handle: BinaryIO) -> Iterator[Row]:
    data = handle.read(MAX_ARRAY_BYTES + 1)
    if len(data) > MAX_ARRAY_BYTES:
        raise UnreadableRowsError(
            f"JSON of more than {MAX_ARRAY_BYTES // 2**20} MiB in one value is not read; "
            "write JSON lines"
        )
    try:
        listed = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UnreadableRowsError(f"it is no JSON ({str(error)[:80]})") from error
    if isinstance(listed, dict):
        lists = [value for value in listed.values() if isinstance(value, list)]
        if len(lists) != 1:
            raise UnreadableRowsError("it is one JSON object and no list of rows")
        listed = lists[0]
    for number, value in enumerate(listed, 1):
        yield Row(number, value)


def _table(handle: BinaryIO, delimiter: str) -> Iterator[Row]:
    limit = csv.field_size_limit(MAX_CELL_BYTES)
    try:
        text = (line.decode("utf-8-sig" if first else "utf-8") for first, line in _first(handle))
        for number, row in enumerate(csv.DictReader(text, delimiter=delimiter), 2):
            yield Row(number, {str(key): value for key, value in row.items()})
    except (csv.Error, UnicodeDecodeError) as error:
        raise UnreadableRowsError(f"it is no table that can be read ({error})") from error
    finally:
        csv.field_size_limit(limit)


def _first(handle: BinaryIO) -> Iterator[tuple[bool, bytes]]:
    first = True
    while line := handle.readline(MAX_CELL_BYTES + 1):
        if len(line) > MAX_CELL_BYTES:
            raise UnreadableRowsError(f"a line is longer than {MAX_CELL_BYTES // 2**20} MiB")
        yield first, line
        first = False


@dataclass(frozen=True)
class Keys:
    """What two rows are compared by.

    Attributes:
        asked: hash of the input without case, white space and system turns.
        turns: role and text of the input as it stands.
        told: the expected answer; empty where there is none.
    """

    asked: bytes
    turns: tuple[tuple[str, str], ...]
    told: str = ""

    def exact(self) -> bytes:
        """Hash of the input as it stands."""
        return _hash(json.dumps(self.turns, ensure_ascii=True))

    def system(self) -> bytes:
        """Hash of the system turns without case and white space; empty where there are none."""
        texts = [_normal(text) for role, text in self.turns if role == "system"]
        return _hash("\0".join(texts)) if texts else b""

    def answer(self) -> bytes:
        """Hash of the answer without case and white space; empty where there is none."""
        return _hash(_normal(self.told)) if self.told else b""


def keys_on_the_way(row: Any) -> list[Keys]:
    """The keys of a row, the whole row's first; none when it holds nothing to compare.

    The input of a conversation are its turns up to the answer at its end, and what was asked before
    each earlier answer; of other rows the prompt, instruction or question. A row of another form is
    compared whole, but for fields that name it.
    """
    turns, answer = _asked_and_answer(row)
    if turns is None:
        return []
    answers = [index for index, turn in enumerate(turns) if turn[0] == "assistant"]
    found = [_keys(turns[:index], turns[index][1]) for index in answers[-_MAX_ANSWERS:] if index]
    return [keys for keys in (_keys(turns, answer), *found) if keys is not None]


def _keys(turns: list[tuple[str, str]], answer: str) -> Keys | None:
    asked = [(role, _normal(text)) for role, text in turns if role != "system"]
    if not any(text.strip('"') for _, text in asked):
        return None
    key = _hash("\0".join(f"{role}\1{text}" for role, text in asked))
    return Keys(key, tuple(turns), answer)


def _asked_and_answer(row: Any) -> tuple[list[tuple[str, str]] | None, str]:
    if isinstance(row, str):
        return [("user", row)], ""
    if not isinstance(row, dict):
        return None, ""
    answer = next((_text(row[name]) for name in _ANSWERS if row.get(name) is not None), "")
    turns = _turns(row.get("messages")) or _turns(row.get("conversations"))
    if turns is None and isinstance(row.get("prompt"), list):
        turns = _turns(row["prompt"])
    if turns:
        while len(turns) > 1 and turns[-1][0] == "assistant":
            answer = answer or turns[-1][1]
            turns = turns[:-1]
        return turns, answer
    for names in _QUESTIONS:
        texts = [_text(row[name]) for name in names if row.get(name) not in (None, "")]
        if texts and row.get(names[0]) not in (None, ""):
            return [("user", "\n".join(texts))], answer
    if isinstance(row.get("text"), str):
        return [("user", row["text"])], answer
    rest = {str(key): value for key, value in row.items() if str(key).lower() not in _NAMES}
    return ([("row", _text(rest))] if rest else None), answer


def _turns(value: Any) -> list[tuple[str, str]] | None:
    if not isinstance(value, list) or not value:
        return None
    turns = []
    for turn in value:
        if not isinstance(turn, dict):
            return None
        role = str(turn.get("role", turn.get("from", "")))
        role = {"human": "user", "gpt": "assistant"}.get(role, role)
        turns.append((role, _text(turn.get("content", turn.get("value")))))
    return turns


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in value
    ):
        return "\n".join(part["text"] for part in value)  # a turn in parts
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _normal(text: str) -> str:
    if text.isascii():  # the same, five times faster
        return " ".join(text.lower().split())
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_SIZE).digest()
