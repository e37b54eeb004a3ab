"""The local engine with the real supervisor: started once, detached, its message taken."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from seatrial.core.errors import CouldNotJudgeError, UsageError
from seatrial.core.gates.settings import settings_for
from seatrial.core.plan import Plan
from seatrial.core.trial import Bounds, RunnerSpec, Trial
from seatrial.engines import ENGINES, Launch, engine_named, launch_once
from seatrial.readers.record import read_ended, read_started
from seatrial.store.ledger import open_ledger
from seatrial.store.liveness import pid_alive
from seatrial.store.reconcile import reconcile
from seatrial.store.records import keepers_alive, run_state
from seatrial.store.state_folder import StateFolder, create_record


def clock() -> datetime:
    return datetime.now(timezone.utc)


def wait_for(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def launch_in(state: StateFolder, run_id: str, code: str) -> Launch:
    argv = (sys.executable, "-c", code)
    create_record(state, run_id)
    bounds = Bounds(5, 20.0, 2**30)
    trial = Trial("t", RunnerSpec(argv), bounds, ad_hoc=True)
    plan = Plan(
        run_id=run_id,
        record=state.record(run_id).folder,
        command=argv,
        cwd=str(Path(state.path).parent),
        max_steps=5,
        wall_s=20.0,
        memory_bytes=2**30,
        ad_hoc=True,
        gates=settings_for(trial).to_json(),
        grace_s=1.0,
    )
    return Launch(f"{run_id}-main", plan, argv, {"PATH": os.environ["PATH"], "MARK": "ö\udcff"})


def test_a_run_is_started_once_and_reaches_its_end(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "state"))
    code = "import os\nmark = os.environb[b'MARK'].hex()\nopen('starts', 'a').write(mark + '\\n')\n"
    launch = launch_in(state, "run-1", code)
    with open_ledger(state.ledger) as ledger:
        handle = launch_once(ledger, ENGINES["local"], launch, clock)
        assert handle.pid is not None
        assert os.getsid(handle.pid) != os.getsid(0)
        wait_for(lambda: read_ended(launch.layout) is not None)
        reconcile(ledger, clock())
        row = ledger.launch(launch.key)
        assert row is not None
        assert (row.state, row.exit_code, row.reason) == ("ended", 0, "natural")
        started = read_started(launch.layout)
        assert started is not None
        assert (row.pid, row.start_ticks) == (started.pid, started.start_ticks)
        assert ENGINES["local"].find(launch.key, launch.plan.record) is not None
        with pytest.raises(UsageError, match="nothing is started twice"):
            launch_once(ledger, ENGINES["local"], launch, clock)
    assert (tmp_path / "starts").read_text() == "c3b6ff\n"
    wait_for(lambda: not keepers_alive(launch.layout))
    assert run_state(launch.layout) in ("finalizing", "ended")


def test_it_outlives_its_starter_and_the_next_command_knows_it(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "state"))
    launch = launch_in(state, "run-1", "import time; time.sleep(60)")
    pid = os.fork()
    if pid == 0:
        try:
            with open_ledger(state.ledger) as ledger:
                launch_once(ledger, ENGINES["local"], launch, clock)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    wait_for(lambda: read_started(launch.layout) is not None)
    with open_ledger(state.ledger) as ledger:
        (row,) = reconcile(ledger, clock())
        assert row.state == "started"
        assert run_state(launch.layout) == "running"
    started = read_started(launch.layout)
    assert started is not None
    os.kill(started.pid, signal.SIGKILL)
    wait_for(lambda: read_ended(launch.layout) is not None)
    wait_for(lambda: not pid_alive(started.pid, started.start_ticks))


def test_a_supervisor_that_cannot_start_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import seatrial.engines.local as local

    state = StateFolder(str(tmp_path / "state"))
    launch = launch_in(state, "run-1", "pass")
    monkeypatch.setattr(local, "entry_command", lambda _python: ("/nowhere/python",))
    with open_ledger(state.ledger) as ledger:
        with pytest.raises(CouldNotJudgeError, match="did not start run-1: cannot start /nowhere"):
            launch_once(ledger, ENGINES["local"], launch, clock)
        row = ledger.launch(launch.key)
        assert row is not None
        assert row.state == "abandoned"
    assert os.path.exists(launch.layout.claim)


def test_an_unknown_engine_is_named() -> None:
    assert engine_named("local").name == "local"
    with pytest.raises(UsageError, match="there is no engine 'slurm'; there are: local"):
        engine_named("slurm")


def test_a_record_is_kept_while_the_guard_closes_it(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / "state"))
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    launch = launch_in(state, "run-1", stubborn)
    with open_ledger(state.ledger) as ledger:
        launch_once(ledger, ENGINES["local"], launch, clock)
        wait_for(lambda: read_started(launch.layout) is not None)
        started = read_started(launch.layout)
        assert started is not None
        os.kill(started.supervisor_pid, signal.SIGKILL)
        while read_ended(launch.layout) is None:
            assert keepers_alive(launch.layout) or read_ended(launch.layout) is not None
            time.sleep(0.02)
        wait_for(lambda: not pid_alive(started.pid, started.start_ticks))
        (row,) = reconcile(ledger, clock())
        assert (row.state, row.reason) == ("ended", "supervisor_lost")
