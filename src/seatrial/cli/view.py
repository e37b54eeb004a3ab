"""The terminal as a view of a record: what the run prints, and what seatrial says about it."""

from __future__ import annotations

import sys
from typing import Any

from seatrial.cli.output import say
from seatrial.core import strict_json

_PREFIX = "seatrial: "


class TerminalView:
    """Prints the run's lines and seatrial's own remarks.

    Args:
        output_to_stderr: with ``--json`` the run's output moves to stderr, so that stdout carries
            the one object and nothing else.
    """

    def __init__(self, *, output_to_stderr: bool) -> None:
        self._out = sys.stderr if output_to_stderr else sys.stdout

    def output(self, stream: str, text: str) -> None:
        """A piece of the run's own output; ``stream`` is stdout or stderr."""
        target = sys.stderr if stream == "stderr" else self._out
        try:
            target.write(text)
            target.flush()
        except UnicodeEncodeError:
            target.write(text.encode("ascii", "backslashreplace").decode("ascii"))
        except (OSError, ValueError):
            # The reader left. The run goes on: the terminal is only a view.
            pass

    def remark(self, text: str) -> None:
        """Something seatrial says about the run."""
        say(_PREFIX + text)


class JsonLinesView:
    """``watch --json``: one JSON object a line."""

    def _line(self, value: dict[str, Any]) -> None:
        sys.stdout.write(strict_json.dumps(value) + "\n")
        sys.stdout.flush()

    def output(self, stream: str, text: str) -> None:
        """A piece of the run's own output."""
        self._line({"schema": "seatrial.watch/1", "kind": "output", "stream": stream, "text": text})

    def remark(self, text: str) -> None:
        """Something seatrial says about the run."""
        self._line({"schema": "seatrial.watch/1", "kind": "remark", "text": text})

    def result(self, value: dict[str, Any]) -> None:
        """The end: the ``seatrial.run/1`` object."""
        self._line({"schema": "seatrial.watch/1", "kind": "result", "result": value})
