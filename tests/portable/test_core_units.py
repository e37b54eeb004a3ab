"""Durations, sizes and money: strings with units, and clear refusals."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Callable

from seatrial.core.units import (
    Money,
    format_duration,
    format_size,
    parse_duration,
    parse_money,
    parse_size,
)


def refused(parse: Callable[[str], Any], text: str) -> None:
    try:
        value = parse(text)
    except ValueError as error:
        assert repr(text) in str(error), str(error)
    else:
        raise AssertionError(f"{text!r} was read as {value!r}")


def test_durations() -> None:
    table = {"90s": 90, "10m": 600, "1h30m": 5400, "1.5h": 5400, " 2d ": 172800, "1m30s": 90}
    for text, seconds in table.items():
        assert parse_duration(text) == seconds, text
    for text in ("", "10", "m", "10x", "-5s", "0s", "5s!", "1h-3m", "s5", "99999999d", "1 h"):
        refused(parse_duration, text)


def test_sizes() -> None:
    table = {
        "4GiB": 2**32,
        "500MB": 5 * 10**8,
        "1 KiB": 1024,
        "7B": 7,
        "1.5kB": 1500,
        "1TiB": 2**40,
    }
    for text, size in table.items():
        assert parse_size(text) == size, text
    for text in ("", "4", "GiB", "4gb", "-1GiB", "0B", "0.1B", "4GiBs", "4 G iB"):
        refused(parse_size, text)


def test_money() -> None:
    assert parse_money("2.00 USD") == Money(Decimal("2.00"), "USD")
    assert str(parse_money(" 0.5 EUR ")) == "0.5 EUR"
    for text in ("", "2", "USD", "2 usd", "-1 USD", "2USD", "1.1234567 USD", "2 USDT", "nan USD"):
        refused(parse_money, text)


def test_durations_and_sizes_for_people() -> None:
    durations = {4.24: "4.2s", 59: "59s", 59.5: "59.5s", 60: "1m", 125: "2m05s", 3720: "1h02m"}
    for seconds, text in durations.items():
        assert format_duration(seconds) == text, seconds
    assert format_duration(7200) == "2h"
    assert format_duration(0.04) == "0.04s"
    assert format_duration(0.00001) == "under 0.0001s"
    sizes = {0: "0 B", 512: "512 B", 1536: "1.5 KiB", 2**20: "1 MiB", 3 * 2**30: "3 GiB"}
    for size, text in sizes.items():
        assert format_size(size) == text, size
    assert format_size(2**41) == "2.0 TiB"
