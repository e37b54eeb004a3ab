"""Closed streams, a removed folder, a moment of Ctrl-C: the terminal may be in any state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


def _shell(place: Any, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], cwd=place.folder, env={**place.env, "PY": sys.executable},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_a_closed_stream_is_no_fault_of_the_run(place: Any, closed: str) -> None:
    place.write("quick.py", "print('hello')\n")
    done = _shell(place, f'"$PY" -m seatrial run -- "$PY" quick.py {closed}')
    assert done.returncode == 3, done.stderr
    assert json.loads((place.record() / "result.json").read_text())["outcome"] == "completed"


def test_a_reader_that_leaves_early_is_no_fault(place: Any) -> None:
    place.write("chatty.py", "for n in range(20000): print('line', n)\n")
    done = _shell(place, 'set -o pipefail; "$PY" -m seatrial run -- "$PY" chatty.py | head -1')
    assert "fault of ours" not in done.stderr
    assert json.loads((place.record() / "result.json").read_text())["outcome"] == "completed"


@pytest.mark.parametrize("words", ["run -- ls", "list", "status", "authorize --list"])
def test_a_folder_that_is_gone_is_a_usage_error(place: Any, words: str) -> None:
    (place.folder / "gone").mkdir()
    done = _shell(place, f'cd gone; rmdir ../gone; unset SEATRIAL_DIR; "$PY" -m seatrial {words}')
    assert done.returncode == 2, done.stderr
    assert "gone" in done.stderr


@pytest.mark.parametrize("after", [0.05, 0.12, 0.2, 0.3, 0.45, 0.7])
def test_ctrl_c_at_any_moment_leaves_no_traceback_and_nothing_running(
    place: Any, after: float
) -> None:
    place.write("slow.py", "import time\ntime.sleep(20)\n")
    view = place.start("run", "--json", "--", sys.executable, "slow.py")
    time.sleep(after)
    view.send_signal(signal.SIGINT)
    out, err = view.communicate(timeout=60)
    # Before Python itself has read its first module of ours, the interpreter answers alone.
    if view.returncode in (-signal.SIGINT, 1) and "seatrial" not in err:
        assert not (place.folder / ".seatrial").exists()
        return
    assert view.returncode == 130, err
    assert "Traceback" not in err
    assert json.loads(out)["exit_code"] == 130
    runs = place.folder / ".seatrial" / "runs"
    if runs.is_dir() and any(runs.iterdir()):
        assert place.left_running() == []
    assert os.path.exists(place.folder)


@pytest.mark.parametrize("target", [".seatrial", "record"])
def test_a_record_that_the_script_removes_is_lost_and_nothing_is_left(
    place: Any, wait_until: Any, target: str
) -> None:
    path = "os.environ['SEATRIAL_RECORD']" if target == "record" else "'.seatrial'"
    # What the supervisor writes meanwhile makes a single try fail now and then.
    remove = f"path = {path}\nwhile os.path.isdir(path): shutil.rmtree(path, ignore_errors=True)"
    place.write("remove.py", f"import os, shutil, time\n{remove}\ntime.sleep(60)\n")
    answer = place.run(sys.executable, "remove.py")
    assert (answer.code, answer.result["outcome"]) == (3, "lost"), answer.err
    assert "removed" in answer.err
    if target == "record":
        assert place.seatrial("list").code == 0
    wait_until(lambda: not _running(str(place.folder)), 15)


def _running(folder: str) -> list[str]:
    """Processes that stand in a folder."""
    entries = Path("/proc").glob("[0-9]*/cwd")
    return [entry.parent.name for entry in entries if _target(entry) == folder]


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""


def test_a_record_that_loses_its_plan_is_lost(place: Any) -> None:
    place.write(
        "part.py",
        "import os\nos.remove(os.environ['SEATRIAL_RECORD'] + '/plan.json')\n",
    )
    answer = place.run(sys.executable, "part.py")
    assert (answer.code, answer.result["outcome"]) == (3, "lost"), answer.err
    assert "removed" in answer.err


def test_a_file_in_the_place_of_the_state_folder_is_named(place: Any) -> None:
    place.write(".seatrial", "not a folder")
    place.write("quick.py", "print(1)\n")
    answer = place.seatrial("run", "--", sys.executable, "quick.py")
    assert answer.code == 2
    assert "in the way" in answer.err
