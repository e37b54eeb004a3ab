"""Axes: from the values that must be seen to a scale with ticks that people read easily."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass

_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
_FLAT = 1e-12  # a range this much narrower than its values is rounding, not shape
_TINY, _HUGE = 1e-290, 1e290
LOG_RATIO = 1_000.0
_LABEL_CHARS = 9


@dataclass(frozen=True)
class Scale:
    """One axis. ``ticks`` pairs values with their labels, rising.

    ``base`` is set when the values differ only in digits that no label has room for: the labels
    then count from it.
    """

    lo: float
    hi: float
    ticks: tuple[tuple[float, str], ...]
    is_log: bool = False
    base: str = ""

    def place(self, value: float) -> float:
        """Where a finite value stands: 0 at the low end, 1 at the high end, cut off beyond."""
        if self.is_log:
            if value <= 0:
                return 0.0
            low, high, at = math.log10(self.lo), math.log10(self.hi), math.log10(value)
        else:  # halved, so that a range as wide as all floats has a finite width
            low, high, at = self.lo / 2, self.hi / 2, value / 2
        return min(1.0, max(0.0, (at - low) / (high - low)))

    def holds(self, value: float) -> bool:
        """Whether the value lies inside the axis."""
        return self.lo <= value <= self.hi


def tidy(value: float, digits: int = 6) -> str:
    """A tick's number, short: ``1,000``, ``0.25``, ``1e-5``."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        text = f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"
        return "0" if text in ("-0", "") else text
    mantissa, exponent = f"{value:.{min(digits, 5)}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(exponent)}"


def needs_log(values: Iterable[float]) -> bool:
    """Whether finite values span so much that a linear axis would flatten most of them.

    Zeros are allowed (they stand at the bottom edge); a negative value rules a log axis out.
    """
    low, high = math.inf, 0.0
    for value in values:
        if value < 0:
            return False
        if value > 0:
            low, high = min(low, value), max(high, value)
    return low < math.inf and high / LOG_RATIO >= low


def linear(
    lo: float, hi: float, *, count: int = 5, whole: bool = False, snap: bool = True
) -> Scale:
    """A linear axis over ``lo .. hi``.

    Args:
        lo: lowest value that must be seen.
        hi: highest value that must be seen.
        count: about how many ticks.
        whole: ticks at whole numbers only (steps).
        snap: widen the axis to its outer ticks.
    """
    lo, hi = _widened(lo, hi, 1.0 if whole else 0.0)
    half_span = hi / 2 - lo / 2
    if half_span > _HUGE:
        inner = [(0.0, "0")] if lo < 0 < hi else []
        return Scale(lo, hi, ((lo, tidy(lo, 2)), *inner, (hi, tidy(hi, 2))))
    step = _nice_step(half_span * 2 / count)
    if whole:
        step = max(1.0, float(math.ceil(step)))
    first, last = math.floor(lo / step), math.ceil(hi / step)
    if snap:
        lo, hi = first * step, last * step
    margin = step * 1e-6
    values = [index * step for index in range(first, min(last, first + 4 * count) + 1)]
    inside = [value for value in values if lo - margin <= value <= hi + margin]
    digits = _digits(step, max(abs(lo), abs(hi)))
    labels = [tidy(value, digits) for value in inside]
    if len(set(labels)) < len(labels) or max(map(len, labels), default=0) > _LABEL_CHARS:
        base = inside[0]
        counted = tuple(
            (value, f"+{tidy(value - base, _digits(step, hi - base))}") for value in inside
        )
        return Scale(lo, hi, counted, base=f"{base:,.12g}")
    return Scale(lo, hi, tuple(zip(inside, labels, strict=True)))


def logarithmic(lo: float, hi: float) -> Scale:
    """A log axis over ``lo .. hi``, both above zero, with a little air at both ends."""
    low, high = math.log10(lo), math.log10(hi)
    air = max(0.04 * (high - low), 0.05)
    low, high = max(low - air, -323.0), min(high + air, 308.2)
    every = max(1, math.ceil((high - low) / 6))
    first = math.ceil(low / every) * every
    decades = range(first, math.floor(high) + 1, every)
    ticks = tuple((value, tidy(value)) for value in (float(f"1e{d}") for d in decades) if value > 0)
    return Scale(max(10.0**low, 5e-324), 10.0**high, ticks, is_log=True)


def _widened(lo: float, hi: float, at_least: float) -> tuple[float, float]:
    """A range that has a width, whatever came in."""
    largest = max(abs(lo), abs(hi))
    if hi / 2 - lo / 2 > max(_FLAT * largest, _TINY):
        return lo, hi
    if largest < _TINY * 1e3:
        return (0.0, 1.0) if not at_least else (lo - at_least, hi + at_least)
    air = at_least or largest * 0.1
    air = air if air > _FLAT * largest else largest * 0.1
    return max(lo - air, -sys.float_info.max), min(hi + air, sys.float_info.max)


def _nice_step(raw: float) -> float:
    magnitude = float(f"1e{math.floor(math.log10(raw))}")
    return next((nice * magnitude for nice in _NICE if nice * magnitude >= raw * 0.999), raw)


def _digits(step: float, largest: float) -> int:
    """Digits after the point so that neighbouring ticks have different labels."""
    exponent = math.floor(math.log10(step) + 1e-9)
    extra = 1 if abs(step / float(f"1e{exponent}") - 2.5) < 1e-6 else 0
    if 1e-3 <= largest < 1e5:
        return min(12, max(0, extra - exponent))
    return min(5, max(1, math.floor(math.log10(largest)) - exponent + extra))
