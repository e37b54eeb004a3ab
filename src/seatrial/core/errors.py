"""The errors that reach a user, each owning its exit code.

A message has three parts: what happened with the actual value, where, and the next command to
type. Findings and verdicts are values, not errors.
"""

from __future__ import annotations

from typing import Any, Tuple


class SeatrialError(Exception):
    """Something a user can act on. Printed without a traceback.

    Args:
        message: what happened, with the actual value and the place.
        remedy: the next command to type, or what to change; empty when there is none.
    """

    exit_code = 4

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(SeatrialError):
    """Refused before anything ran: usage or configuration (exit 2)."""

    exit_code = 2


class CouldNotJudgeError(SeatrialError):
    """The question has no answer from what is there (exit 3)."""

    exit_code = 3


class RefusedLaunchError(SeatrialError):
    """Nothing was launched, because of what was found before.

    Args:
        message: the reason, in one sentence.
        exit_code: 1 when the setup is disproved, 3 when it cannot be judged.
        checks: the reports (``core.check_report.CheckReport``) that say why.
        remedy: the next command to type.
    """

    def __init__(
        self, message: str, exit_code: int, checks: Tuple[Any, ...] = (), remedy: str = ""
    ) -> None:
        super().__init__(message, remedy)
        self.exit_code = exit_code
        self.checks = checks


class BrokenRecordError(CouldNotJudgeError):
    """A record, an event file or the ledger cannot be read as what it should be (exit 3)."""


class InternalError(SeatrialError):
    """A fault of ours (exit 4)."""

    exit_code = 4
