"""One authorization, one submitted job: whatever is killed, dropped or tried again."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.errors import CouldNotJudgeError, UsageError
from seatrial.core.plan import Plan
from seatrial.core.units import Money
from seatrial.engines import Handle, Launch, launch_once, recover
from seatrial.store.ledger import Ledger, open_ledger
from seatrial.store.reconcile import reconcile
from seatrial.store.state_folder import StateFolder, create_record

_SPEC = importlib.util.spec_from_file_location(
    "seatrial_tests_fake_paid", Path(__file__).with_name("fake_paid.py")
)
assert _SPEC is not None and _SPEC.loader is not None
fake_paid: Any = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = fake_paid
_SPEC.loader.exec_module(fake_paid)
job_server, FakePaidEngine = fake_paid.job_server, fake_paid.FakePaidEngine

NOW = datetime(2026, 11, 30, 22, 0, tzinfo=timezone.utc)


def clock() -> datetime:
    return NOW


def plan_for(state: StateFolder, run_id: str) -> Plan:
    return Plan(
        run_id=run_id,
        record=state.record(run_id).folder,
        command=("python", "t.py"),
        cwd="/",
        max_steps=5,
        wall_s=600.0,
        memory_bytes=2**30,
        ad_hoc=False,
        engine="paid",
        money="2.00 USD",
        price_per_hour="3.00",
        trial={"file": "/p/trial.toml"},
    )


def launch_in(state: StateFolder, run_id: str = "run-1") -> Launch:
    create_record(state, run_id)
    plan = plan_for(state, run_id)
    return Launch(f"{run_id}-main", plan, ("python", "t.py"), {})


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"))


def authorize(state: StateFolder) -> None:
    with open_ledger(state.ledger) as ledger:
        ledger.authorize(
            who="Ada",
            engine="paid",
            money=Money(Decimal("2.00")),
            plan_sha256=plan_for(state, "any").sha256(),
            expires=NOW + timedelta(hours=1),
            now=NOW,
        )


def row_of(ledger: Ledger, key: str = "run-1-main") -> Any:
    row = ledger.launch(key)
    assert row is not None
    return row


def test_without_authorization_nothing_is_posted(state: StateFolder) -> None:
    with job_server("take") as server, open_ledger(state.ledger) as ledger:
        with pytest.raises(UsageError, match="no authorization covers this plan") as caught:
            launch_once(ledger, FakePaidEngine(server.port), launch_in(state), clock)
        assert caught.value.exit_code == 2
        assert caught.value.remedy == (
            "seatrial authorize /p/trial.toml --engine paid --money '2.00 USD' --who 'YOUR NAME'"
        )
        assert server.posts == []
        assert ledger.launches() == ()


def test_one_authorization_buys_one_job(state: StateFolder) -> None:
    authorize(state)
    with job_server("take") as server, open_ledger(state.ledger) as ledger:
        engine = FakePaidEngine(server.port)
        handle = launch_once(ledger, engine, launch_in(state), clock)
        assert handle == Handle(job_id="job-1")
        row = row_of(ledger)
        assert (row.state, row.job_id) == ("started", "job-1")
        ledger.mark_ended(row.key, NOW)
        with pytest.raises(UsageError, match="was used by run run-1"):
            launch_once(ledger, engine, launch_in(state, "run-2"), clock)
        assert server.posts == ["run-1-main"]


@pytest.mark.parametrize("behaviour", ["drop", "late"])
def test_a_lost_answer_is_asked_for_never_sent_again(state: StateFolder, behaviour: str) -> None:
    authorize(state)
    with job_server(behaviour) as server, open_ledger(state.ledger) as ledger:
        handle = launch_once(ledger, FakePaidEngine(server.port), launch_in(state), clock)
        assert handle.job_id == "job-1"
        assert row_of(ledger).job_id == "job-1"
        assert server.posts == ["run-1-main"]


def test_what_stays_unknown_is_said_and_never_sent_again(state: StateFolder) -> None:
    authorize(state)
    with job_server("lose") as server, open_ledger(state.ledger) as ledger:
        engine = FakePaidEngine(server.port)
        with pytest.raises(CouldNotJudgeError, match="It is not sent a second time") as caught:
            launch_once(ledger, engine, launch_in(state), clock)
        assert caught.value.exit_code == 3
        assert row_of(ledger).state == "claimed"
        with pytest.raises(UsageError, match="is running already, as run-1"):
            launch_once(ledger, engine, launch_in(state, "run-2"), clock)
        server.jobs.append({"key": "run-1-main", "id": "job-9"})
        assert recover(ledger, engine, row_of(ledger), clock) == Handle(job_id="job-9")
        assert recover(ledger, engine, row_of(ledger), clock) is None
        assert server.posts == ["run-1-main"]


def test_a_refusal_closes_the_launch(state: StateFolder) -> None:
    authorize(state)
    with job_server("refuse") as server, open_ledger(state.ledger) as ledger:
        with pytest.raises(CouldNotJudgeError, match="no money on this account"):
            launch_once(ledger, FakePaidEngine(server.port), launch_in(state), clock)
        assert row_of(ledger).state == "abandoned"
        assert server.jobs == []


def test_nobody_listening_closes_the_launch(state: StateFolder) -> None:
    authorize(state)
    with job_server("take") as server:
        port = server.port
    with open_ledger(state.ledger) as ledger:
        with pytest.raises(CouldNotJudgeError, match="nobody listens"):
            launch_once(ledger, FakePaidEngine(port), launch_in(state), clock)
        assert row_of(ledger).state == "abandoned"


def test_a_claim_that_somebody_took_stops_the_start(state: StateFolder) -> None:
    authorize(state)
    launch = launch_in(state)
    Path(launch.layout.claim).write_text("{}")
    with job_server("take") as server, open_ledger(state.ledger) as ledger:
        with pytest.raises(CouldNotJudgeError, match="was claimed by another process"):
            launch_once(ledger, FakePaidEngine(server.port), launch, clock)
        assert server.posts == []


def test_secrets_of_a_launch_do_not_show_in_its_text(state: StateFolder) -> None:
    launch = Launch("k", plan_for(state, "r"), ("prog", "--key=planted"), {"TOKEN": "planted"})
    assert "planted" not in repr(launch)


def start_and_die(state: StateFolder, launch: Launch, port: int) -> Callable[[], None]:
    def work() -> None:
        with open_ledger(state.ledger) as ledger:
            launch_once(ledger, FakePaidEngine(port), launch, clock)

    return work


def killed_after(work: Callable[[], None], delay_s: float) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(70)
    time.sleep(delay_s)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def settle(state: StateFolder, port: int) -> Any:
    """What the next command does after a crash."""
    with open_ledger(state.ledger) as ledger:
        reconcile(ledger, NOW)
        row = ledger.launch("run-1-main")
        if row is not None and row.state == "claimed":
            try:
                recover(ledger, FakePaidEngine(port), row, clock)
            except CouldNotJudgeError:
                pass
            row = ledger.launch("run-1-main")
        return row


def test_killed_between_post_and_answer_the_job_is_found(state: StateFolder) -> None:
    authorize(state)
    launch = launch_in(state)
    with job_server("slow") as server:
        pid = os.fork()
        if pid == 0:
            try:
                start_and_die(state, launch, server.port)()
            finally:
                os._exit(0)
        until = time.monotonic() + 10
        while not server.jobs and time.monotonic() < until:
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        row = settle(state, server.port)
        assert (row.state, row.job_id) == ("started", "job-1")
        assert server.posts == ["run-1-main"]


@pytest.mark.parametrize(
    "rounds", [8, pytest.param(150, marks=pytest.mark.slow)], ids=["short", "long"]
)
def test_killed_at_any_moment_there_is_at_most_one_job(
    tmp_path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[launch_once.__module__]
    monkeypatch.setattr(module, "_FIND_PAUSE_S", 0.01)
    states = set()
    with job_server("take") as server:
        for number in range(rounds):
            state = StateFolder(str(tmp_path / str(number)))
            authorize(state)
            launch = launch_in(state)
            server.posts.clear()
            server.jobs.clear()
            work = start_and_die(state, launch, server.port)
            killed_after(work, 0.06 * number / rounds)
            time.sleep(0.01)
            row = settle(state, server.port)
            assert len(server.posts) <= 1
            if server.jobs:
                assert (row.state, row.job_id) == ("started", "job-1")
            elif row is not None:
                assert row.state in ("abandoned", "claimed")
            states.add(row.state if row else None)
    assert states - {None}
