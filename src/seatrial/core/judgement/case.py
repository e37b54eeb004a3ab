"""Everything a judgement looks at, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Tuple

from seatrial.core.check_report import CheckReport
from seatrial.core.gates.settings import GateSettings
from seatrial.core.launch import Ended, Started
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.trial import Trial
from seatrial.core.trip import Sample, Trip


@dataclass(frozen=True)
class Case:
    """One run as the record shows it. ``trips`` include the trigger of ``ended``.

    ``checks`` are the reports of what was checked beside the run, before and after it.
    """

    plan: Plan
    started: Optional[Started]
    ended: Optional[Ended]
    observation: Observation
    trips: Tuple[Trip, ...]
    resources: Tuple[Sample, ...]
    stderr_tail: str
    settings: GateSettings
    hypothesis: str = ""
    require: Tuple[str, ...] = ()
    disable: Tuple[str, ...] = ()
    has_heldout: bool = False
    checks: Tuple[CheckReport, ...] = ()

    @property
    def steps(self) -> int:
        """Optimizer steps of the lowest rank."""
        return self.observation.steps_done

    @property
    def attached(self) -> bool:
        """Whether the probe was in a training process: a rank wrote events, or torch was seen."""
        report = self.ended.attach_report if self.ended is not None else {}
        return bool(self.observation.ranks) or report.get("attached") is True

    @property
    def watched(self) -> bool:
        """Whether the bootstrap was in a Python process, so that a step would have been seen."""
        report = self.ended.attach_report if self.ended is not None else {}
        return self.attached or bool(report.get("python"))

    @property
    def default_wall(self) -> bool:
        """Whether the wall bound was left to its default in an ad-hoc run."""
        sources = self.plan.sources
        said = sources.get("wall_s", sources.get("wall", "default"))
        return self.plan.ad_hoc and said == "default"

    @property
    def attach_reason(self) -> str:
        """Why the probe did not attach, as the supervisor understood it; empty when unknown."""
        report = self.ended.attach_report if self.ended is not None else {}
        value = report.get("reason")
        return value if isinstance(value, str) else ""

    def tripped(self, code: str) -> bool:
        """Whether the gate tripped, be it as a warning."""
        return any(trip.gate == code for trip in self.trips)


def case_of(
    plan: Plan,
    started: Optional[Started],
    ended: Optional[Ended],
    observation: Observation,
    trips: Tuple[Trip, ...],
    resources: Tuple[Sample, ...],
    stderr_tail: str,
    trial: Optional[Trial],
    checks: Tuple[CheckReport, ...] = (),
) -> Case:
    """Gather a case; what the trial says is taken from the plan when no trial is given."""
    told: Mapping[str, Any] = plan.trial or {}
    table = told.get("checks")  # as in trial.toml; ``require`` itself as in ``core.trial.Trial``
    nested = table.get("require") if isinstance(table, dict) else None
    require = trial.require if trial is not None else _texts(told.get("require") or nested)
    hypothesis = trial.hypothesis if trial is not None else str(told.get("hypothesis") or "")
    return Case(
        plan=plan,
        started=started,
        ended=ended,
        observation=observation,
        trips=_with_trigger(trips, ended),
        resources=resources,
        stderr_tail=stderr_tail,
        settings=_settings(plan),
        hypothesis=hypothesis.strip(),
        require=require,
        disable=trial.disable if trial is not None else _texts(told.get("disable")),
        has_heldout=trial.heldout is not None if trial is not None else bool(told.get("heldout")),
        checks=checks,
    )


def _settings(plan: Plan) -> GateSettings:
    bounds = {
        "wall_s": plan.wall_s,
        "max_steps": plan.max_steps,
        "memory_bytes": plan.memory_bytes,
        "ad_hoc": plan.ad_hoc,
    }
    return GateSettings.from_json({**bounds, **plan.gates})


def _with_trigger(trips: Tuple[Trip, ...], ended: Optional[Ended]) -> Tuple[Trip, ...]:
    """The trips, and the one that ended the run if its event was lost."""
    trigger = ended.trigger if ended is not None else None
    if not trigger or not isinstance(trigger.get("gate"), str):
        return trips
    if any(trip.gate == trigger["gate"] for trip in trips):
        return trips
    try:
        return (*trips, Trip.from_json({"family": "bounds", "message": "", **trigger}))
    except TypeError:  # a trigger without an action says too little to become a trip
        return trips


def _texts(value: Any) -> Tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()
