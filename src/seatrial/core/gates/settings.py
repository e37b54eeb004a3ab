"""What the gates are told before a run: one value, as JSON inside the plan.

Defaults of every number, and where each gate acts, in one table:

====================  ===========  =======  ==============================================
gate                  ad-hoc       trial    trips when
====================  ===========  =======  ==============================================
first_step            warn         stop     no step in min(30 min, 2/3 of the wall)
loader_exhausted      warn         stop     the data ended before the planned steps
non_finite_loss       stop         stop     a step consumed it; with a finite gradient the first
                                            two are warnings, the third in a row stops
non_finite_gradient   stop         stop     a step consumed it
divergence            warn         stop     20 steps above twice the start and not falling; median
                                            of 30 steps 5 times the first loss; 3 steps 100 times
                                            the start; or 30 steps with 90% of what was learnt lost
constant_loss         warn         stop     first 25 steps with lr > 0 all alike (2e-7 relative)
vanished_gradient     warn         stop     5 steps in a row with gradient 0, loss not 0, lr > 0
stall                 warn         stop     idle for max(10 median steps, 60 s) after 3 steps
throughput            off          off      median of 20 steps below the floor
no_checkpoint         off          off      no good save by the step
bad_checkpoint        warn         stop     a save ended in an error
device_memory         off          off      a step used more than the bound
project               -            stop     the mean of the window does not hold
wall, memory, money   stop         stop     the bound is reached
step_cap              stop         stop     a step beyond the cap; reaching it is normal
====================  ===========  =======  ==============================================
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Mapping, Optional, Tuple

from seatrial.core.trial import GateSpec, Trial

FIRST_STEP_MAX_S = 1800.0
FIRST_STEP_SHARE_OF_WALL = 2.0 / 3.0

_DECIMALS = ("money", "price_per_hour")


@dataclass(frozen=True)
class GateSettings:
    """Every number that a gate goes by. None turns a gate off.

    Attributes:
        ad_hoc: no trial file: most gates warn instead of stopping.
        wall_s, max_steps, memory_bytes: the bounds.
        hung_after_s: seconds that a runner may stay after its artefacts are complete (the
            supervisor's own rule, kept here so that it travels in the plan).
        first_step_s: seconds from the start to the first optimizer step.
        loader: whether a loader that ends early is a trip.
        non_finite_loss_steps: non-finite losses in a row that stop although the gradient is finite.
        divergence_factor, divergence_steps: losses above factor x start, for so many steps.
        divergence_far, divergence_far_steps: median of so many steps above factor x first loss.
        divergence_blowup, divergence_blowup_steps: the same, far enough to need no patience.
        divergence_lost_share, divergence_lost_steps: share of what was learnt that is lost again.
        constant_loss_steps, constant_loss_rtol: first steps whose losses are all alike.
        vanished_gradient_steps: steps in a row with a gradient of exactly zero.
        stall_factor, stall_floor_s, stall_after_steps: silence in median steps, and at least.
        stall_busy_cores: CPU use, in cores, that counts as work (an evaluation, a save).
        throughput_window: steps whose median is compared with ``min_steps_per_second``.
        checkpoint_by_step: a good save must have been seen by this step.
        money, price_per_hour, currency: the cap and what an hour costs.
        project: gates of the project's own.
        disabled: codes that the trial switched off; bounds cannot be switched off.
    """

    wall_s: float
    max_steps: int
    memory_bytes: int
    ad_hoc: bool = True
    hung_after_s: float = 30.0
    first_step_s: Optional[float] = 600.0
    loader: bool = True
    non_finite_loss_steps: int = 3
    divergence_factor: float = 2.0
    divergence_steps: int = 20
    divergence_far: float = 5.0
    divergence_far_steps: int = 30
    divergence_blowup: float = 100.0
    divergence_blowup_steps: int = 3
    divergence_lost_share: float = 0.9
    divergence_lost_steps: int = 30
    constant_loss_steps: int = 25
    constant_loss_rtol: float = 2e-7
    vanished_gradient_steps: int = 5
    stall_factor: float = 10.0
    stall_floor_s: float = 60.0
    stall_after_steps: int = 3
    stall_busy_cores: float = 0.1
    device_memory_bytes: Optional[int] = None
    min_steps_per_second: Optional[float] = None
    throughput_window: int = 20
    checkpoint_by_step: Optional[int] = None
    money: Optional[Decimal] = None
    price_per_hour: Decimal = Decimal(0)
    currency: str = "USD"
    project: Tuple[GateSpec, ...] = ()
    disabled: Tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values; money as decimal strings."""
        value = dict(vars(self))
        for name in _DECIMALS:
            value[name] = None if value[name] is None else str(value[name])
        value["project"] = [dict(vars(spec)) for spec in self.project]
        value["disabled"] = list(self.disabled)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GateSettings:
        """Read back; unknown keys are ignored.

        Raises:
            TypeError: a bound is missing.
            decimal.InvalidOperation: an amount of money is no number.
        """
        known = {key: item for key, item in value.items() if key in cls.__dataclass_fields__}
        for name in _DECIMALS:
            if known.get(name) is not None:
                known[name] = Decimal(str(known[name]))
        fields = GateSpec.__dataclass_fields__
        known["project"] = tuple(
            GateSpec(**{key: item for key, item in spec.items() if key in fields})
            for spec in known.get("project", ())
        )
        known["disabled"] = tuple(known.get("disabled", ()))
        return cls(**known)


def settings_for(trial: Trial, price_per_hour: Decimal = Decimal(0)) -> GateSettings:
    """The settings that a trial's bounds and gates ask for.

    Args:
        trial: an ad-hoc trial gets the ad-hoc policy.
        price_per_hour: what the engine charges; 0 turns the money gate off.
    """
    bounds = trial.bounds
    return GateSettings(
        wall_s=bounds.wall_s,
        max_steps=bounds.max_steps,
        memory_bytes=bounds.memory_bytes,
        ad_hoc=trial.ad_hoc,
        first_step_s=min(FIRST_STEP_MAX_S, bounds.wall_s * FIRST_STEP_SHARE_OF_WALL),
        money=bounds.money.amount if price_per_hour > 0 else None,
        price_per_hour=price_per_hour,
        currency=bounds.money.currency,
        project=trial.gates,
        disabled=tuple(name for name in trial.disable if name.startswith("gate.")),
    )
