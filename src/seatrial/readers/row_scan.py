"""Rows of a JSON-lines file, counted and parsed while its bytes stream by."""

from __future__ import annotations

import json

# Files up to here are parsed whole. Of larger ones the beginning and the last row are parsed and
# the rest is counted: parsing is ten times slower than hashing, and holds the interpreter's lock.
PARSE_WHOLE_BYTES = 64 * 2**20
PARSE_HEAD_BYTES = 8 * 2**20
# A longer row is hashed and counted, and never held in memory.
MAX_ROW_BYTES = 8 * 2**20
_BOM = b"\xef\xbb\xbf"


class RowError(ValueError):
    """A row that is no JSON; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class RowScan:
    """Fed with the bytes of one file, in order.

    Attributes:
        rows: rows so far: lines that are not blank, or every line in what is only counted.
        unparsed: rows that were only counted.
        long_lines: numbers of the first lines that are longer than ``MAX_ROW_BYTES``.
    """

    def __init__(self, size: int) -> None:
        self._budget = size if size <= PARSE_WHOLE_BYTES else PARSE_HEAD_BYTES
        self._whole = size <= PARSE_WHOLE_BYTES
        self._line = bytearray()
        self._number = 1
        self._too_long = False
        self._open = False  # whether the last byte seen was within a line
        self.rows = 0
        self.unparsed = 0
        self.long_lines: list[int] = []

    def feed(self, buffer: bytearray, size: int) -> None:
        """The next ``size`` bytes, at the beginning of ``buffer``.

        Raises:
            RowError: a row is no JSON.
        """
        if not self._whole and self._budget <= 0:
            self._count(buffer, size)
            return
        self._budget -= size
        start = 0
        while start < size:
            end = buffer.find(b"\n", start, size)
            stop = size if end < 0 else end
            self._extend(buffer, start, stop)
            if end >= 0:
                self._close()
            start = stop + 1
        self._open = bool(size) and buffer[size - 1] != 10

    def _extend(self, buffer: bytearray, start: int, stop: int) -> None:
        if self._too_long:
            return
        if len(self._line) + stop - start > MAX_ROW_BYTES:
            self._too_long = True
            self._line.clear()
            if len(self.long_lines) < 10:
                self.long_lines.append(self._number)
            return
        self._line += buffer[start:stop]

    def _close(self) -> None:
        """The line that was collected is complete."""
        if self._too_long:
            self.rows += 1
            self.unparsed += 1
        elif check_row(bytes(self._line), self._number):
            self.rows += 1
        self._line.clear()
        self._too_long = False
        self._number += 1

    def _count(self, buffer: bytearray, size: int) -> None:
        lines = buffer.count(b"\n", 0, size)
        self.rows += lines
        self.unparsed += lines
        self._number += lines
        self._line.clear()
        self._open = bool(size) and buffer[size - 1] != 10

    def finish(self) -> None:
        """The file has ended, perhaps within a line.

        Raises:
            RowError: the last row is no JSON.
        """
        if self._whole:
            if self._line or self._too_long:
                self._close()
        elif self._open:
            self.rows += 1
            self.unparsed += 1

    @property
    def line(self) -> int:
        """Number of the line that comes next, or is open."""
        return self._number

    def check_tail(self, tail: bytes) -> None:
        """Parse the last row of a file that was only counted towards its end.

        Args:
            tail: the last bytes of the file.

        Raises:
            RowError: that row is no JSON.
        """
        before, _, last = tail.rstrip(b"\r\n\t ").rpartition(b"\n")
        if not self._whole and before:
            check_row(last, self._number - (0 if self._open else 1))


def check_row(line: bytes, number: int) -> bool:
    """Whether a line holds a row; blank ones do not.

    Raises:
        RowError: it is no JSON in UTF-8.
    """
    if number == 1 and line.startswith(_BOM):
        line = line[len(_BOM) :]
    if not line.strip():
        return False
    parse_row(line, number)
    return True


def parse_row(line: bytes, number: int) -> object:
    """The value of one row.

    Raises:
        RowError: it is no JSON in UTF-8, or nested too deeply.
    """
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise RowError(number, f"byte {line[error.start]:#04x} is not UTF-8") from None
    try:
        return json.loads(text)
    except RecursionError:
        raise RowError(number, "it is nested too deeply") from None
    except ValueError as error:
        raise RowError(number, f"it is no JSON ({error})") from None
