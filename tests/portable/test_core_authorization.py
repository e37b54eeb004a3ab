"""Authorizations cover a launch completely, or say each reason why not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal

from seatrial.core.authorization import Authorization, SpendRequest, refusals
from seatrial.core.units import Money

NOW = datetime(2026, 11, 30, tzinfo=timezone.utc)
GIVEN = Authorization(
    "a1", "Ada", "paid", "f" * 64, Money(Decimal(5)), NOW, NOW + timedelta(hours=1), "me/model"
)
ASKED = SpendRequest("paid", "f" * 64, Money(Decimal(5)), "me/model")


def test_an_authorization_that_fits_is_not_refused() -> None:
    assert refusals(GIVEN, ASKED, NOW) == ()
    free = replace(ASKED, money=Money(Decimal(0), "EUR"))
    assert refusals(GIVEN, free, NOW) == (), "nothing costs nothing in any currency"


def test_each_misfit_is_one_sentence() -> None:
    used = replace(GIVEN, used_at=NOW, used_by="run-1")
    cases = [
        (used, ASKED, NOW, "was used by run run-1"),
        (replace(GIVEN, revoked_at=NOW), ASKED, NOW, "was revoked"),
        (GIVEN, ASKED, GIVEN.expires, "expired at"),
        (GIVEN, replace(ASKED, engine="x"), NOW, "is for engine paid, not x"),
        (GIVEN, replace(ASKED, plan_sha256="0" * 64), NOW, "approves another plan"),
        (GIVEN, replace(ASKED, money=Money(Decimal("5.000001"))), NOW, "allows 5 USD"),
        (GIVEN, replace(ASKED, money=Money(Decimal(1), "EUR")), NOW, "is in USD"),
        (GIVEN, replace(ASKED, upload=None), NOW, "the plan uploads to nowhere"),
        (replace(GIVEN, upload=None), ASKED, NOW, "allows uploads to nowhere"),
    ]
    for given, asked, now, words in cases:
        found = refusals(given, asked, now)
        assert len(found) == 1, found
        assert words in found[0], found
    everything = refusals(
        replace(used, revoked_at=NOW), SpendRequest("x", "0", Money(Decimal(9))), GIVEN.expires
    )
    assert len(everything) == 7


def test_the_state_is_told_and_the_json_complete() -> None:
    assert GIVEN.state(NOW) == "open"
    assert GIVEN.state(GIVEN.expires) == "expired"
    assert replace(GIVEN, revoked_at=NOW).state(NOW) == "revoked"
    assert replace(GIVEN, used_at=NOW).state(GIVEN.expires) == "used"
    value = json.loads(json.dumps(GIVEN.to_json()))
    assert value["money"] == "5 USD"
    assert value["expires"] == "2026-11-30T01:00:00+00:00"
