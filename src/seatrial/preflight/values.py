"""What reading a script can say about a value: it is this, it is not there, or it is unknown.

A value that only running the script would give is ``UNKNOWN``, and no rule may take it for
anything else.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

FOUND = "found"
MISSING = "not_found"
UNSURE = "unknown"


class Unknown(enum.Enum):
    """The one value of expressions that only a run can compute."""

    UNKNOWN = "unknown"

    def __bool__(self) -> bool:
        """Asking whether it is true is a fault of ours."""
        raise TypeError("an unknown value is neither true nor false")


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True)
class Value:
    """A value in a script: found (with the value), not found, or unknown.

    Attributes:
        state: ``found``, ``not_found`` or ``unknown``.
        value: the Python value (number, text, bool, None, list, tuple, dict, path); None unless
            found.
        line: where it is written, when that is known.
    """

    state: str
    value: Any = None
    line: int | None = None

    @property
    def found(self) -> bool:
        """Whether the value is known."""
        return self.state == FOUND

    @property
    def absent(self) -> bool:
        """Whether nothing gives it."""
        return self.state == MISSING

    @property
    def unknown(self) -> bool:
        """Whether something may give it, and only a run says what."""
        return self.state == UNSURE

    def is_(self, *values: Any) -> bool:
        """Whether it is known and one of these, compared without mixing up 1 and True."""
        return self.found and any(
            self.value == wanted and isinstance(self.value, bool) == isinstance(wanted, bool)
            for wanted in values
        )

    @property
    def number(self) -> float | None:
        """A known number that is no bool; else None. Text that is a number counts (``"100"``)."""
        if not self.found or isinstance(self.value, bool):
            return None
        if isinstance(self.value, (int, float)):
            return self.value
        if isinstance(self.value, str):
            try:
                return float(self.value)
            except ValueError:
                return None
        return None

    @property
    def text(self) -> str | None:
        """A known text or path, or the text of an enumeration's member; else None."""
        if self.found and isinstance(self.value, (str, PurePath)):
            return str(self.value)
        return None


def value_of(found: Any, line: int | None = None) -> Value:
    """Wrap what the evaluator gave."""
    if found is UNKNOWN:
        return Value(UNSURE, line=line)
    return Value(FOUND, found, line)


NOWHERE = Value(MISSING)
