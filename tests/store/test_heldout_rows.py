"""Uses of held-out cases: once under a lock, all or none, whoever races and whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

from seatrial.core.errors import CouldNotJudgeError, UsageError
from seatrial.store.heldout_rows import (
    begin_use,
    refuse_used,
    seen_elsewhere,
    used_by_run,
    uses_under,
)
from seatrial.store.ledger import Ledger, open_ledger

LOCK, OTHER = "ab" * 32, "cd" * 32
CASES = {f"c{i}": f"{i:064x}" for i in range(3)}
NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)


def begin(
    ledger: Ledger,
    run_id: str = "run-1",
    use: int = 1,
    lock: str = LOCK,
    roles: Sequence[str] = ("trained", "base"),
    reason: str | None = None,
) -> None:
    begin_use(
        ledger, lock_sha256=lock, roles=roles, cases=CASES, run_id=run_id, trial_file="t.toml",
        reason=reason, use=use, now=NOW,
    )  # fmt: skip


def test_unused_cases_are_use_one_and_a_second_use_is_refused_by_name(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "ledger.db")) as ledger:
        assert refuse_used(ledger, LOCK, "t.toml", None) == 1
        begin(ledger)
        with pytest.raises(UsageError) as caught:
            refuse_used(ledger, LOCK, "t.toml", None)
        assert "run-1" in caught.value.message
        assert "the 3 held-out cases" in caught.value.message
        assert "seatrial run --heldout-again REASON t.toml" in caught.value.remedy
        assert refuse_used(ledger, OTHER, "t.toml", None) == 1


def test_a_reason_starts_the_next_numbered_use(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "ledger.db")) as ledger:
        begin(ledger)
        assert refuse_used(ledger, LOCK, "t.toml", "a typo") == 2
        begin(ledger, "run-2", 2, reason="a typo")
        assert refuse_used(ledger, LOCK, "t.toml", "another") == 3
        first, second = uses_under(ledger, LOCK)
        assert (first.use, first.run_id, first.cases, first.reason) == (1, "run-1", 3, None)
        assert (second.use, second.run_id, second.reason) == (2, "run-2", "a typo")
        for empty in ("", "  \n"):
            with pytest.raises(UsageError, match="empty"):
                refuse_used(ledger, LOCK, "t.toml", empty)


def test_the_same_use_a_second_time_writes_nothing(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "ledger.db")) as ledger:
        begin(ledger, roles=("trained",))
        with pytest.raises(CouldNotJudgeError, match="run-1"):
            begin(ledger, "run-2")  # "trained" clashes: not even "base" may be written
        assert (used_by_run(ledger, "run-1"), used_by_run(ledger, "run-2")) == (3, 0)


def test_cases_used_under_other_locks_are_counted_newest_run_first(tmp_path: Path) -> None:
    with open_ledger(str(tmp_path / "ledger.db")) as ledger:
        begin(ledger, "old", lock=OTHER)
        begin(ledger, "mine")
        assert seen_elsewhere(ledger, LOCK, list(CASES.values())) == (3, ("old",))
        assert seen_elsewhere(ledger, LOCK, ["ff" * 32]) == (0, ())
        assert seen_elsewhere(ledger, "ee" * 32, [CASES["c0"]])[0] == 1


RACER = """
import sys, time
from datetime import datetime, timezone
from seatrial.core.errors import CouldNotJudgeError
from seatrial.store.heldout_rows import begin_use
from seatrial.store.ledger import open_ledger
path, name, count, start = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
cases = {f"c{i}": f"{i:064x}" for i in range(count)}
with open_ledger(path) as ledger:
    print("ready", flush=True)
    time.sleep(max(0.0, start - time.time()))
    try:
        begin_use(ledger, lock_sha256="ab" * 32, roles=["trained", "base"], cases=cases,
                  run_id=name, trial_file=None, reason=None, use=1,
                  now=datetime.now(timezone.utc))
        print("won", flush=True)
    except CouldNotJudgeError as error:
        print("lost", error.message, flush=True)
"""


def racer(path: Path, name: str, count: int, start: float) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", RACER, str(path), name, str(count), str(start)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_of_processes_that_race_one_wins_and_the_others_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    open_ledger(str(path)).close()
    start = time.time() + 1.5
    racers = [racer(path, f"run-{n}", 50, start) for n in range(4)]
    told = [one.communicate(timeout=60)[0] for one in racers]
    winners = [n for n, text in enumerate(told) if "won" in text]
    assert len(winners) == 1, told
    assert sum("lost" in text and f"run-{winners[0]}" in text for text in told) == 3
    with open_ledger(str(path)) as ledger:
        counts = [used_by_run(ledger, f"run-{n}") for n in range(4)]
    assert sorted(counts) == [0, 0, 0, 100]


def test_a_process_killed_at_any_moment_leaves_all_rows_or_none(quick_folder: Path) -> None:
    count, seen = 20_000, set[int]()
    for number, delay in enumerate((0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 5.0)):
        path = quick_folder / f"{number}.db"
        open_ledger(str(path)).close()
        one = racer(path, "run", count, 0.0)
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
        if delay < 5.0:
            time.sleep(delay)
            os.kill(one.pid, signal.SIGKILL)
        one.communicate(timeout=60)
        with open_ledger(str(path)) as ledger:
            seen.add(used_by_run(ledger, "run"))
    assert seen <= {0, 2 * count}
    assert 2 * count in seen
