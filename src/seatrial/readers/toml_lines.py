"""At which line of a TOML text a key stands: for messages, so roughly is enough."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Union

Path = tuple[Union[str, int], ...]

_TABLE = re.compile(r"\s*(\[\[?)\s*([^\]\n]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
_LONG_TEXT = re.compile(r'"""|' + "'''")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _places(text: str) -> Iterator[tuple[Path, int]]:
    table: Path = ()
    counts: dict[Path, int] = {}
    in_long_text = False
    for number, line in enumerate(text.splitlines(), start=1):
        quotes = len(_LONG_TEXT.findall(line))
        if in_long_text:
            in_long_text = quotes % 2 == 0
            continue
        header = _TABLE.match(line)
        if header is not None:
            table = _with_indexes(_parts(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield table, number
        else:
            key = _KEY.match(line)
            if key is not None:
                yield (*table, *_parts(key[1])), number
        in_long_text = quotes % 2 == 1


def _with_indexes(names: Sequence[str], counts: dict[Path, int]) -> Path:
    """``heldout.gate`` below ``[[x]]`` belongs to the last entry of ``x``."""
    path: Path = ()
    for index, name in enumerate(names):
        path = (*path, name)
        if index < len(names) - 1 and path in counts:
            path = (*path, counts[path])
    return path


def line_of(text: str, path: Path) -> int | None:
    """The line of a key, or of the nearest table around it; None when neither is found."""
    lines: dict[Path, int] = {}
    for place, number in _places(text):
        lines.setdefault(place, number)
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def key_at(text: str, number: int) -> str | None:
    """The key or table that line ``number`` (from 1) sets."""
    lines = text.splitlines()
    if not 1 <= number <= len(lines):
        return None
    line = lines[number - 1]
    header, key = _TABLE.match(line), _KEY.match(line)
    if header is not None:
        return f"[{header[2]}]"
    return key[1] if key is not None else None
