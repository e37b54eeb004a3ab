"""Which bytes of a runner a preflight read, as rows of the ledger."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from datetime import datetime

from seatrial.core.errors import UsageError
from seatrial.store.ledger import Ledger


@dataclass(frozen=True)
class Preflighted:
    """The last preflight of a file. ``read`` is when its bytes were read."""

    file: str
    sha256: str
    passed: bool
    read: datetime


def remember_preflight(ledger: Ledger, file: str, sha256: str, passed: bool, now: datetime) -> None:
    """Note what a preflight read; the file is kept by its real absolute path.

    Args:
        ledger: the open ledger.
        file: path of the runner.
        sha256: of exactly the bytes that were read.
        passed: whether no error was found.
        now: when.
    """
    with ledger.transaction() as connection:
        connection.execute(
            "INSERT INTO preflights (file, sha256, passed, read) VALUES (?, ?, ?, ?)",
            (os.path.realpath(file), sha256, int(passed), now.isoformat()),
        )


def last_preflight(ledger: Ledger, file: str) -> Preflighted | None:
    """The newest preflight of a file, or None."""
    with ledger.transaction() as connection:
        row = connection.execute(
            "SELECT file, sha256, passed, read FROM preflights WHERE file = ? "
            "ORDER BY id DESC LIMIT 1",
            (os.path.realpath(file),),
        ).fetchone()
    if row is None:
        return None
    return Preflighted(
        row["file"], row["sha256"], bool(row["passed"]), datetime.fromisoformat(row["read"])
    )


def refuse_other_hash(ledger: Ledger, file: str, sha256_now: str) -> None:
    """Refuse a runner that was preflighted and has changed since; an unknown one passes.

    Raises:
        UsageError: the last preflight read other bytes.
    """
    last = last_preflight(ledger, file)
    if last is not None and last.sha256 != sha256_now:
        raise UsageError(
            f"{file} is not the file that was preflighted on {last.read:%Y-%m-%d %H:%M}: it has "
            f"sha256 {sha256_now}, the preflight read {last.sha256}",
            remedy=shlex.join(("seatrial", "preflight", file)),
        )
