"""The ledger: authorizations are used once, launches are intended once, and files are respected."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from seatrial.core.errors import BrokenRecordError, SeatrialError, UsageError
from seatrial.core.units import Money
from seatrial.store.launch_values import LaunchRequest, Leg
from seatrial.store.ledger import Ledger, open_ledger
from seatrial.store.ledger_schema import MIGRATIONS

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=timezone.utc)
HASH = "a" * 64
TWO = Money(Decimal("2.00"))


def request(run_id: str = "run-1", **changes: object) -> LaunchRequest:
    base = LaunchRequest(
        key=f"{run_id}-main",
        run_id=run_id,
        record=f"/records/{run_id}",
        name="moves",
        engine="paid",
        plan_sha256=HASH,
        money=TWO,
        legs=(Leg("main", 600.0, "1.50"), Leg("resume", 60.0)),
        trial_file=None,
        needs_authorization=True,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def authorize(ledger: Ledger, **changes: object) -> str:
    values: dict[str, object] = {
        "who": "Ada",
        "engine": "paid",
        "money": TWO,
        "plan_sha256": HASH,
        "expires": NOW + timedelta(hours=1),
        "now": NOW,
    }
    return ledger.authorize(**{**values, **changes}).id  # type: ignore[arg-type]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(str(tmp_path / "state" / "ledger.db"))


def test_settings_are_durable_and_checked(ledger: Ledger) -> None:
    ask = lambda pragma: ledger._connection.execute(f"PRAGMA {pragma}").fetchone()[0]  # noqa: E731
    assert (ask("journal_mode"), ask("synchronous"), ask("foreign_keys")) == ("wal", 2, 1)
    with pytest.raises(sqlite3.IntegrityError):
        ledger._connection.execute(
            "INSERT INTO legs (launch_id, name, wall_s, price_per_hour) VALUES (99, 'x', 1, '0')"
        )


def test_an_authorization_is_good_for_one_launch(ledger: Ledger) -> None:
    name = authorize(ledger)
    row = ledger.intend(request(), NOW)
    assert (row.state, row.authorization_id) == ("intended", name)
    with pytest.raises(UsageError, match=f"authorization {name} was used by run run-1"):
        ledger.intend(request("run-2"), NOW)
    (known,) = ledger.authorizations()
    assert (known.state(NOW), known.used_by) == ("used", "run-1")
    assert [row.run_id for row in ledger.launches()] == ["run-1"]


def test_without_authorization_the_command_to_type_is_named(ledger: Ledger) -> None:
    with pytest.raises(UsageError) as caught:
        ledger.intend(request(trial_file="/a b/trial.toml", upload="me/model"), NOW)
    assert caught.value.exit_code == 2
    assert caught.value.remedy == (
        "seatrial authorize '/a b/trial.toml' --engine paid --money '2.00 USD' "
        "--who 'YOUR NAME' --upload me/model"
    )
    assert ledger.launches() == ()


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"engine": "other"}, "is for engine other, not paid"),
        ({"plan_sha256": "b" * 64}, "approves another plan"),
        ({"money": Money(Decimal("1.99"))}, "allows 1.99 USD, the plan costs up to 2.00 USD"),
        ({"money": Money(Decimal(9), "EUR")}, "is in EUR"),
        ({"upload": "me/model"}, "allows uploads to me/model, the plan uploads to nowhere"),
        ({"expires": NOW + timedelta(seconds=1)}, "expired at"),
    ],
    ids=["engine", "plan", "money", "currency", "upload", "expiry"],
)
def test_an_authorization_that_does_not_fit_is_refused_with_the_reason(
    ledger: Ledger, given: dict[str, object], reason: str
) -> None:
    authorize(ledger, **given)
    later = NOW + timedelta(seconds=1)
    with pytest.raises(UsageError, match=reason):
        ledger.intend(request(), later)
    assert ledger.launches() == ()
    authorize(ledger)
    assert ledger.intend(request(), later).state == "intended"


def test_a_revoked_authorization_is_refused_and_a_used_one_cannot_be_revoked(
    ledger: Ledger,
) -> None:
    name = authorize(ledger)
    assert ledger.revoke(name, NOW).state(NOW) == "revoked"
    with pytest.raises(UsageError, match="was revoked at"):
        ledger.intend(request(), NOW)
    second = authorize(ledger)
    ledger.intend(request(), NOW)
    with pytest.raises(UsageError, match="was used by run run-1: too late"):
        ledger.revoke(second, NOW)
    with pytest.raises(UsageError, match="there is no authorization 'nope'"):
        ledger.revoke("nope", NOW)


@pytest.mark.parametrize(
    ("given", "reason"),
    [({"who": "  "}, "names who"), ({"expires": NOW}, "in the past")],
    ids=["nobody", "expired"],
)
def test_an_authorization_needs_a_person_and_a_future(
    ledger: Ledger, given: dict[str, object], reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        authorize(ledger, **given)
    assert ledger.authorizations() == ()


def test_a_second_run_of_a_live_trial_is_refused_until_the_first_ends(ledger: Ledger) -> None:
    free = {"needs_authorization": False, "trial_file": "/p/trial.toml"}
    ledger.intend(request(**free), NOW)
    for mark in (lambda: None, lambda: ledger.mark_started("run-1-main", NOW, pid=7)):
        mark()
        with pytest.raises(UsageError, match="is running already, as run-1"):
            ledger.intend(request("run-2", **free), NOW)
    ledger.intend(request("run-3", **{**free, "trial_file": "/p/other.toml"}), NOW)
    ledger.intend(request("run-4", needs_authorization=False), NOW)
    ledger.mark_ended("run-1-main", NOW, exit_code=0)
    assert ledger.intend(request("run-2", **free), NOW).state == "intended"


def test_a_key_is_intended_once_for_ever(ledger: Ledger) -> None:
    ledger.intend(request(needs_authorization=False), NOW)
    ledger.mark_ended("run-1-main", NOW)
    with pytest.raises(UsageError, match="nothing is started twice"):
        ledger.intend(request(needs_authorization=False), NOW)


def test_a_launch_only_moves_forward(ledger: Ledger) -> None:
    ledger.intend(request(needs_authorization=False), NOW)
    assert ledger.mark_claimed("run-1-main", NOW).state == "claimed"
    started = ledger.mark_started("run-1-main", NOW, pid=5, ticks=9)
    assert (started.state, started.pid, started.start_ticks) == ("started", 5, 9)
    assert ledger.abandon("run-1-main", NOW, "no").state == "started"
    ended = ledger.mark_ended("run-1-main", NOW, exit_code=3, reason="gate")
    assert (ended.state, ended.exit_code, ended.reason, ended.pid) == ("ended", 3, "gate", 5)
    assert ledger.mark_started("run-1-main", NOW, pid=6) == ended
    assert ledger.mark_ended("run-1-main", NOW, exit_code=0) == ended


def test_legs_are_written_with_their_prices(ledger: Ledger) -> None:
    ledger.intend(request(needs_authorization=False), NOW)
    rows = ledger._connection.execute("SELECT name, wall_s, price_per_hour FROM legs").fetchall()
    assert [tuple(row) for row in rows] == [("main", 600.0, "1.50"), ("resume", 60.0, "0")]


def _text(path: Path) -> None:
    path.write_text("these are my notes")


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE songs (id INTEGER)")
    other.close()


def _foreign_id(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA application_id = 42")
    other.close()


def _newer(path: Path) -> None:
    ledger = open_ledger(str(path))
    ledger._connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    ledger.close()


def _damaged(path: Path) -> None:
    ledger = open_ledger(str(path))
    for number in range(60):
        ledger.intend(request(f"run-{number}", needs_authorization=False), NOW)
    ledger._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ledger.close()
    data = bytearray(path.read_bytes())
    data[4096 : len(data) - 100] = os.urandom(len(data) - 4196)
    path.write_bytes(bytes(data))


def _cut(path: Path) -> None:
    _damaged(path)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("spoil", "kind", "words"),
    [
        (_text, UsageError, "no ledger: it is not an SQLite file"),
        (_foreign, UsageError, "of another program"),
        (_foreign_id, UsageError, "of another program"),
        (_newer, UsageError, "written by a newer seatrial"),
        (_damaged, BrokenRecordError, "is damaged"),
        (_cut, BrokenRecordError, "is damaged"),
    ],
    ids=["text", "foreign", "foreign-id", "newer", "damaged", "cut"],
)
def test_a_file_that_is_no_ledger_is_named_and_left_alone(
    tmp_path: Path, spoil: Callable[[Path], None], kind: type[SeatrialError], words: str
) -> None:
    path = tmp_path / "ledger.db"
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(kind, match=words) as caught:
        open_ledger(str(path))
    assert caught.value.exit_code == (2 if kind is UsageError else 3)
    assert str(path) in caught.value.message
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.touch()
    with open_ledger(str(path)) as ledger:
        assert ledger.launches() == ()


def test_a_full_disk_leaves_no_trace_of_the_intent(ledger: Ledger) -> None:
    authorize(ledger)
    pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._connection.execute(f"PRAGMA max_page_count = {pages}")
    legs = tuple(Leg(f"leg-{number}" + "x" * 500, 1.0) for number in range(100))
    with pytest.raises(SeatrialError, match="no space left to write the ledger") as caught:
        ledger.intend(request(legs=legs), NOW)
    assert caught.value.exit_code == 3
    assert ledger.launches() == ()
    assert ledger.authorizations()[0].state(NOW) == "open"
