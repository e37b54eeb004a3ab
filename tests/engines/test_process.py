"""The spawner: detached processes get their input and nothing else; capped ones end in time."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from seatrial.core.child import ChildRequest
from seatrial.core.errors import CouldNotJudgeError
from seatrial.process import pid_alive, start_detached, start_ticks
from seatrial.process.child import run_child
from seatrial.store.atomic import open_append

CODE = """
import os, sys
data = sys.stdin.buffer.read()
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
print(len(data), os.getsid(0) == os.getpid(), os.getcwd(), sorted(os.environ), fds[:3])
print("extra", [fd for fd in fds[3:] if os.path.exists(f"/proc/self/fd/{fd}")])
"""


def wait_until_gone(pid: int, ticks: int | None) -> None:
    until = time.monotonic() + 20
    while pid_alive(pid, ticks):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_detached_process_gets_a_large_input_and_a_clean_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    leak = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leak, True)
    with open_append(str(log)) as handle:
        pid, ticks = start_detached(
            (sys.executable, "-I", "-S", "-c", CODE), b"x" * 3_000_000, handle, "/", {"ONLY": "1"}
        )
    os.close(leak)
    assert ticks is not None
    wait_until_gone(pid, ticks)
    first, second = log.read_text().splitlines()
    assert first.startswith("3000000 True / ['")
    assert "ONLY" in first
    assert "PATH" not in first
    assert second == "extra []"


def test_one_that_never_reads_its_input_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import seatrial.process as process

    monkeypatch.setattr(process, "_HAND_OVER_S", 0.3)
    argv = (sys.executable, "-c", "import time; time.sleep(60)")
    refused = pytest.raises(CouldNotJudgeError, match="did not take its input")
    with open_append(str(tmp_path / "log")) as handle, refused:
        start_detached(argv, b"x" * 3_000_000, handle, "/", {})


def test_one_that_dies_at_once_is_said(tmp_path: Path) -> None:
    with open_append(str(tmp_path / "log")) as handle:
        with pytest.raises(CouldNotJudgeError, match="did not take its input"):
            start_detached(("/bin/true",), b"x" * 3_000_000, handle, "/", {})
        with pytest.raises(CouldNotJudgeError, match="cannot start /nowhere/x"):
            start_detached(("/nowhere/x",), b"", handle, "/", {})


def test_a_capped_child_is_read_to_its_end() -> None:
    code = "import sys; print(input()[::-1]); print('no', file=sys.stderr); sys.exit(3)"
    done = run_child(ChildRequest((sys.executable, "-c", code), 20, stdin=b"abc"))
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"cba\n", b"no\n")


def test_a_child_past_its_time_is_killed_with_its_children() -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    done = run_child(ChildRequest((sys.executable, "-c", code), 1.5))
    assert done.exit_code is None
    assert done.seconds < 20
    grandchild = int(done.stdout)
    wait_until_gone(grandchild, None)


def test_this_process_is_alive_and_nobody_with_its_pid_and_another_start() -> None:
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    assert pid_alive(os.getpid(), ticks)
    assert not pid_alive(os.getpid(), ticks + 1)
    assert not pid_alive(-1)
    assert start_ticks(2**22 + 1) is None
