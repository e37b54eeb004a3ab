"""Authorizations as rows of the ledger, and the message when none covers a launch."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from seatrial.core.authorization import Authorization, refusals
from seatrial.core.errors import UsageError
from seatrial.core.units import Money
from seatrial.store.launch_values import LaunchRequest

if TYPE_CHECKING:
    import sqlite3

_SELECT = """
    SELECT authorizations.*, launches.run_id AS used_by, launches.intended_at AS used_at
    FROM authorizations LEFT JOIN launches ON launches.authorization_id = authorizations.id
"""


def insert_authorization(connection: sqlite3.Connection, given: Authorization) -> None:
    """Write a new authorization; the caller owns the transaction."""
    connection.execute(
        "INSERT INTO authorizations (id, who, engine, plan_sha256, amount, currency, upload, "
        "created, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            given.id,
            given.who,
            given.engine,
            given.plan_sha256,
            str(given.money.amount),
            given.money.currency,
            given.upload,
            given.created.isoformat(),
            given.expires.isoformat(),
        ),
    )


def read_authorizations(connection: sqlite3.Connection) -> tuple[Authorization, ...]:
    """All authorizations with their use, oldest first."""
    rows = connection.execute(f"{_SELECT} ORDER BY created, id").fetchall()
    return tuple(map(_from_row, rows))


def read_authorization(connection: sqlite3.Connection, name: str) -> Authorization | None:
    """One authorization with its use."""
    row = connection.execute(f"{_SELECT} WHERE authorizations.id = ?", (name,)).fetchone()
    return None if row is None else _from_row(row)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _from_row(row: sqlite3.Row) -> Authorization:
    return Authorization(
        id=row["id"],
        who=row["who"],
        engine=row["engine"],
        plan_sha256=row["plan_sha256"],
        money=Money(Decimal(row["amount"]), row["currency"]),
        created=datetime.fromisoformat(row["created"]),
        expires=datetime.fromisoformat(row["expires"]),
        upload=row["upload"],
        used_at=_moment(row["used_at"]),
        used_by=row["used_by"],
        revoked_at=_moment(row["revoked_at"]),
    )


def refused_spending(
    request: LaunchRequest, known: Sequence[Authorization], now: datetime
) -> UsageError:
    """No authorization covers the launch: why the nearest ones do not, and what to type."""
    # The approvals that come nearest are those with the fewest reasons against them.
    ranked = sorted((refusals(entry, request.spending(), now) for entry in known), key=len)
    reasons = "".join(f"; {'; '.join(found)}" for found in ranked[:3])
    command = ["seatrial", "authorize"]
    if request.trial_file is not None:
        command.append(request.trial_file)
    command += ["--engine", request.engine, "--money", str(request.money), "--who", "YOUR NAME"]
    if request.upload is not None:
        command += ["--upload", request.upload]
    return UsageError(
        f"engine {request.engine} spends or uploads, and no authorization covers this plan "
        f"(up to {request.money}, uploads to {request.upload or 'nowhere'}); nothing was "
        f"started{reasons}",
        remedy=shlex.join(command),
    )
