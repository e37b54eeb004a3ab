"""The ledger's file: opening it safely, its tables, their migrations."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from seatrial.core.errors import BrokenRecordError, CouldNotJudgeError, UsageError

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x53454154  # "SEAT": tells our file from any other SQLite file
BUSY_TIMEOUT_S = 20.0
_HEADER = b"SQLite format 3\0"

# Each entry brings the file from version N to N + 1. Entries are never edited, only added.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE trials (
            id INTEGER PRIMARY KEY,
            file TEXT UNIQUE,
            name TEXT NOT NULL,
            plan_sha256 TEXT NOT NULL,
            first_seen TEXT NOT NULL
        ) STRICT
        """,
        """
        CREATE TABLE authorizations (
            id TEXT PRIMARY KEY,
            who TEXT NOT NULL,
            engine TEXT NOT NULL,
            plan_sha256 TEXT NOT NULL,
            amount TEXT NOT NULL,
            currency TEXT NOT NULL,
            upload TEXT,
            created TEXT NOT NULL,
            expires TEXT NOT NULL,
            revoked_at TEXT
        ) STRICT
        """,
        # The use of an authorization is the launch's own column: unique, so that two launches
        # cannot share one, whatever the code above does.
        """
        CREATE TABLE launches (
            id INTEGER PRIMARY KEY,
            key TEXT NOT NULL UNIQUE,
            run_id TEXT NOT NULL,
            trial_id INTEGER NOT NULL REFERENCES trials (id),
            authorization_id TEXT UNIQUE REFERENCES authorizations (id),
            engine TEXT NOT NULL,
            plan_sha256 TEXT NOT NULL,
            record TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'intended'
                CHECK (state IN ('intended', 'claimed', 'started', 'ended', 'abandoned')),
            starter_pid INTEGER NOT NULL,
            starter_ticks INTEGER,
            host TEXT NOT NULL,
            pid INTEGER,
            start_ticks INTEGER,
            job_id TEXT,
            intended_at TEXT NOT NULL,
            claimed_at TEXT,
            started_at TEXT,
            ended_at TEXT,
            exit_code INTEGER,
            reason TEXT
        ) STRICT
        """,
        """
        CREATE TABLE legs (
            launch_id INTEGER NOT NULL REFERENCES launches (id),
            name TEXT NOT NULL,
            wall_s REAL NOT NULL CHECK (wall_s > 0),
            price_per_hour TEXT NOT NULL,
            PRIMARY KEY (launch_id, name)
        ) STRICT
        """,
        "CREATE INDEX launches_by_trial ON launches (trial_id, state)",
        "CREATE INDEX launches_by_run ON launches (run_id)",
    ),
    (
        # Every lock of a trial file that was ever written here, with its bounds, gates and
        # thresholds as JSON: what a later lock is compared with.
        """
        CREATE TABLE locks (
            id INTEGER PRIMARY KEY,
            trial_file TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            terms TEXT NOT NULL,
            created TEXT NOT NULL,
            UNIQUE (trial_file, sha256)
        ) STRICT
        """,
        # How a run under a lock ended; it outlives the record, which may be cleaned away.
        """
        CREATE TABLE verdicts (
            run_id TEXT PRIMARY KEY,
            trial_file TEXT,
            lock_sha256 TEXT,
            verdict TEXT NOT NULL,
            outcome TEXT,
            exit_code INTEGER NOT NULL,
            conclusion TEXT NOT NULL,
            decided TEXT NOT NULL
        ) STRICT
        """,
        # One row for each held-out case that a model role was given. Unique: a case is used once
        # under a lock, and again only under the next number, which somebody asked for.
        """
        CREATE TABLE heldout_uses (
            id INTEGER PRIMARY KEY,
            lock_sha256 TEXT NOT NULL,
            model_role TEXT NOT NULL,
            case_id TEXT NOT NULL,
            case_sha256 TEXT NOT NULL,
            use INTEGER NOT NULL CHECK (use > 0),
            run_id TEXT NOT NULL,
            trial_file TEXT,
            reason TEXT,
            used TEXT NOT NULL,
            UNIQUE (lock_sha256, model_role, case_id, use)
        ) STRICT
        """,
        # The bytes of a runner that a preflight read.
        """
        CREATE TABLE preflights (
            id INTEGER PRIMARY KEY,
            file TEXT NOT NULL,
            sha256 TEXT NOT NULL,
            passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
            read TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX heldout_uses_by_case ON heldout_uses (case_sha256)",
        "CREATE INDEX preflights_by_file ON preflights (file)",
    ),
)


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """Turn what SQLite says into a message with the file's name.

    Raises:
        UsageError: the file may not be written or is somebody else's.
        BrokenRecordError: the file is damaged.
        CouldNotJudgeError: it is locked for too long, or the disk is full.
    """
    import sqlite3

    try:
        yield
    except sqlite3.OperationalError as error:
        raise _operational(path, str(error)) from error
    except sqlite3.IntegrityError:
        raise  # an answer: a unique key was taken
    except sqlite3.DatabaseError as error:
        raise broken(path, str(error)) from error


def broken(path: str, detail: str) -> BrokenRecordError:
    """The message for a damaged ledger. The file is evidence: it is never deleted or repaired."""
    return BrokenRecordError(
        f"the ledger {path} is damaged ({detail}); it was left as it is",
        remedy=f"move it away and keep it: mv {path} {path}.damaged",
    )


def _operational(path: str, detail: str) -> Exception:
    if "full" in detail:
        return CouldNotJudgeError(
            f"no space left to write the ledger {path} ({detail})",
            remedy="free some space (seatrial clean removes old runs), then run it again",
        )
    if "locked" in detail:
        return CouldNotJudgeError(
            f"another process has held the ledger {path} for over {BUSY_TIMEOUT_S:.0f} s",
            remedy="seatrial list",
        )
    if "readonly" in detail or "unable to open" in detail:
        return UsageError(
            f"cannot write the ledger {path} ({detail})",
            remedy="choose a folder that you may write to: export SEATRIAL_DIR=...",
        )
    return CouldNotJudgeError(
        f"the ledger {path} cannot be used: {detail}",
        remedy="look at the limits of this shell (ulimit -a) and at the disk, or choose another"
        " folder: export SEATRIAL_DIR=...",
    )


def _refuse_strangers(path: str) -> None:
    """Look at the first bytes before SQLite touches the file."""
    away = f"move it away: mv {path} {path}.other"
    try:
        # Without O_NONBLOCK a pipe of that name would hold us until somebody writes to it.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(
            f"cannot read the ledger {path}: {error.strerror}",
            remedy="choose another folder: export SEATRIAL_DIR=...",
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise UsageError(f"{path} is no ledger: it is no regular file", remedy=away)
        head = os.read(handle, len(_HEADER))
    finally:
        os.close(handle)
    if head and head != _HEADER:
        raise UsageError(
            f"{path} is no ledger: it is not an SQLite file; it was left as it is", remedy=away
        )


def connect(path: str) -> sqlite3.Connection:
    """An open connection to a ledger of the current version; the file is created when missing.

    Raises:
        UsageError: not a ledger, a newer one, or it may not be written.
        BrokenRecordError: the file is damaged.
        CouldNotJudgeError: it is locked for too long, or the disk is full.
    """
    import sqlite3

    _refuse_strangers(path)
    with mapped(path):
        connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        with mapped(path):
            _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    import sqlite3

    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    _refuse_foreign(connection, path)
    _use_wal(connection)
    problems = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
    if problems != ["ok"]:
        raise broken(path, str(problems[0]).splitlines()[0] if problems else "no answer")
    _migrate(connection, path)


def _refuse_foreign(connection: sqlite3.Connection, path: str) -> None:
    identity = connection.execute("PRAGMA application_id").fetchone()[0]
    if identity == APPLICATION_ID:
        return
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    # Asked again: another process may have made the ledger between the two questions.
    identity = connection.execute("PRAGMA application_id").fetchone()[0]
    if identity != APPLICATION_ID and (identity != 0 or tables):
        raise UsageError(
            f"{path} is an SQLite file of another program; it was left as it is",
            remedy=f"move it away: mv {path} {path}.other",
        )


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging. SQLite does not wait for a lock here, so we do."""
    import sqlite3

    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:  # noqa: PERF203 - trying again is the point
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    newest = len(MIGRATIONS)
    if _version(connection) < newest:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for version in range(_version(connection), newest):
                for statement in MIGRATIONS[version]:
                    connection.execute(statement)
            # Both live in the file's first page and belong to the transaction.
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {newest}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    if _version(connection) > newest:
        raise UsageError(
            f"the ledger {os.path.abspath(path)} was written by a newer seatrial "
            f"(version {_version(connection)}, this one knows {newest})",
            remedy="pip install --upgrade seatrial",
        )
