"""Locks that were written, and verdicts that were reached under them, as rows of the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seatrial.core.strict_json import dumps
from seatrial.store.ledger import Ledger


@dataclass(frozen=True)
class LockRow:
    """A lock of a trial file, with the terms that it held."""

    trial_file: str
    sha256: str
    terms: Mapping[str, Any]
    created: str


@dataclass(frozen=True)
class VerdictRow:
    """How a run under a lock ended; it stays when the record is cleaned away."""

    run_id: str
    trial_file: str | None
    lock_sha256: str | None
    verdict: str
    outcome: str | None
    exit_code: int
    conclusion: str
    decided: str


def _key(trial_file: str) -> str:
    """A path as the ledger can hold it: bytes that are no UTF-8 become escapes."""
    return trial_file.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def remember_lock(
    ledger: Ledger, trial_file: str, sha256: str, terms: Mapping[str, Any], created: datetime
) -> bool:
    """Note a lock. One that is known keeps the moment at which it was first written.

    Args:
        ledger: open ledger.
        trial_file: real path of the trial file.
        sha256: of the lock.
        terms: see ``core.lock.terms_of``.
        created: a moment with a time zone.

    Returns:
        Whether it was new.
    """
    with ledger.transaction() as connection:
        cursor = connection.execute(
            "INSERT INTO locks (trial_file, sha256, terms, created) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (trial_file, sha256) DO NOTHING",
            (_key(trial_file), sha256, dumps(dict(terms)), created.isoformat()),
        )
        return cursor.rowcount == 1


def locks_of(ledger: Ledger, trial_file: str) -> tuple[LockRow, ...]:
    """Every lock of a trial file, oldest first. A row whose terms cannot be read is left out."""
    with ledger.transaction() as connection:
        rows = connection.execute(
            "SELECT trial_file, sha256, terms, created FROM locks WHERE trial_file = ? ORDER BY id",
            (_key(trial_file),),
        ).fetchall()
    found = []
    for row in rows:
        terms = _terms(row["terms"])
        if terms is not None:
            found.append(LockRow(row["trial_file"], row["sha256"], terms, row["created"]))
    return tuple(found)


def _terms(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def remember_verdict(ledger: Ledger, row: VerdictRow) -> bool:
    """Note how a run ended. The first verdict of a run stays.

    Returns:
        Whether it was new.
    """
    with ledger.transaction() as connection:
        cursor = connection.execute(
            "INSERT INTO verdicts (run_id, trial_file, lock_sha256, verdict, outcome, exit_code, "
            "conclusion, decided) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING",
            (
                row.run_id,
                None if row.trial_file is None else _key(row.trial_file),
                row.lock_sha256,
                row.verdict,
                row.outcome,
                row.exit_code,
                row.conclusion,
                row.decided,
            ),
        )
        return cursor.rowcount == 1


def verdicts_of(ledger: Ledger, trial_file: str) -> tuple[VerdictRow, ...]:
    """How the runs of a trial file ended, oldest first."""
    with ledger.transaction() as connection:
        rows = connection.execute(
            "SELECT run_id, trial_file, lock_sha256, verdict, outcome, exit_code, conclusion, "
            "decided FROM verdicts WHERE trial_file = ? ORDER BY decided, rowid",
            (_key(trial_file),),
        ).fetchall()
    return tuple(VerdictRow(**dict(row)) for row in rows)
