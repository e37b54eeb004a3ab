"""A command line as it can be typed again, whatever its words are made of."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from seatrial.evidence.plain_text import block, is_hidden

_COMMAND_LIMIT = 8_000
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


def command_line(command: Sequence[str]) -> str:
    """The words joined for a shell, on one line; hidden characters become ``$'...'`` escapes."""
    return block(" ".join(_quoted(word) for word in command), _COMMAND_LIMIT)


def _quoted(word: str) -> str:
    if not any(is_hidden(char) for char in word):
        return shlex.quote(word)
    return "$'" + "".join(_escaped(char) for char in word) + "'"


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if not is_hidden(char):
        return char
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no text, as Python carries it
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
