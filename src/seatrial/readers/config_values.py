"""Settings of a configuration file that a script names: JSON, TOML, or YAML."""

from __future__ import annotations

import re
from typing import Any

from seatrial.core.errors import SeatrialError
from seatrial.core.limited_json import parse_limited
from seatrial.readers.json_file import read_bytes_limited

MAX_BYTES = 2**20
MAX_SETTINGS = 2000
SUFFIXES = (".json", ".toml", ".yaml", ".yml")
_YAML_LINE = re.compile(r"^[ \t]*([A-Za-z_][\w.-]*)[ \t]*:[ \t]+(\S[^\n]*?)[ \t]*$", re.MULTILINE)


def read_config(path: str) -> dict[str, Any]:
    """The scalar settings of a file by the last part of their key; the first of a name counts.

    A file that cannot be read as what its name says has none.
    """
    try:
        data = read_bytes_limited(path, MAX_BYTES)
    except (OSError, SeatrialError):
        return {}
    try:
        table = _parsed(path, data)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    _collect(table, found)
    return found


def _parsed(path: str, data: bytes) -> Any:
    if path.endswith(".json"):
        return parse_limited(data)
    text = data.decode("utf-8-sig")
    if path.endswith(".toml"):
        import tomllib

        return tomllib.loads(text)
    try:
        import yaml  # type: ignore[import-untyped]  # there or not; text is read where it is not
    except ImportError:
        return {key: _scalar(value) for key, value in _YAML_LINE.findall(text)}
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _scalar(text: str) -> Any:
    """A value of YAML read as text: quotes off, numbers as numbers."""
    word = text.partition(" #")[0].strip()
    if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"":
        return word[1:-1]
    if word in ("true", "false"):
        return word == "true"
    return number_or_text(word)


def number_or_text(word: str) -> int | float | str:
    """A word as the number that it spells, else itself."""
    if re.fullmatch(r"[+-]?\d{1,18}", word):
        return int(word)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", word):
        return float(word)
    return word


def _collect(table: Any, found: dict[str, Any]) -> None:
    """Level by level, and never more than so many parts: YAML can name one part many times."""
    level = [table]
    seen = 0
    while level and seen < MAX_SETTINGS:
        below: list[Any] = []
        for value in level[:MAX_SETTINGS]:
            seen += 1
            if isinstance(value, dict):
                for key, item in value.items():
                    if isinstance(item, (str, int, float, bool)):
                        found.setdefault(str(key), item)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value[:100])
        level = [item for item in below[:MAX_SETTINGS] if isinstance(item, (dict, list))]
