"""Authorizations: approval to spend or upload, given once, for one plan."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional, Tuple

from seatrial.core.units import Money


@dataclass(frozen=True)
class Authorization:
    """Approval of one launch. It is used up by the first launch that takes it.

    Attributes:
        id: short name of the approval.
        who: the person who approves.
        engine: the one engine that may be used.
        plan_sha256: ``Plan.sha256()`` of what was approved.
        money: the most that may be spent.
        upload: the one target that may be written, or None: nothing may be uploaded.
        created, expires, used_at, revoked_at: moments with a time zone.
        used_by: run id of the launch that took it.
    """

    id: str
    who: str
    engine: str
    plan_sha256: str
    money: Money
    created: datetime
    expires: datetime
    upload: Optional[str] = None
    used_at: Optional[datetime] = None
    used_by: Optional[str] = None
    revoked_at: Optional[datetime] = None

    def to_json(self) -> dict[str, Any]:
        """The authorization as plain JSON values, for ``authorize --list --json``."""

        def moment(value: Optional[datetime]) -> Optional[str]:
            return None if value is None else value.isoformat()

        return {
            "id": self.id,
            "who": self.who,
            "engine": self.engine,
            "plan_sha256": self.plan_sha256,
            "money": str(self.money),
            "upload": self.upload,
            "created": moment(self.created),
            "expires": moment(self.expires),
            "used_at": moment(self.used_at),
            "used_by": self.used_by,
            "revoked_at": moment(self.revoked_at),
        }

    def state(self, now: datetime) -> str:
        """``open``, ``used``, ``revoked`` or ``expired``."""
        if self.used_at is not None:
            return "used"
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if now >= self.expires else "open"


@dataclass(frozen=True)
class SpendRequest:
    """What a launch wants to do: on which engine, which plan, for how much, writing where."""

    engine: str
    plan_sha256: str
    money: Money
    upload: Optional[str] = None


def refusals(authorization: Authorization, request: SpendRequest, now: datetime) -> Tuple[str, ...]:
    """Why the authorization does not cover the request; empty when it does.

    Args:
        authorization: the approval as it stands in the ledger.
        request: the launch that asks.
        now: a moment with a time zone.

    Returns:
        One plain sentence for each reason.
    """
    name = f"authorization {authorization.id}"
    found = []
    if authorization.used_at is not None:
        found.append(f"{name} was used by run {authorization.used_by}; each is good for one launch")
    if authorization.revoked_at is not None:
        found.append(f"{name} was revoked at {authorization.revoked_at.isoformat()}")
    if now >= authorization.expires:
        found.append(f"{name} expired at {authorization.expires.isoformat()}")
    if authorization.engine != request.engine:
        found.append(f"{name} is for engine {authorization.engine}, not {request.engine}")
    if authorization.plan_sha256 != request.plan_sha256:
        found.append(
            f"{name} approves another plan ({authorization.plan_sha256[:12]}, "
            f"this one is {request.plan_sha256[:12]}): the plan was changed since"
        )
    found.extend(_money_refusals(name, authorization.money, request.money))
    if authorization.upload != request.upload:
        found.append(
            f"{name} allows uploads to {authorization.upload or 'nowhere'}, "
            f"the plan uploads to {request.upload or 'nowhere'}"
        )
    return tuple(found)


def _money_refusals(name: str, cap: Money, wanted: Money) -> Tuple[str, ...]:
    if wanted.amount == 0:
        return ()
    if cap.currency != wanted.currency:
        return (f"{name} is in {cap.currency}, the plan costs up to {wanted}",)
    if cap.amount < wanted.amount:
        return (f"{name} allows {cap}, the plan costs up to {wanted}",)
    return ()
