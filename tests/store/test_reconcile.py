"""The ledger follows the records, after whatever died in between."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.units import Money
from seatrial.store.atomic import create_exclusive
from seatrial.store.launch_values import LaunchRequest, LaunchRow, Leg
from seatrial.store.ledger import Ledger, open_ledger
from seatrial.store.reconcile import reconcile
from seatrial.store.state_folder import StateFolder, create_record

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=timezone.utc)


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"))


@pytest.fixture
def ledger(state: StateFolder) -> Iterator[Ledger]:
    with open_ledger(state.ledger) as opened:
        yield opened


def gone() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


def intend(state: StateFolder, ledger: Ledger, *, starter_dies: bool) -> LaunchRow:
    layout = create_record(state, "r")
    request = LaunchRequest(
        key="r-main",
        run_id="r",
        record=layout.folder,
        name="n",
        engine="local",
        plan_sha256="a" * 64,
        money=Money(Decimal(0)),
        legs=(Leg("main", 1.0),),
    )
    row = ledger.intend(request, NOW)
    if starter_dies:
        ledger._connection.execute("UPDATE launches SET starter_pid = ?", (gone(),))
        put(layout.intent, {"pid": gone()})
    return row


def put(path: str, value: Any) -> None:
    Path(path).write_text(json.dumps(value))


def test_a_launch_that_is_being_started_is_left_alone(state: StateFolder, ledger: Ledger) -> None:
    row = intend(state, ledger, starter_dies=False)
    assert reconcile(ledger, NOW) == (row,)
    assert not os.path.exists(row.layout.claim)


def test_a_dead_starter_loses_the_claim(state: StateFolder, ledger: Ledger) -> None:
    row = intend(state, ledger, starter_dies=True)
    (after,) = reconcile(ledger, NOW)
    assert (after.state, after.reason) == ("abandoned", "starter_died")
    assert not create_exclusive(row.layout.claim, b"late")
    assert reconcile(ledger, NOW) == ()


def test_a_claim_taken_to_close_is_closed_by_the_next_one(
    state: StateFolder, ledger: Ledger
) -> None:
    row = intend(state, ledger, starter_dies=True)
    put(row.layout.claim, {"pid": 0, "abandoned": True})
    assert reconcile(ledger, NOW)[0].state == "abandoned"


def test_a_started_run_is_noted_with_its_process(state: StateFolder, ledger: Ledger) -> None:
    row = intend(state, ledger, starter_dies=True)
    put(row.layout.claim, {"pid": os.getpid()})
    assert reconcile(ledger, NOW)[0].state == "claimed"
    put(row.layout.started, {"pid": 77, "start_ticks": 5, "t": "", "mono": 0})
    (after,) = reconcile(ledger, NOW)
    assert (after.state, after.pid, after.start_ticks) == ("started", 77, 5)


def test_an_ended_run_is_closed_with_its_exit_code(state: StateFolder, ledger: Ledger) -> None:
    row = intend(state, ledger, starter_dies=True)
    put(row.layout.claim, {"pid": gone()})
    put(row.layout.started, {"pid": 77, "t": "", "mono": 0})
    put(row.layout.ended, {"reason": "gate", "exit_code": -15, "t": "", "seconds": 1})
    (after,) = reconcile(ledger, NOW)
    assert (after.state, after.reason, after.exit_code, after.pid) == ("ended", "gate", -15, 77)


@pytest.mark.parametrize("started", [True, False], ids=["started", "only claimed"])
def test_a_run_that_nobody_keeps_is_lost(state: StateFolder, ledger: Ledger, started: bool) -> None:
    row = intend(state, ledger, starter_dies=True)
    put(row.layout.claim, {"pid": gone()})
    if started:
        put(row.layout.started, {"pid": gone(), "t": "", "mono": 0})
    (after,) = reconcile(ledger, NOW)
    assert (after.state, after.reason, after.exit_code) == ("ended", "lost", None)


def test_an_empty_claim_counts_as_taken(state: StateFolder, ledger: Ledger) -> None:
    row = intend(state, ledger, starter_dies=True)
    Path(row.layout.claim).touch()
    assert reconcile(ledger, NOW)[0].reason == "lost"


def test_a_removed_record_does_not_block_for_ever(state: StateFolder, ledger: Ledger) -> None:
    row = intend(state, ledger, starter_dies=True)
    shutil.rmtree(row.record)
    assert reconcile(ledger, NOW)[0].reason == "record_removed"


def test_a_claimed_remote_launch_stays_for_the_engine_to_say(
    state: StateFolder, ledger: Ledger
) -> None:
    row = intend(state, ledger, starter_dies=True)
    put(row.layout.claim, {"pid": gone(), "remote": True})
    assert reconcile(ledger, NOW)[0].state == "claimed"
    ledger.mark_started(row.key, NOW, job_id="job-1")
    assert reconcile(ledger, NOW)[0].state == "started"
