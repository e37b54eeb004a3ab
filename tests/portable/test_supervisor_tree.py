"""All processes of a run are found and ended, and no other process is touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_run import is_alive, supervised

from seatrial.supervisor import processes
from seatrial.supervisor.processes import (
    Process,
    parse_ps,
    parse_stat,
    read_process,
    read_table,
    send_signal,
)
from seatrial.supervisor.tree import RunTree, TreeEnding, end_tree, start_ticks_of

CHILD = "import os,signal,sys,time\nopen(sys.argv[1],'w').write(str(os.getpid()))\n"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
SPAWN = f"""
def child(name, code, **options):
    subprocess.Popen([sys.executable, "-I", "-S", "-c", {CHILD!r} + code, name + ".pid"], **options)
def daemon(name, code):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable,
                [sys.executable, "-I", "-S", "-c", {CHILD!r} + code, name + ".pid"])
        os._exit(0)
def ready(*names):
    while not all(os.path.exists(n + ".pid") and open(n + ".pid").read() for n in names):
        time.sleep(0.02)
deaf = {DEAF!r} + "time.sleep(60)"
"""


def _pid(run: object, name: str) -> int:
    return int(run.text(run.file(name + ".pid")))  # type: ignore[attr-defined]


def test_children_with_sessions_of_their_own_without_marker_and_daemons_are_ended() -> None:
    script = (
        SPAWN
        + """
child("plain", deaf)
child("session", deaf, start_new_session=True)
child("bare", deaf, env={}, start_new_session=True)
daemon("daemon", deaf)
ready("plain", "session", "bare", "daemon")
step(1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""
    )
    with supervised(script, wall_s=2.5, grace_s=0.5) as run:
        assert run.ended["reason"] == "wall" and run.ended["left_running"] == []
        assert run.ended["forced"] and run.ended["signal"] == signal.SIGKILL
        for name in ("plain", "session", "bare", "daemon"):
            assert not is_alive(_pid(run, name)), name


def test_a_training_that_forks_and_leaves_is_followed_to_its_end() -> None:
    script = (
        SPAWN
        + """
step(1)
if os.fork() == 0:
    os.setsid()
    for number in range(2, 16):
        time.sleep(0.1)
        step(number)
    open("finished", "w").close()
    end()
    os._exit(4)
os._exit(0)
"""
    )
    with supervised(script) as run:
        assert os.path.exists(run.file("finished"))
        assert run.ended["reason"] == "natural" and run.ended["exit_code"] == 0
        assert run.ended["seconds"] > 1.3 and not run.ended["forced"]
        assert "exit code 4" in run.said("orphan_left")


def test_a_process_of_somebody_else_is_never_touched() -> None:
    stranger = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"],
        env={"SEATRIAL_RUN_ID": "fake-other", "NOTE": "SEATRIAL_RUN_ID=fake"},
        start_new_session=True,
    )
    try:
        with supervised("step(1)\ntime.sleep(60)", wall_s=0.5, grace_s=0.3) as run:
            assert run.ended["reason"] == "wall"
        assert stranger.poll() is None
        # A reused pid: the same number with another start is not the process that was meant.
        ticks = start_ticks_of(stranger.pid)
        assert ticks is not None
        assert send_signal((stranger.pid, ticks - 1), signal.SIGKILL) is False
        assert stranger.poll() is None
        tree = RunTree("nobody", os.getpid(), frozenset({stranger.pid}))
        tree.set_runner(stranger.pid, ticks - 1)  # its session would match by number alone
        assert stranger.pid not in {process.pid for process in tree.members()}
        tree.set_runner(stranger.pid, ticks)
        assert send_signal((stranger.pid, ticks), signal.SIGTERM) is True
        assert stranger.wait(10) == -signal.SIGTERM
        assert send_signal((stranger.pid, ticks), signal.SIGTERM) is False
    finally:
        stranger.kill()
        stranger.wait()


def test_the_marker_finds_what_the_parent_chain_does_not() -> None:
    marked = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"],
        env={"SEATRIAL_RUN_ID": "marked-run"},
        start_new_session=True,
    )
    keeper = subprocess.Popen(["sleep", "60"])  # a keeper that is no ancestor of it
    try:
        tree = RunTree("marked-run", keeper.pid)
        assert [process.pid for process in tree.members()] == [marked.pid]
        assert RunTree("marked", keeper.pid).members() == ()
        assert RunTree("marked-run2", keeper.pid).members() == ()
        assert end_tree(tree, 2.0, between=marked.poll) == ()
        assert marked.wait(5) == -signal.SIGTERM
    finally:
        for process in (marked, keeper):
            process.kill()
            process.wait()


def test_a_stopped_process_takes_term_and_kill_now_cuts_the_grace_short() -> None:
    code = "import time,sys; print(1, flush=True); time.sleep(60)"
    for grace, expected in ((20.0, signal.SIGTERM), (0.0, signal.SIGKILL)):
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],
            env={"SEATRIAL_RUN_ID": "stopped-run"},
            stdout=subprocess.PIPE,
        )
        keeper = subprocess.Popen(["sleep", "60"])
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        child.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        ending = TreeEnding(RunTree("stopped-run", keeper.pid), begin, 20.0)
        if grace == 0.0:
            ending.kill_now(begin)
        while ending.step(time.monotonic()) is None:
            child.poll()
            time.sleep(0.02)
        assert child.wait(5) == -expected and time.monotonic() - begin < 15  # far from the grace
        keeper.kill()
        keeper.wait()


def test_stat_lines_of_any_name_are_read() -> None:
    line = b"42 (a) b (c)) R 7 8 9 0 -1 0 0 0 0 0 100 200 5 5 20 0 3 0 12345 1000 25 0\n"
    process = parse_stat(line)
    assert process is not None
    assert (process.pid, process.ppid, process.sid, process.state) == (42, 7, 9, "R")
    assert process.start_ticks == 12345 and process.threads == 3
    assert process.rss_bytes == 25 * os.sysconf("SC_PAGE_SIZE")
    assert parse_stat(b"") is None and parse_stat(b"42 (x) R 1") is None
    zombie = Process(1, 0, 1, "Z", 1, 0.0, 0, 1)
    assert not zombie.is_alive and zombie._replace(threads=2).is_alive


def test_ps_stands_in_where_there_is_no_proc() -> None:
    text = (
        "  501   1   501  2048 S    0:01.50 Mon Nov 30 22:00:00 2026\n"
        "  502 501   501  1024 Z+ 1-02:00:03 Mon Nov 30 22:00:01 2026\n"
        "garbage\n"
    )
    table = parse_ps(text)
    assert sorted(table) == [501, 502]
    assert table[501].rss_bytes == 2 << 20 and table[501].cpu_seconds == 1.5
    assert table[502].cpu_seconds == 86400 + 7203 and not table[502].is_alive
    assert table[501].start_ticks != table[502].start_ticks
    real = read_process(os.getpid())
    processes.HAS_PROC = False
    try:
        seen = read_table().get(os.getpid())
    finally:
        processes.HAS_PROC = True
    if seen is not None and real is not None:  # this machine has a ps
        assert seen.ppid == real.ppid and seen.rss_bytes > 0
