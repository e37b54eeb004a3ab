"""What an engine is: a place where a command runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout


@dataclass(frozen=True)
class Launch:
    """One thing to start. Command line and environment are real and never touch the disk.

    Attributes:
        key: names the launch for ever; an engine that stores it lets us find the job again.
    """

    key: str
    plan: Plan
    argv: tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)

    @property
    def layout(self) -> RecordLayout:
        """The record of the launch."""
        return RecordLayout(self.plan.record)


@dataclass(frozen=True)
class Handle:
    """What runs: a process here, or a job elsewhere."""

    pid: int | None = None
    start_ticks: int | None = None
    job_id: str | None = None


class StartRefusedError(Exception):
    """The engine said no: it is certain that nothing runs."""


class StartUnknownError(Exception):
    """The answer was lost: it may run or not. It is never started again to find out."""


class Engine(Protocol):
    """A place where a command runs. Adding one is one file, one entry in ``ENGINES``, one test."""

    @property
    def name(self) -> str:
        """The word after ``kind`` in a trial."""

    @property
    def needs_authorization(self) -> bool:
        """Whether it spends money or writes anywhere but into the record."""

    @property
    def claims_itself(self) -> bool:
        """Whether what it starts takes ``launch/claim.json`` (else we take it before starting)."""

    def price_per_hour(self, plan: Plan) -> Decimal:
        """Price of one hour in the currency of the plan's money."""

    def start(self, launch: Launch) -> Handle:
        """Start it, once: no retry of any kind.

        Raises:
            StartRefusedError: it is certain that nothing was started.
            StartUnknownError: it cannot be told whether it was.
        """

    def find(self, key: str, record: str) -> Handle | None:
        """What was started under that key, or None when the engine knows of nothing.

        Raises:
            StartUnknownError: the engine cannot be asked at the moment.
        """
