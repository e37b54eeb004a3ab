"""Supervisor and guard die, the record goes away, the disk fills: the training ends, truthfully."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_run import FakeRun, is_alive, start

from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.claim import claim_start, is_claimed_by
from seatrial.supervisor.record_files import create_json, read_json, replace_json

DEAF = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-I", "-S", "-c",
    "import os,signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "open('child.pid', 'w').write(str(os.getpid())); time.sleep(60)"],
    env={}, start_new_session=True)
while not os.path.exists("child.pid") or not open("child.pid").read(): time.sleep(0.02)
step(1)
while True:
    time.sleep(0.1)
    try: print("going on", flush=True)
    except OSError: pass
"""


def _running(run: FakeRun) -> int:
    run.until(lambda: os.path.exists(run.layout.events(0)) and run.started)
    return int(run.started["supervisor_pid"])


def test_when_the_supervisor_dies_the_training_ends_within_ten_seconds_and_the_record_says_so() -> (
    None
):
    look = "print('finalized', open('launch/ended.json').read())"
    run = start(DEAF, finalizer=(sys.executable, "-c", look))
    supervisor = _running(run)
    child = int(run.text(run.file("child.pid")))
    begin = time.monotonic()
    os.kill(supervisor, signal.SIGKILL)
    run.wait(15)
    assert time.monotonic() - begin < 10
    assert not is_alive(run.started["pid"]) and not is_alive(child)
    assert run.ended["reason"] == "supervisor_lost" and run.ended["left_running"] == []
    assert "SIGKILL" in run.ended["message"] and run.ended["forced"]
    (event,) = run.events(run.layout.guard_events)
    assert event["event"] == "run.state" and event["data"]["state"] == "supervisor_lost"
    assert "finalized" in run.text(run.layout.supervisor_log)
    assert run.process is not None and run.process.returncode == 1
    run.clean()


def test_when_the_guard_dies_the_run_goes_on_and_the_record_says_so() -> None:
    run = start("step(1)\nwhile not os.path.exists('go'): time.sleep(0.05)\nend()\nsys.exit(5)")
    supervisor = _running(run)
    assert run.process is not None
    os.kill(run.process.pid, signal.SIGKILL)
    run.process.communicate()
    run.until(lambda: "guard_lost" in run.states())
    open(run.file("go"), "w").close()
    run.until(lambda: run.ended and not is_alive(supervisor))
    assert run.ended["reason"] == "natural" and run.ended["exit_code"] == 5
    run.clean()


def test_a_signal_to_the_guard_stops_the_run_and_the_terminals_signals_do_not() -> None:
    run = start("step(1)\nwhile not asked(): time.sleep(0.05)\nend('stop_request')")
    supervisor = _running(run)
    assert run.process is not None
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        os.kill(run.process.pid, number)
        os.kill(supervisor, number)
    time.sleep(0.4)
    assert is_alive(supervisor) and run.process.poll() is None and run.ended is None
    os.kill(run.process.pid, signal.SIGTERM)
    run.wait(10)
    assert run.ended["reason"] == "stop" and not run.ended["forced"]
    run.clean()


def test_of_many_that_start_one_run_exactly_one_does() -> None:
    folder = tempfile.mkdtemp()
    starts = os.path.join(folder, "starts")
    script = f"open({starts!r}, 'a').write('x'); step(1); time.sleep(0.5)"
    record = os.path.join(folder, "record")
    runs = [FakeRun(script, record=record, run_id="raced") for _ in range(20)]
    for run in runs:
        run.start()
    codes = sorted(run.wait().process.returncode for run in runs)  # type: ignore[union-attr]
    assert codes == [0] + [17] * 19
    with open(starts, encoding="ascii") as file:
        assert file.read() == "x"
    assert runs[0].ended["exit_code"] == 0
    for run in runs:
        run.clean()
    shutil.rmtree(folder)


def test_a_run_that_was_claimed_is_never_started_again_and_its_record_not_touched() -> None:
    run = FakeRun("open('started', 'w')")
    layout = run.layout
    os.makedirs(os.path.dirname(layout.claim))
    with open(layout.claim, "w", encoding="ascii") as file:
        file.write("{")  # whoever it was died in the middle of it
    run.start().wait()
    assert run.process is not None and run.process.returncode == 17
    assert not os.path.exists(run.file("started")) and run.ended is None
    assert not os.path.exists(layout.supervisor_events)
    run.clean()


def test_a_claim_is_created_once_and_whole() -> None:
    layout = RecordLayout(tempfile.mkdtemp())
    assert claim_start(layout, "a", "supervisor") is True
    assert claim_start(layout, "a", "supervisor") is False
    assert is_claimed_by(layout, os.getpid()) and not is_claimed_by(layout, 1)
    path = os.path.join(layout.folder, "x.json")
    assert create_json(path, {"a": 1}) is True and create_json(path, {"a": 2}) is False
    assert read_json(path) == {"a": 1}
    replace_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": "nan"}
    assert sorted(os.listdir(layout.folder)) == ["launch", "x.json"]
    assert os.listdir(os.path.dirname(layout.claim)) == ["claim.json"]
    shutil.rmtree(layout.folder)


def test_a_script_that_deletes_the_record_is_ended_without_a_traceback() -> None:
    run = start(
        f"step(1)\nimport shutil\n"
        # What the supervisor writes meanwhile makes a single try fail now and then.
        "while os.path.isdir(RECORD): shutil.rmtree(RECORD, ignore_errors=True)\n"
        f"{DEAF.replace('step(1)', '')}"
    )
    assert run.process is not None
    _, errors = run.process.communicate(timeout=20)
    assert b"Traceback" not in errors and run.process.returncode == 3
    assert not os.path.exists(run.record) and run.marked() == []
    run.clean()


def test_a_record_that_does_not_exist_or_cannot_be_written_starts_nothing() -> None:
    run = FakeRun("open('started', 'w')")
    shutil.rmtree(run.record)
    run.start().wait()
    assert run.process is not None and run.process.returncode == 3
    assert not os.path.exists(run.file("started")) and not os.path.exists(run.record)
    run.clean()


def test_a_full_disk_ends_the_run_cleanly_and_the_record_says_so() -> None:
    folder = tempfile.mkdtemp()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        os.rmdir(folder)
        raise unittest.SkipTest("a small tmpfs cannot be mounted here")
    try:
        script = "step(1)\nwhile True: print('x' * 10000, flush=True); time.sleep(0.005)"
        run = start(script, record=os.path.join(folder, "record"))
        run.wait(20)
        assert run.ended["reason"] == "supervisor_lost", run.ended
        assert "disk" in run.ended["message"] and "full" in run.ended["message"]
        assert run.ended["left_running"] == []
        log = run.text(run.layout.supervisor_log)
        assert "Traceback" not in log
        for event in run.text(run.layout.supervisor_events).splitlines():
            assert not event or json.loads(event)
        run.clean()
    finally:
        subprocess.run(["umount", folder], check=False)
        os.rmdir(folder)
