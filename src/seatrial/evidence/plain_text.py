"""Text from a run, made safe to show: nothing hidden, nothing that steers, nothing endless."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from seatrial.core import strict_json
from seatrial.core.units import format_size

LINE_LIMIT = 400
TEXT_LIMIT = 1_200
BLOCK_LIMIT = 20_000

# Characters that move, hide or reorder what stands around them. Joiners that scripts and emoji
# need (U+200C, U+200D) stay.
_INVISIBLE = frozenset(
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028\u2029"
    "\u2060\u2061\u2062\u2063\u2064\u3164\ufeff\uffa0"
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Cn", "Co"})
_TERMINAL_CODE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_=>78]"
)
_MARKS_IN_A_ROW = 4
_ITEMS = 50


def is_hidden(char: str) -> bool:
    """Whether a character is not seen, or moves what stands around it."""
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return False
    return (
        char in _INVISIBLE
        or unicodedata.category(char) in _HIDDEN_CATEGORIES
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x206F
        or 0xFFF9 <= code <= 0xFFFB
        or 0xE0000 <= code <= 0xE0FFF
    )


def _as_escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _visible(text: str, kept: str) -> str:
    """Hidden characters as escapes; towers of combining marks are cut down."""
    if text.isascii() and text.isprintable():
        return text
    pieces = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if char in kept or not is_hidden(char):
            if marks <= _MARKS_IN_A_ROW:
                pieces.append(char)
        else:
            pieces.append(_as_escape(char))
    return "".join(pieces)


def one_line(value: object, limit: int = LINE_LIMIT) -> str:
    """Any text as one visible line of at most about ``limit`` characters, with a note when cut."""
    text = str(value)
    total = len(text)
    shown = _visible(" ".join(text[: limit + 1].split()), "")
    if total <= limit and len(shown) <= 2 * limit:
        return shown
    return f"{shown[:limit].rstrip()} ... [cut: {total:,} characters in all]"


def block(value: object, limit: int = BLOCK_LIMIT) -> str:
    """Text of several lines, line ends and tabs kept; cut in the middle with a note."""
    text = str(value).replace("\r\n", "\n")
    total = len(text)
    if total > limit:
        half = limit // 2
        note = f"\n... [cut: {total:,} characters in all]\n"
        return _visible(text[:half], "\n\t") + note + _visible(text[-half:], "\n\t")
    return _visible(text, "\n\t")


def output_end(value: str, limit: int = BLOCK_LIMIT) -> str:
    """The end of a program's output as a terminal would leave it standing.

    Colour codes go, and of a line that was overwritten by carriage returns (a progress bar) the
    last state stays. The log file in the record has every byte.
    """
    text = str(value)
    total = len(text)
    text = _TERMINAL_CODE.sub("", text[-4 * limit :]).replace("\r\n", "\n")
    lines = []
    for line in text.split("\n"):
        states = [state for state in line.split("\r") if state.strip()]
        lines.append(states[-1] if states else "")
    text = "\n".join(lines).rstrip()
    if len(text) > limit or total > 4 * limit:
        return f"[cut: the last part of {total:,} characters]\n" + _visible(text[-limit:], "\n\t")
    return _visible(text, "\n\t")


def number(value: float) -> str:
    """A number for people: ``200``, ``1,204``, ``2.3026``, ``5e-05``, ``nan``."""
    if isinstance(value, int) or (math.isfinite(value) and value == int(value)):
        whole = int(value)
        return f"{whole:,}" if abs(whole) < 10**12 else f"{value:.6g}" if _fits(whole) else "huge"
    if not math.isfinite(value):
        return str(strict_json.encode_number(value))
    return f"{value:.5g}"


def _fits(whole: int) -> bool:
    return whole.bit_length() < 1024


def any_value(value: Any, limit: int = LINE_LIMIT) -> str:
    """A JSON value for people: numbers short, texts as they are, the rest as JSON."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, str):
        return one_line(value, limit)
    if isinstance(value, (list, tuple)) and all(_is_scalar(item) for item in value):
        more = f", and {len(value) - _ITEMS:,} more" if len(value) > _ITEMS else ""
        return one_line(", ".join(any_value(item) for item in value[:_ITEMS]), limit) + more
    try:
        return one_line(strict_json.dumps(value), limit)
    except (TypeError, ValueError, RecursionError):
        return one_line(repr(type(value)), limit)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def size(value: Any) -> str:
    """Bytes for people; anything that is no number as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return any_value(value)
    return format_size(value) if abs(value) < 2**60 else f"{number(value)} B"
