"""What takes seconds by its nature: graces, lingering children, floods, fork bombs.

These run under pytest only; their quicker siblings are in ``tests/portable``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "portable"))

from fake_run import is_alive, start, supervised, together

from seatrial.supervisor import leaving

DAEMON = """
def daemon(name):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open(name + ".pid", "w").write(str(os.getpid()))
            time.sleep(60)
        os._exit(0)
"""


def test_a_flood_of_output_neither_fills_the_disk_nor_stops_the_runner() -> None:
    script = """
line = b"x" * 99 + b"\\n"
for n in range(110):
    os.write(1, (b"%06d" % n) + line * 10000)
os.write(1, b"the last line\\n")
"""
    with supervised(script) as run:
        size = os.path.getsize(run.layout.stdout)
        assert run.ended["reason"] == "natural" and run.ended["exit_code"] == 0
        assert 80 << 20 < size < (80 << 20) + 4096
        assert sorted(os.listdir(run.layout.run)).count("stdout.log.tail0") == 0
        with open(run.layout.stdout, "rb") as file:
            assert file.read(6) == b"000000"
            file.seek(-100, os.SEEK_END)
            assert file.read().endswith(b"the last line\n")
        assert "bytes of output are not in the logs" in run.said("output_dropped")
        assert run.ended["seconds"] < 30


def test_a_line_without_an_end_is_shown_soon_and_kept_at_the_end() -> None:
    script = "os.write(1, b'Loading the model ... '); time.sleep(4)\nos.write(2, b'no newline')"
    run = start(script)
    seen = run.until(
        lambda: os.path.exists(run.layout.stdout) and "Loading" in run.text(run.layout.stdout), 3.8
    )
    assert seen
    run.wait()
    assert run.text(run.layout.stderr) == "no newline"
    run.clean()


def test_what_merely_lingers_is_ended_and_noted() -> None:
    assert leaving.LINGER_S == 10.0
    script = DAEMON + "step(1)\nend()\ndaemon('idle')\n"
    with supervised(script, gates={"linger_s": 1.5}) as run:
        assert run.ended["reason"] == "natural" and run.ended["exit_code"] == 0
        assert 1.5 <= run.ended["seconds"] < 15 and not run.ended["forced"]
        assert "idle processes stayed behind" in run.ended["message"]
        assert "lingering" in run.states() and not is_alive(int(run.text(run.file("idle.pid"))))


def test_a_fork_bomb_is_ended() -> None:
    script = """
step(1)
open("parent", "w").write(str(os.getpid()))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
begin = time.time()
while time.time() - begin < 30:
    try:
        # Every copy lives for a moment and forks on; at most about 60 at once.
        if len(os.listdir("/proc/self/task")) and os.fork() == 0:
            time.sleep(0.2)
        else:
            time.sleep(0.05)
            if os.getpid() != int(open("parent").read()):
                os._exit(0)
    except OSError:
        time.sleep(0.05)
"""
    with supervised(script, wall_s=1.2, grace_s=0.3) as run:
        assert run.ended["left_running"] == [] and run.ended["reason"] == "wall"


def test_runs_side_by_side_do_not_end_each_other() -> None:
    short = start("step(1)\ntime.sleep(60)", wall_s=0.6, grace_s=0.2)
    long = start("step(1)\ntime.sleep(2.0)\nend()")
    together(short, long)
    assert short.ended["reason"] == "wall" and long.ended["reason"] == "natural"
    assert long.ended["exit_code"] == 0
    short.clean()
    long.clean()


def test_who_ignores_the_request_is_terminated_and_who_ignores_that_is_killed() -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    busy = "step(1)\nwhile True: time.sleep(0.05)\n"
    soft = start(busy, wall_s=0.8, grace_s=0.5)
    hard = start(deaf + busy, wall_s=0.8, grace_s=0.5)
    together(soft, hard)
    assert soft.ended["forced"] and soft.ended["signal"] == signal.SIGTERM
    assert hard.ended["forced"] and hard.ended["signal"] == signal.SIGKILL
    assert "killing" in hard.states() and "killing" not in soft.states()
    soft.clean()
    hard.clean()
