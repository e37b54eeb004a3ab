"""Stops from inside: step cap, wall deadline, and requests through the record."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Callable, Dict, Optional

from seatrial.core.record_layout import RecordLayout
from seatrial.probe.settings import Settings

STEP_CAP = "step_cap"
WALL = "wall"
STOP_REQUEST = "stop_request"
_RAISES_ALLOWED = 3


class StopTraining(SystemExit):
    """Ends a plain training loop with exit code 0.

    A ``SystemExit``, so that ``except Exception`` in the script does not swallow it and ``finally``
    blocks run.
    """


class StopControl:
    """Decides after each round whether the run is to end.

    Ranks that step together must stop together, or the others wait for ever in a collective. The
    step cap is the same for all. A wall deadline or a request is seen by each rank at another
    moment: the first one that sees it writes down which round is the last, the next one at the
    earliest, and as no rank can finish that round before all have entered it, every rank reads the
    note in time.
    """

    def __init__(self, settings: Settings, is_alone: Callable[[], bool]) -> None:
        layout = RecordLayout(settings.record)
        self._max_steps = settings.max_steps
        self._deadline = settings.deadline
        self._is_alone = is_alone
        self._request = layout.stop_request
        self._shared = os.path.join(layout.run, "ranks_stop.json")
        self._asked: Optional[Dict[str, Any]] = None
        self.reason: Optional[str] = None
        self.raised = 0

    def due(self, step: int) -> Optional[str]:
        """Why the run must end after ``step``, or None. The first reason stays."""
        if self.reason is None:
            self.reason = self._due(step)
        return self.reason

    def _due(self, step: int) -> Optional[str]:
        if self._max_steps is not None and step >= self._max_steps:
            return STEP_CAP
        if self._asked is None and os.path.exists(self._request):
            self._asked = _read(self._request)
        late = self._deadline is not None and time.monotonic() >= self._deadline
        if self._is_alone():
            if self._asked is not None and step >= _at_step(self._asked):
                return STOP_REQUEST
            return WALL if late else None
        if self._asked is not None:
            last = max(step + 1, _at_step(self._asked))
            _write_once(self._shared, {"at_step": last, "reason": STOP_REQUEST})
        elif late:
            _write_once(self._shared, {"at_step": step + 1, "reason": WALL})
        if not os.path.exists(self._shared):
            return None
        note = _read(self._shared)
        return str(note.get("reason", WALL)) if step >= _at_step(note) else None

    def may_raise_again(self) -> bool:
        """Count one more attempt to end the loop; False when it was swallowed too often."""
        self.raised += 1
        return self.raised <= _RAISES_ALLOWED


def _at_step(request: Dict[str, Any]) -> int:
    value = request.get("at_step", 0)
    return value if isinstance(value, int) else 0


def _read(path: str) -> Dict[str, Any]:
    """A request's fields; a file that cannot be read is still a request, for now."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write_once(path: str, value: Dict[str, Any]) -> None:
    """Publish a file whole; the first writer wins."""
    if os.path.exists(path):
        return
    fresh = f"{path}.{os.getpid()}"
    try:
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(value, file)
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        os.unlink(fresh)
    except OSError:
        return
