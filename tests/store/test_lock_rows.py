"""Locks and verdicts in the ledger: each once, in order, by trial file."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from seatrial.store.ledger import Ledger, open_ledger
from seatrial.store.lock_rows import (
    VerdictRow,
    locks_of,
    remember_lock,
    remember_verdict,
    verdicts_of,
)

NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)
ONE, TWO = "1" * 64, "2" * 64


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(str(tmp_path / "ledger.db"))


def verdict(run: str, lock: str | None = ONE, hours: int = 0, word: str = "pass") -> VerdictRow:
    decided = (NOW + timedelta(hours=hours)).isoformat()
    return VerdictRow(run, "/t/trial.toml", lock, word, "completed", 0, "It ran.", decided)


def test_locks_are_noted_once_and_come_back_in_order(ledger: Ledger) -> None:
    terms = {"bounds": {"max_steps": 5}, "x": [1.5, None, "é"]}
    assert remember_lock(ledger, "/t/trial.toml", ONE, terms, NOW)
    assert remember_lock(ledger, "/t/trial.toml", TWO, {}, NOW + timedelta(hours=1))
    assert not remember_lock(ledger, "/t/trial.toml", ONE, terms, NOW + timedelta(hours=2))
    assert remember_lock(ledger, "/other.toml", ONE, {}, NOW)
    found = locks_of(ledger, "/t/trial.toml")
    assert [(row.sha256, row.created) for row in found] == [
        (ONE, NOW.isoformat()),
        (TWO, (NOW + timedelta(hours=1)).isoformat()),
    ]
    assert found[0].terms == terms
    assert locks_of(ledger, "/none.toml") == ()


def test_terms_that_cannot_be_read_are_left_out(ledger: Ledger) -> None:
    remember_lock(ledger, "/t/trial.toml", ONE, {}, NOW)
    remember_lock(ledger, "/t/trial.toml", TWO, {}, NOW)
    with ledger.transaction() as connection:
        connection.execute("UPDATE locks SET terms = '[1' WHERE sha256 = ?", (ONE,))
    assert [row.sha256 for row in locks_of(ledger, "/t/trial.toml")] == [TWO]


def test_the_first_verdict_of_a_run_stays(ledger: Ledger) -> None:
    assert remember_verdict(ledger, verdict("b", hours=1))
    assert remember_verdict(ledger, verdict("a", hours=2, lock=None))
    assert not remember_verdict(ledger, verdict("b", hours=3, word="fail"))
    found = verdicts_of(ledger, "/t/trial.toml")
    assert [(row.run_id, row.verdict, row.lock_sha256) for row in found] == [
        ("b", "pass", ONE),
        ("a", "pass", None),
    ]
    assert found[0] == verdict("b", hours=1)
    assert verdicts_of(ledger, "/none.toml") == ()


def test_paths_that_are_no_utf8(ledger: Ledger) -> None:
    odd = "/t/\udcff\udce9 \u00e9/trial.toml"
    assert remember_lock(ledger, odd, ONE, {"x": "\udcff"}, NOW)
    assert not remember_lock(ledger, odd, ONE, {}, NOW)
    assert [row.terms for row in locks_of(ledger, odd)] == [{"x": "\udcff"}]
    assert remember_verdict(ledger, replace(verdict("a"), trial_file=odd))
    assert len(verdicts_of(ledger, odd)) == 1
