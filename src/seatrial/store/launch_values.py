"""What the ledger is asked and what it answers about launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.core.authorization import SpendRequest
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.units import Money, parse_money

INTENDED = "intended"
CLAIMED = "claimed"
STARTED = "started"
ENDED = "ended"
ABANDONED = "abandoned"
LIVE = (INTENDED, CLAIMED, STARTED)


@dataclass(frozen=True)
class Leg:
    """One execution of the user's code, with its price, listed before authorization."""

    name: str
    wall_s: float
    price_per_hour: str = "0"


@dataclass(frozen=True)
class LaunchRequest:
    """The wish to start something exactly once.

    Attributes:
        key: names the launch for ever; a second intent with it is refused.
        trial_file: absolute real path of the trial file, None for an ad-hoc run.
        needs_authorization: whether the engine spends or uploads.
    """

    key: str
    run_id: str
    record: str
    name: str
    engine: str
    plan_sha256: str
    money: Money
    legs: tuple[Leg, ...]
    trial_file: str | None = None
    upload: str | None = None
    needs_authorization: bool = False

    def spending(self) -> SpendRequest:
        """The part of the request that an authorization answers."""
        return SpendRequest(self.engine, self.plan_sha256, self.money, self.upload)


def request_for(plan: Plan, *, needs_authorization: bool = False) -> LaunchRequest:
    """The launch request of a plan; a trial file in it is what a second run is refused by.

    Raises:
        ValueError: the plan's money is no amount with a currency.
    """
    trial = plan.trial or {}
    output = trial.get("output") or {}
    file = trial.get("file")
    return LaunchRequest(
        key=f"{plan.run_id}-{plan.leg}",
        run_id=plan.run_id,
        record=plan.record,
        name=plan.name,
        engine=plan.engine,
        plan_sha256=plan.sha256(),
        money=parse_money(plan.money),
        legs=(Leg(plan.leg, plan.wall_s, plan.price_per_hour),),
        trial_file=file if isinstance(file, str) and not plan.ad_hoc else None,
        upload=output.get("hub") if isinstance(output, dict) else None,
        needs_authorization=needs_authorization,
    )


@dataclass(frozen=True)
class LaunchRow:
    """One launch as the ledger knows it. Times are UTC, ISO-8601."""

    key: str
    run_id: str
    engine: str
    record: str
    state: str
    plan_sha256: str
    starter_pid: int
    starter_ticks: int | None
    host: str
    intended_at: str
    authorization_id: str | None = None
    pid: int | None = None
    start_ticks: int | None = None
    job_id: str | None = None
    claimed_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    reason: str | None = None

    @property
    def layout(self) -> RecordLayout:
        """The record of the launch."""
        return RecordLayout(self.record)

    @property
    def is_live(self) -> bool:
        """Whether the ledger does not know of an end."""
        return self.state in LIVE

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return dict(vars(self))
