"""Durations, sizes and money: strings with units, as ``trial.toml`` and the flags carry them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", re.ASCII)
_MONEY = re.compile(r"(\d+(?:\.\d{1,6})?)\s+([A-Z]{3})", re.ASCII)


@dataclass(frozen=True)
class Money:
    """An amount in one currency; ``Money(Decimal(0), "USD")`` is nothing."""

    amount: Decimal
    currency: str = "USD"

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"


def parse_duration(text: str) -> float:
    """Seconds of a duration such as ``90s``, ``10m`` or ``1h30m``.

    Raises:
        ValueError: no unit, an unknown unit, or not above zero.
    """
    compact = text.strip()
    parts = _DURATION_PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError(f"{text!r} is not a duration; write one like 90s, 10m or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if not 0 < seconds < 10**9:
        raise ValueError(f"{text!r} must be above zero and below 30 years")
    return seconds


def parse_size(text: str) -> int:
    """Bytes of a size such as ``4GiB`` or ``500MB``.

    Raises:
        ValueError: no unit, an unknown unit, or below one byte.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or match.group(2) not in _BYTES:
        raise ValueError(f"{text!r} is not a size; write one like 4GiB or 500MB")
    size = int(float(match.group(1)) * _BYTES[match.group(2)])
    if size < 1:
        raise ValueError(f"{text!r} must be above zero")
    return size


def parse_money(text: str) -> Money:
    """Money such as ``2.00 USD``.

    Raises:
        ValueError: not an amount followed by a three-letter currency.
    """
    match = _MONEY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not money; write it like 2.00 USD")
    try:
        return Money(Decimal(match.group(1)), match.group(2))
    except InvalidOperation as error:  # pragma: no cover - the pattern admits only numbers
        raise ValueError(f"{text!r} is not money") from error


def format_duration(seconds: float) -> str:
    """A duration for people: ``4.2s``, ``2m05s``, ``1h02m``."""
    if 0 < seconds < 0.05:
        return f"{seconds:.1g}s" if seconds >= 0.0001 else "under 0.0001s"
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds < 10 or seconds % 1 else f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if minutes else f"{hours}h"


def format_size(size: float) -> str:
    """A size for people, in binary units: ``512 MiB``, ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if size == int(size) else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
