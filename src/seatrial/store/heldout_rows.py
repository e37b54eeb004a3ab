"""Uses of held-out cases in the ledger: once under a lock, unless somebody asks again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from seatrial.core.errors import CouldNotJudgeError, UsageError
from seatrial.store.ledger import Ledger


@dataclass(frozen=True)
class Use:
    """One numbered use of the cases of a lock."""

    use: int
    run_id: str
    used: str
    cases: int
    reason: str | None


def uses_under(ledger: Ledger, lock_sha256: str) -> tuple[Use, ...]:
    """Every use under a lock, in order."""
    with ledger.transaction() as connection:
        rows = connection.execute(
            "SELECT use, min(run_id) AS run_id, min(used) AS used, "
            "count(DISTINCT case_id) AS cases, min(reason) AS reason "
            "FROM heldout_uses WHERE lock_sha256 = ? GROUP BY use ORDER BY use",
            (lock_sha256,),
        ).fetchall()
    return tuple(Use(**dict(row)) for row in rows)


def used_by_run(ledger: Ledger, run_id: str) -> int:
    """How many rows a run has written: one for each case that a model role was given."""
    with ledger.transaction() as connection:
        (count,) = connection.execute(
            "SELECT count(*) FROM heldout_uses WHERE run_id = ?", (run_id,)
        ).fetchone()
    return int(count)


def refuse_used(ledger: Ledger, lock_sha256: str, trial_file: str, again: str | None) -> int:
    """The number of the use that a launch would be.

    Args:
        ledger: open.
        lock_sha256: of the lock that the launch runs under.
        trial_file: for the remedy.
        again: why the cases are used again; None when they must be unused.

    Raises:
        UsageError: they were used, and no reason was given; or an empty one.
    """
    if again is not None and not again.strip():
        raise UsageError(
            "--heldout-again is empty", remedy="say why: --heldout-again 'a typo in case c7'"
        )
    earlier = uses_under(ledger, lock_sha256)
    if not earlier:
        return 1
    last = earlier[-1]
    if again is None:
        raise UsageError(
            f"the {last.cases} held-out cases of this lock were used by run {last.run_id} "
            f"({last.used}); cases that were looked at twice are no held-out cases any more",
            remedy=f"seatrial open {last.run_id}; or, with a reason that the report shows: "
            f"seatrial run --heldout-again REASON {trial_file}",
        )
    return last.use + 1


def begin_use(
    ledger: Ledger,
    *,
    lock_sha256: str,
    roles: Sequence[str],
    cases: Mapping[str, str],
    run_id: str,
    trial_file: str | None,
    reason: str | None,
    use: int,
    now: datetime,
) -> None:
    """Mark every case as used, all or none, before the first one is looked at.

    Args:
        ledger: open.
        lock_sha256: of the lock of the run.
        roles: model roles that will be given the cases.
        cases: hash of each case by its id.
        run_id: of the run that uses them.
        trial_file: of the trial.
        reason: why they are used again.
        use: the number of this use.
        now: a moment with a time zone.

    Raises:
        CouldNotJudgeError: another run took this use meanwhile; nothing is written then.
    """
    from sqlite3 import IntegrityError

    rows = [
        (lock_sha256, role, _storable(case), sha, use, run_id, trial_file, reason, now.isoformat())
        for role in roles
        for case, sha in cases.items()
    ]
    try:
        with ledger.transaction() as connection:
            connection.executemany(
                "INSERT INTO heldout_uses (lock_sha256, model_role, case_id, case_sha256, use, "
                "run_id, trial_file, reason, used) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
    except IntegrityError as error:
        earlier = uses_under(ledger, lock_sha256)
        who = next((one.run_id for one in earlier if one.use == use), "another run")
        raise CouldNotJudgeError(
            f"the held-out cases were used by {who} while this run trained (use {use})",
            remedy=f"seatrial open {who}",
        ) from error


def _storable(text: str) -> str:
    """A lone surrogate is legal in JSON and has no place in a database."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def seen_elsewhere(
    ledger: Ledger, lock_sha256: str, case_sha256s: Sequence[str]
) -> tuple[int, tuple[str, ...]]:
    """How many of these cases were used under other locks, and by which runs (newest first)."""
    with ledger.transaction() as connection:
        rows = connection.execute(
            "SELECT case_sha256, run_id, max(used) AS used FROM heldout_uses "
            "WHERE lock_sha256 <> ? GROUP BY case_sha256, run_id ORDER BY used DESC",
            (lock_sha256,),
        ).fetchall()
    wanted = set(case_sha256s)
    mine = [row for row in rows if row["case_sha256"] in wanted]
    runs = tuple(dict.fromkeys(str(row["run_id"]) for row in mine))
    return len({row["case_sha256"] for row in mine}), runs
