"""Requests to stop: files in ``control/`` and SIGTERM."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple, Optional

from seatrial.core.launch import StopRequest
from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.record_files import read_json


class Wish(NamedTuple):
    """What somebody wants: ``at_once`` means without asking and without grace."""

    reason: str
    by: str
    at_once: bool


class Requests:
    """Looks for requests.

    Args:
        layout: of the record.
    """

    def __init__(self, layout: RecordLayout) -> None:
        self._layout = layout
        self._terminated = False

    def listen(self) -> None:
        """Take SIGTERM as a request to stop."""
        signal.signal(signal.SIGTERM, self._on_term)

    def _on_term(self, _number: int, _frame: object) -> None:
        self._terminated = True

    def look(self) -> Optional[Wish]:
        """The strongest request that is there."""
        if os.path.exists(self._layout.kill_request):
            return self._wish(self._layout.kill_request, at_once=True)
        if os.path.exists(self._layout.stop_request):
            return self._wish(self._layout.stop_request, at_once=False)
        if self._terminated:
            return Wish("stop", "SIGTERM to the supervisor", False)
        return None

    @staticmethod
    def _wish(path: str, at_once: bool) -> Wish:
        """The presence of the file is the request; an unreadable one still counts."""
        try:
            request = StopRequest.from_json(read_json(path) or {})
        except TypeError:
            return Wish("stop", "an unreadable request", at_once)
        reason = "interrupt" if request.reason == "interrupt" else "stop"
        return Wish(reason, request.by, at_once or bool(request.force))
