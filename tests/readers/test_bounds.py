"""Bounds: flag before trial before default, each with its source; nothing unreadable passes."""

from __future__ import annotations

import pytest

from seatrial.core.errors import UsageError
from seatrial.readers.bounds import BoundFlags, DeclaredBounds, bounds_for

GIB = 2**30


def test_an_ad_hoc_run_has_the_contracts_defaults() -> None:
    bounds = bounds_for(BoundFlags(), machine_memory_bytes=10 * GIB)
    assert (bounds.max_steps, bounds.wall_s, bounds.memory_bytes) == (200, 900.0, 8 * GIB)
    assert str(bounds.money) == "0 USD"
    assert set(bounds.sources.values()) == {"default"}
    assert bounds.is_default("wall_s")


def test_flags_are_read_with_units() -> None:
    flags = BoundFlags(max_steps="7", wall="1h30m", memory="500MB", money="1.5 EUR")
    bounds = bounds_for(flags, DeclaredBounds(1, 2.0, 3), machine_memory_bytes=0)
    assert (bounds.max_steps, bounds.wall_s, bounds.memory_bytes) == (7, 5400.0, 500_000_000)
    assert str(bounds.money) == "1.5 EUR"
    assert set(bounds.sources.values()) == {"flag"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (BoundFlags(max_steps="-1"), "--max-steps: '-1' is no step cap"),
        (BoundFlags(max_steps="0"), "is no step cap"),
        (BoundFlags(max_steps="1e3"), "is no step cap"),
        (BoundFlags(max_steps="9" * 40), "is no step cap"),
        (BoundFlags(max_steps="٣"), "is no step cap"),
        (BoundFlags(max_steps=""), "is no step cap"),
        (BoundFlags(wall="10"), "--wall: '10' is not a duration"),
        (BoundFlags(wall="-5m"), "is not a duration"),
        (BoundFlags(wall="0s"), "must be above zero"),
        (BoundFlags(memory="4"), "--memory: '4' is not a size"),
        (BoundFlags(memory="0GiB"), "must be above zero"),
        (BoundFlags(money="2"), "--money: '2' is not money"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_flag_that_cannot_be_read_is_named(flags: BoundFlags, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        bounds_for(flags, machine_memory_bytes=GIB)
    assert caught.value.exit_code == 2


def test_without_known_memory_a_bound_is_asked_for() -> None:
    with pytest.raises(UsageError, match="memory of this machine cannot be told"):
        bounds_for(BoundFlags(), machine_memory_bytes=0)
    assert bounds_for(BoundFlags(memory="1GiB"), machine_memory_bytes=0).memory_bytes == GIB


def test_a_trial_without_bounds_is_refused() -> None:
    with pytest.raises(UsageError, match=r"t.toml: \[bounds\] lacks wall"):
        bounds_for(BoundFlags(), DeclaredBounds(5), trial_file="t.toml", machine_memory_bytes=GIB)
