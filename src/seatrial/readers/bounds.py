"""Bounds of a run: from flags, from the trial, or the defaults, each with its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from seatrial.core.errors import UsageError
from seatrial.core.trial import AD_HOC_MAX_STEPS, AD_HOC_MEMORY_SHARE, AD_HOC_WALL_S, Bounds
from seatrial.core.units import Money, parse_duration, parse_money, parse_size
from seatrial.readers.machine import memory_bytes

MAX_STEPS = 10**9
_T = TypeVar("_T")


@dataclass(frozen=True)
class BoundFlags:
    """Bounds as they were typed; None where no flag was given."""

    max_steps: str | None = None
    wall: str | None = None
    memory: str | None = None
    money: str | None = None


@dataclass(frozen=True)
class DeclaredBounds:
    """Bounds as a trial declares them; None where it does not."""

    max_steps: int | None = None
    wall_s: float | None = None
    memory_bytes: int | None = None
    money: Money | None = None


def parse_steps(text: str) -> int:
    """A step cap.

    Raises:
        ValueError: no whole number from 1 to 10**9.
    """
    word = text.strip()
    if not (word.isascii() and word.isdigit()) or not 1 <= int(word[:20]) <= MAX_STEPS:
        raise ValueError(f"{text!r} is no step cap; write a whole number from 1 to {MAX_STEPS}")
    return int(word)


def _flag(name: str, text: str | None, parse: Callable[[str], _T]) -> _T | None:
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", remedy="seatrial run --help") from error


def bounds_for(
    flags: BoundFlags,
    declared: DeclaredBounds | None = None,
    *,
    trial_file: str | None = None,
    machine_memory_bytes: int | None = None,
) -> Bounds:
    """Bounds of a run. A flag goes before the trial, the trial before the default.

    Args:
        flags: as typed.
        declared: bounds of a trial file, None for an ad-hoc run. A trial needs ``max_steps`` and
            ``wall``; memory is then 80% of the machine and money is nothing.
        trial_file: for the message.
        machine_memory_bytes: memory to take the 80% of; asked from the machine when None.

    Raises:
        UsageError: a flag cannot be read, or a trial lacks a bound.
    """
    sources: dict[str, str] = {}

    def pick(name: str, flag: _T | None, own: _T | None, default: _T) -> _T:
        for source, value in (("flag", flag), ("trial", own)):
            if value is not None:
                sources[name] = source
                return value
        sources[name] = "default"
        return default

    own = declared or DeclaredBounds()
    max_steps = _flag("--max-steps", flags.max_steps, parse_steps)
    wall_s = _flag("--wall", flags.wall, parse_duration)
    if declared is not None:
        _refuse_unbounded(
            trial_file or "the trial",
            {"max_steps": max_steps or own.max_steps, "wall": wall_s or own.wall_s},
        )
    machine = memory_bytes() if machine_memory_bytes is None else machine_memory_bytes
    share = int(machine * AD_HOC_MEMORY_SHARE)
    memory = pick(
        "memory_bytes", _flag("--memory", flags.memory, parse_size), own.memory_bytes, share
    )
    if memory < 1:
        raise UsageError(
            "the memory of this machine cannot be told, so there is no default bound",
            remedy="name one: --memory 4GiB",
        )
    return Bounds(
        max_steps=pick("max_steps", max_steps, own.max_steps, AD_HOC_MAX_STEPS),
        wall_s=pick("wall_s", wall_s, own.wall_s, AD_HOC_WALL_S),
        memory_bytes=memory,
        money=pick(
            "money", _flag("--money", flags.money, parse_money), own.money, Money(Decimal(0))
        ),
        sources=sources,
    )


def _refuse_unbounded(file: str, needed: dict[str, float | int | None]) -> None:
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        example = {"max_steps": "max_steps = 200", "wall": 'wall = "10m"'}
        raise UsageError(
            f"{file}: [bounds] lacks {' and '.join(missing)}; a trial without bounds is refused",
            remedy="add under [bounds]: " + ", ".join(example[name] for name in missing),
        )
