"""The ledger: the crash-safe list of authorizations and launches.

Every change is one transaction that either happened or did not. An intent is written before
anything starts, and the file ``launch/claim.json`` in the record is created exclusively by whoever
starts it, so that whatever breaks in between, nothing starts twice.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from seatrial.core.authorization import Authorization, refusals
from seatrial.core.errors import UsageError
from seatrial.core.units import Money
from seatrial.store.authorization_rows import (
    insert_authorization,
    read_authorization,
    read_authorizations,
    refused_spending,
)
from seatrial.store.launch_values import LIVE, LaunchRequest, LaunchRow
from seatrial.store.ledger_schema import connect, mapped
from seatrial.store.liveness import start_ticks

if TYPE_CHECKING:
    import sqlite3

_COLUMNS = ", ".join(field.name for field in fields(LaunchRow))
_LIVE_SQL = ", ".join(f"'{state}'" for state in LIVE)


def open_ledger(path: str) -> Ledger:
    """Open the ledger, creating file and folder when they are missing.

    Raises:
        UsageError: the file is no ledger, a newer one, or may not be written.
        BrokenRecordError: the file is damaged; it is left as it is.
        CouldNotJudgeError: it is locked for too long, or the disk is full.
    """
    from seatrial.store.atomic import make_folder

    make_folder(os.path.dirname(os.path.abspath(path)))
    return Ledger(path, connect(path))


class Ledger:
    """An open ledger, for a ``with`` statement. Every method may raise what opening raises."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. A transaction that was open is as if it had never begun."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One change that happens or does not; the modules of rows beside this one use it."""
        # IMMEDIATE: whoever reads here to decide is the only one who may write after it.
        with mapped(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    # Authorizations

    def authorize(
        self,
        *,
        who: str,
        engine: str,
        money: Money,
        plan_sha256: str,
        expires: datetime,
        now: datetime,
        upload: str | None = None,
    ) -> Authorization:
        """Record an approval. It is good for one launch of this very plan.

        Raises:
            UsageError: nobody is named, or it would expire before it begins.
        """
        if not who.strip():
            raise UsageError("an authorization names who gives it", remedy="--who 'Ada Lovelace'")
        if expires <= now:
            raise UsageError(f"an authorization cannot expire in the past ({expires.isoformat()})")
        given = Authorization(
            id=secrets.token_hex(4),
            who=who.strip(),
            engine=engine,
            plan_sha256=plan_sha256,
            money=money,
            created=now,
            expires=expires,
            upload=upload,
        )
        with self.transaction() as connection:
            insert_authorization(connection, given)
        return given

    def authorizations(self) -> tuple[Authorization, ...]:
        """Every authorization that was ever given, oldest first."""
        with mapped(self.path):
            return read_authorizations(self._connection)

    def revoke(self, authorization_id: str, now: datetime) -> Authorization:
        """Withdraw an authorization that was not used.

        Raises:
            UsageError: there is no such authorization, or a launch took it already.
        """
        with self.transaction() as connection:
            found = read_authorization(connection, authorization_id)
            if found is None:
                raise UsageError(
                    f"there is no authorization {authorization_id!r}",
                    remedy="seatrial authorize --list",
                )
            if found.used_by is not None:
                raise UsageError(
                    f"authorization {found.id} was used by run {found.used_by}: too late to revoke",
                    remedy=f"seatrial stop {found.used_by}",
                )
            connection.execute(
                "UPDATE authorizations SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?",
                (now.isoformat(), found.id),
            )
            changed = read_authorization(connection, found.id)
        return changed or found

    # Launches

    def intend(self, request: LaunchRequest, now: datetime) -> LaunchRow:
        """Write the intent to start something, using up an authorization where one is needed.

        Args:
            request: what shall start.
            now: a moment with a time zone.

        Raises:
            UsageError: the key was used, a run of the same trial file is still going, or no
                authorization covers the request; nothing is written then.
        """
        with self.transaction() as connection:
            self._refuse_known_key(request.key)
            self._refuse_second_run(request)
            authorization_id = None
            if request.needs_authorization:
                authorization_id = self._usable_authorization(request, now)
            trial_id = self._trial_id(request, now)
            cursor = connection.execute(
                "INSERT INTO launches (key, run_id, trial_id, authorization_id, engine, "
                "plan_sha256, record, starter_pid, starter_ticks, host, intended_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    request.key,
                    request.run_id,
                    trial_id,
                    authorization_id,
                    request.engine,
                    request.plan_sha256,
                    request.record,
                    os.getpid(),
                    start_ticks(os.getpid()),
                    socket.gethostname(),
                    now.isoformat(),
                ),
            )
            connection.executemany(
                "INSERT INTO legs (launch_id, name, wall_s, price_per_hour) VALUES (?, ?, ?, ?)",
                [
                    (cursor.lastrowid, leg.name, leg.wall_s, leg.price_per_hour)
                    for leg in request.legs
                ],
            )
        return self._required(request.key)

    def _refuse_known_key(self, key: str) -> None:
        known = self.launch(key)
        if known is not None:
            raise UsageError(
                f"the launch {key} was intended at {known.intended_at} and is {known.state}; "
                "nothing is started twice",
                remedy=f"seatrial status {known.run_id}",
            )

    def _refuse_second_run(self, request: LaunchRequest) -> None:
        if request.trial_file is None:
            return
        row = self._connection.execute(
            "SELECT run_id, state FROM launches JOIN trials ON trials.id = trial_id "  # noqa: S608 - constants of ours
            f"WHERE trials.file = ? AND state IN ({_LIVE_SQL}) ORDER BY launches.id DESC",
            (request.trial_file,),
        ).fetchone()
        if row is not None:
            raise UsageError(
                f"{request.trial_file} is running already, as {row['run_id']} ({row['state']})",
                remedy=f"seatrial watch {row['run_id']}, or seatrial stop {row['run_id']}",
            )

    def _usable_authorization(self, request: LaunchRequest, now: datetime) -> str:
        known = read_authorizations(self._connection)
        for authorization in known:
            if not refusals(authorization, request.spending(), now):
                return authorization.id
        raise refused_spending(request, known, now)

    def _trial_id(self, request: LaunchRequest, now: datetime) -> int:
        if request.trial_file is not None:
            row = self._connection.execute(
                "SELECT id FROM trials WHERE file = ?", (request.trial_file,)
            ).fetchone()
            if row is not None:
                self._connection.execute(
                    "UPDATE trials SET name = ?, plan_sha256 = ? WHERE id = ?",
                    (request.name, request.plan_sha256, row["id"]),
                )
                return int(row["id"])
        cursor = self._connection.execute(
            "INSERT INTO trials (file, name, plan_sha256, first_seen) VALUES (?, ?, ?, ?)",
            (request.trial_file, request.name, request.plan_sha256, now.isoformat()),
        )
        return int(cursor.lastrowid or 0)

    def mark_claimed(self, key: str, now: datetime) -> LaunchRow:
        """Somebody took the claim: from here on the launch may have started."""
        return self._advance(key, "claimed", {"claimed_at": now.isoformat()})

    def mark_started(
        self,
        key: str,
        now: datetime,
        *,
        pid: int | None = None,
        ticks: int | None = None,
        job_id: str | None = None,
    ) -> LaunchRow:
        """The process or job is known."""
        values = {"started_at": now.isoformat(), "pid": pid, "start_ticks": ticks, "job_id": job_id}
        return self._advance(key, "started", values)

    def mark_ended(
        self, key: str, now: datetime, *, exit_code: int | None = None, reason: str = "natural"
    ) -> LaunchRow:
        """The launch is over; ``exit_code`` is the process's own."""
        values = {"ended_at": now.isoformat(), "exit_code": exit_code, "reason": reason}
        return self._advance(key, "ended", values)

    def abandon(self, key: str, now: datetime, reason: str) -> LaunchRow:
        """It is certain that nothing was started and that nothing will be."""
        return self._advance(key, "abandoned", {"ended_at": now.isoformat(), "reason": reason})

    def _advance(self, key: str, state: str, values: dict[str, Any]) -> LaunchRow:
        """Move a launch forward. A step that was made already, or is behind, changes nothing."""
        behind = {
            "claimed": ("intended",),
            "started": ("intended", "claimed"),
            "ended": LIVE,
            "abandoned": ("intended", "claimed"),
        }[state]
        given = {name: value for name, value in values.items() if value is not None}
        settings = "".join(f", {name} = ?" for name in given)
        marks = ", ".join("?" for _ in behind)
        with self.transaction() as connection:
            connection.execute(
                f"UPDATE launches SET state = ?{settings} WHERE key = ? AND state IN ({marks})",  # noqa: S608 - column names of ours
                (state, *given.values(), key, *behind),
            )
        return self._required(key)

    def launch(self, key: str) -> LaunchRow | None:
        """The launch of that key, if there is one."""
        return next(iter(self._rows("WHERE key = ?", (key,))), None)

    def _required(self, key: str) -> LaunchRow:
        row = self.launch(key)
        if row is None:
            raise UsageError(f"the ledger {self.path} knows no launch {key}")
        return row

    def launches(self, *, run_id: str | None = None, live: bool = False) -> tuple[LaunchRow, ...]:
        """Launches in order, of one run or all, with ``live`` only those without an end."""
        conditions = [] if run_id is None else ["run_id = ?"]
        if live:
            conditions.append(f"state IN ({_LIVE_SQL})")
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._rows(f"{where} ORDER BY id", () if run_id is None else (run_id,))

    def _rows(self, clause: str, values: tuple[Any, ...]) -> tuple[LaunchRow, ...]:
        with mapped(self.path):
            rows = self._connection.execute(
                f"SELECT {_COLUMNS} FROM launches {clause}",  # noqa: S608 - column names of ours
                values,
            ).fetchall()
        return tuple(LaunchRow(**dict(row)) for row in rows)
