"""What every gate is made of: its record, its policy and the trips it makes."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar, Iterable, Optional

from seatrial.core.event import Event
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import STOP, WARN, Sample, Trip


@dataclass(frozen=True)
class GateInfo:
    """What `seatrial rules CODE` prints about a gate, beside the docstring of its class.

    ``stops_ad_hoc`` says whether it stops a run that has no trial file; ``bound`` marks gates that
    enforce a bound and cannot be switched off.
    """

    code: str
    family: str
    title: str
    stops_ad_hoc: bool = False
    bound: bool = False


class Gate:
    """A state machine that is fed events and samples and answers with trips.

    It has no clock: ``Event.mono`` and ``Sample.mono`` are the only times.
    """

    info: ClassVar[GateInfo]

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        self.settings = settings
        self.started_mono = started_mono

    def feed(self, event: Event) -> Iterable[Trip]:  # noqa: ARG002 - gates override what they need
        """Take one event; the trips that follow from it."""
        return ()

    def tick(self, mono: float, sample: Sample) -> Iterable[Trip]:  # noqa: ARG002 - as above
        """Take the time and the process tree as they are now."""
        return ()

    @classmethod
    def explanation(cls) -> str:
        """What it watches, why, and what it cannot see."""
        return inspect.cleandoc(cls.__doc__ or "")

    def trip(
        self,
        message: str,
        *,
        action: Optional[str] = None,
        metric: str = "",
        observed: Any = None,
        expected: Any = None,
        step: Optional[int] = None,
        rank: Optional[int] = None,
        remedy: str = "",
    ) -> Trip:
        """A trip of this gate; the action follows the policy unless the gate asks for less.

        ``action="warn"`` stays below the policy; the policy itself is never exceeded. The rest is
        as in ``Trip``.
        """
        allowed = STOP if self.info.stops_ad_hoc or not self.settings.ad_hoc else WARN
        return Trip(
            gate=self.info.code,
            action=WARN if WARN in (action, allowed) else STOP,
            family=self.info.family,
            message=message,
            metric=metric,
            observed=observed,
            expected=expected,
            step=step,
            rank=rank,
            remedy=remedy,
        )
