"""kill -9 at every statement and at random moments: one start at most, and a true ledger."""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.errors import UsageError
from seatrial.core.units import Money
from seatrial.store.atomic import append_line, create_exclusive, write_json
from seatrial.store.launch_values import LaunchRequest, Leg
from seatrial.store.ledger import open_ledger
from seatrial.store.reconcile import reconcile
from seatrial.store.state_folder import StateFolder, create_record

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=timezone.utc)
HASH = "a" * 64
CAP = Money(Decimal(2))


def child(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked process; its exit status (negative: the signal that ended it)."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            work()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class KillingConnection(sqlite3.Connection):
    """Ends its own process with SIGKILL before or after the N-th statement."""

    count = 0
    at = -1
    after = False

    def _counted(self, run: Callable[[], Any]) -> Any:
        kind = KillingConnection
        kind.count += 1
        if kind.count == kind.at and not kind.after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = run()
        if kind.count == kind.at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def execute(self, *args: Any) -> Any:
        return self._counted(lambda: super(KillingConnection, self).execute(*args))

    def executemany(self, *args: Any) -> Any:
        return self._counted(lambda: super(KillingConnection, self).executemany(*args))


def request_in(state: StateFolder, run_id: str, *, paid: bool = True) -> LaunchRequest:
    return LaunchRequest(
        key=f"{run_id}-main",
        run_id=run_id,
        record=state.record(run_id).folder,
        name="moves",
        engine="paid",
        plan_sha256=HASH,
        money=CAP,
        legs=(Leg("main", 60.0),),
        trial_file="/p/trial.toml",
        needs_authorization=paid,
    )


def authorize(state: StateFolder) -> None:
    with open_ledger(state.ledger) as ledger:
        ledger.authorize(
            who="Ada",
            engine="paid",
            money=CAP,
            plan_sha256=HASH,
            expires=NOW + timedelta(days=1),
            now=NOW,
        )


def live_once(state: StateFolder, run_id: str) -> None:
    """A whole launch as its processes make it; ``starts`` counts what was really started."""
    layout = create_record(state, run_id)
    with open_ledger(state.ledger) as ledger:
        row = ledger.intend(request_in(state, run_id), NOW)
        if not create_exclusive(layout.claim, b"{}"):
            raise AssertionError("somebody else holds the claim")
        ledger.mark_claimed(row.key, NOW)
        append_line(os.path.join(state.path, "starts"), run_id)
        write_json(layout.started, {"pid": os.getpid(), "t": "t", "mono": 0.0})
        ledger.mark_started(row.key, NOW, pid=os.getpid())
        write_json(layout.ended, {"reason": "natural", "t": "t", "seconds": 1, "exit_code": 0})
        ledger.mark_ended(row.key, NOW, exit_code=0)


def starts(state: StateFolder) -> list[str]:
    path = Path(state.path) / "starts"
    return path.read_text().split() if path.exists() else []


def check_truth(state: StateFolder, run_id: str) -> str:
    """What must hold after any death of ``live_once``; the state that the launch came to."""
    layout = state.record(run_id)
    with open_ledger(state.ledger) as ledger:
        faults = ledger._connection.execute("PRAGMA foreign_key_check").fetchall()
        assert faults == []
        reconcile(ledger, NOW)
        rows = ledger.launches(run_id=run_id)
        assert len(rows) <= 1
        (authorization,) = ledger.authorizations()
        assert (authorization.used_by is not None) == bool(rows)
        again = reconcile(ledger, NOW)
        assert again == (), "a second look finds nothing left to do"
    found = rows[0].state if rows else "never intended"
    began = starts(state)
    assert len(began) <= 1
    if found in ("abandoned", "never intended"):
        assert began == []
    else:
        assert found == "ended"
        assert rows[0].reason == ("natural" if os.path.exists(layout.ended) else "lost")
    if rows:
        assert not create_exclusive(layout.claim, b"{}"), "a late starter finds the claim taken"
    return found


def spend_again(state: StateFolder) -> bool:
    """Whether the one authorization still buys a launch."""
    with open_ledger(state.ledger) as ledger:
        try:
            ledger.intend(request_in(state, "run-2"), NOW)
        except UsageError as error:
            assert "was used by run run-1" in error.message
            return False
    return True


def _count_statements(state: StateFolder) -> int:
    KillingConnection.count, KillingConnection.at = 0, -1
    live_once(state, "run-1")
    return KillingConnection.count


def test_killed_at_every_statement_it_stays_true(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sqlite3, "connect", functools.partial(sqlite3.connect, factory=KillingConnection)
    )
    fresh = StateFolder(str(quick_folder / "fresh"))
    authorize(fresh)
    total = _count_statements(fresh)
    assert total > 20
    seen = set()
    for at in range(1, total + 1):
        for after in (False, True):
            KillingConnection.at = -1
            state = StateFolder(str(quick_folder / "state"))
            authorize(state)

            def doomed(state: StateFolder = state, at: int = at, after: bool = after) -> None:
                KillingConnection.count, KillingConnection.at = 0, at
                KillingConnection.after = after
                live_once(state, "run-1")

            assert child(doomed) == -signal.SIGKILL
            KillingConnection.at = -1
            found = check_truth(state, "run-1")
            assert spend_again(state) == (found == "never intended")
            seen.add(found)
            shutil.rmtree(state.path)
    assert seen == {"never intended", "abandoned", "ended"}


def test_killed_while_the_file_is_made_it_opens_again(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sqlite3, "connect", functools.partial(sqlite3.connect, factory=KillingConnection)
    )
    for at in range(1, 40):
        path = str(quick_folder / f"{at}.db")

        def doomed(path: str = path, at: int = at) -> None:
            KillingConnection.count, KillingConnection.at = 0, at
            KillingConnection.after = True
            open_ledger(path).close()

        status = child(doomed)
        KillingConnection.at = -1
        with open_ledger(path) as ledger:
            assert ledger.launches() == ()
        if status == 0:
            return
    raise AssertionError("opening takes more statements than this test covers")


def _killed_at_random(state: StateFolder, delay_s: float) -> str:
    authorize(state)
    pid = os.fork()
    if pid == 0:
        try:
            live_once(state, "run-1")
        finally:
            os._exit(0)
    time.sleep(delay_s)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    found = check_truth(state, "run-1")
    assert spend_again(state) == (found == "never intended")
    return found


@pytest.mark.parametrize(
    "rounds", [25, pytest.param(400, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_killed_at_random_moments_it_stays_true(quick_folder: Path, rounds: int) -> None:
    calm = StateFolder(str(quick_folder / "calm"))
    authorize(calm)
    began = time.monotonic()
    assert child(lambda: live_once(calm, "run-1")) == 0
    usual_s = time.monotonic() - began
    dice = random.Random(17)
    seen = []
    for _ in range(rounds):
        state = StateFolder(str(quick_folder / "state"))
        seen.append(_killed_at_random(state, dice.uniform(0, usual_s)))
        shutil.rmtree(state.path)
    assert len(seen) == rounds
    assert "ended" in seen


def test_of_twenty_processes_one_gets_the_authorization(quick_folder: Path) -> None:
    state = StateFolder(str(quick_folder / "state"))
    authorize(state)
    gate_in, gate_out = os.pipe()
    children = []
    for number in range(20):
        pid = os.fork()
        if pid == 0:
            os.close(gate_out)
            os.read(gate_in, 1)  # all wake when the parent closes its end
            try:
                with open_ledger(state.ledger) as ledger:
                    ledger.intend(request_in(state, f"run-{number}"), NOW)
                os._exit(0)
            except UsageError:
                os._exit(2)
            finally:
                os._exit(70)
        children.append(pid)
    os.close(gate_in)
    os.close(gate_out)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert sorted(codes) == [0] + [2] * 19
    with open_ledger(state.ledger) as ledger:
        (row,) = ledger.launches()
        assert ledger.authorizations()[0].used_by == row.run_id == f"run-{codes.index(0)}"


def test_twenty_processes_make_one_ledger(quick_folder: Path) -> None:
    state = StateFolder(str(quick_folder / "state"))
    children = []
    for number in range(20):
        pid = os.fork()
        if pid == 0:
            try:
                with open_ledger(state.ledger) as ledger:
                    request = request_in(state, f"run-{number}", paid=False)
                    object.__setattr__(request, "trial_file", None)
                    ledger.intend(request, NOW)
                os._exit(0)
            finally:
                os._exit(70)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert codes == [0] * 20
    with open_ledger(state.ledger) as ledger:
        assert len(ledger.launches()) == 20
