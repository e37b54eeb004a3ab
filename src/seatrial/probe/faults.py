"""Faults of the probe's own: noted as ``probe.error``, never raised into the run."""

from __future__ import annotations

from typing import Any, Callable, Dict, Set

_REPORTED = 5
_DISABLED_AFTER = 3

Report = Callable[[str, str, int], None]


class Faults:
    """Counts the probe's own failures by place and takes a failing hook out of use.

    Args:
        report: called with place, error text and count, for the first five of each place.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._counts: Dict[str, int] = {}
        self._disabled: Set[str] = set()

    def note(self, where: str, error: Exception) -> None:
        """Count one failure and report it."""
        count = self._counts[where] = self._counts.get(where, 0) + 1
        if count >= _DISABLED_AFTER:
            self._disabled.add(where)
        if count > _REPORTED:
            return
        try:
            self._report(where, f"{type(error).__name__}: {error}", count)
        except Exception:  # noqa: BLE001, S110 - a report that fails has nowhere left to go
            pass

    def guard(
        self, where: str, function: Callable[..., Any], default: Any = None
    ) -> Callable[..., Any]:
        """The function made harmless: a failure gives ``default``; three failures switch it off."""
        disabled = self._disabled

        def guarded(*args: Any, **kwargs: Any) -> Any:
            if where in disabled:
                return default
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - this is the border between probe and run
                self.note(where, error)
                return default

        return guarded
