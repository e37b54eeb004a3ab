"""Odd places: stdout that takes nothing, copies where they must not be, ledgers that are none."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FAILS = "raise SystemExit(3)\n"


def _shell(place: Any, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], cwd=place.folder, env={**place.env, "PY": sys.executable},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("end", [">/dev/full", "| true"])
def test_an_answer_that_nobody_takes_changes_no_exit_code(place: Any, end: str) -> None:
    place.write("fails.py", FAILS)
    done = _shell(place, f'set -o pipefail; "$PY" -m seatrial run --json -- "$PY" fails.py {end}')
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "fault of ours" not in done.stderr


@pytest.mark.parametrize("words", ["list", "list --json", "schema run"])
def test_a_full_stdout_is_no_fault_of_ours(place: Any, words: str) -> None:
    done = _shell(place, f'"$PY" -m seatrial {words} >/dev/full')
    assert done.returncode == 3
    assert done.stderr.startswith("seatrial: the answer could not be written to stdout: No space")
    assert "next:" in done.stderr


def test_a_name_that_the_terminal_cannot_show_is_shown_with_escapes(place: Any) -> None:
    place.write("é.py", FAILS)
    plain = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    assert place.seatrial("run", "--", sys.executable, "é.py", env=plain).code == 1
    shown = place.seatrial("status", env=plain)
    assert shown.code == 0
    assert "\\xe9.py" in shown.out


def test_too_little_memory_for_seatrial_is_said_so(place: Any) -> None:
    place.write(
        "tight.py",
        "import resource, sys\n"
        "import seatrial.cli.main as entry\n"
        "import seatrial.cli.output, seatrial.cli.parser, seatrial.core.redaction\n"
        "real = seatrial.cli.parser.split_command\n"
        "def greedy(argv):\n"
        "    limit = resource.getrlimit(resource.RLIMIT_AS)\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, limit[1]))\n"
        "    return bytearray(1 << 32) and real(argv)\n"
        "seatrial.cli.parser.split_command = greedy\n"
        "sys.exit(entry.main(['list', '--json']))\n",
    )
    done = _shell(place, '"$PY" tight.py')
    assert done.returncode == 3, done.stderr
    assert "not enough memory for seatrial" in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 3


def test_ctrl_c_while_our_modules_load_is_answered(place: Any) -> None:
    """SIGINT from inside the first import below ``main``: the very first moment that is ours."""
    place.write(
        "early.py",
        "import builtins, os, signal, sys\n"
        "import seatrial.cli.main as entry\n"
        "real = builtins.__import__\n"
        "def once(name, *rest):\n"
        "    if name == 'seatrial.core.errors':\n"
        "        builtins.__import__ = real\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = once\n"
        "sys.exit(entry.main(['run', '--json', '--', 'true']))\n",
    )
    done = _shell(place, '"$PY" early.py')
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 130


def test_a_copy_never_goes_among_the_records(place: Any) -> None:
    place.write("fails.py", FAILS)
    words = ("--", sys.executable, "fails.py")
    state = place.folder / ".seatrial"
    answer = place.seatrial("run", "--json", "--out", str(state / "runs" / "mine"), *words)
    assert (answer.code, answer.result["outcome"]) == (2, None)
    assert "look like a run" in answer.err
    answer = place.seatrial("run", "--json", "--out", str(state), *words)
    assert answer.code == 2
    assert "would hold the state folder" in answer.err
    assert not state.exists()


@pytest.mark.parametrize(("out", "said"), [("", "--out is empty"), ("x" * 300, "too long")])
def test_a_copy_that_could_never_be_made_is_refused_before_the_run(
    place: Any, out: str, said: str
) -> None:
    place.write("fails.py", FAILS)
    answer = place.seatrial("run", "--json", "--out", out, "--", sys.executable, "fails.py")
    assert answer.code == 2
    assert said in answer.err
    assert "next:" in answer.err
    assert not (place.folder / ".seatrial").exists()


def test_a_copy_that_failed_says_what_to_do(place: Any) -> None:
    place.write("fills.py", "import pathlib\npathlib.Path('out/mine').write_text('x')\n")
    (place.folder / "out").mkdir()
    answer = place.run(sys.executable, "fills.py", options=("--out", "out"))
    (finding,) = [f for f in answer.result["findings"] if f["code"] == "out.not_written"]
    assert "not empty" in finding["message"]
    assert finding["remedy"]


def _pipe(ledger: Path) -> None:
    os.mkfifo(ledger)


def _folder(ledger: Path) -> None:
    ledger.mkdir()


def _garbage(ledger: Path) -> None:
    ledger.write_bytes(os.urandom(9000))


def _foreign(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.execute("CREATE TABLE launches (a)")


@pytest.mark.parametrize("make", [_pipe, _folder, _garbage, _foreign])
def test_a_ledger_that_is_none_is_refused_at_once(place: Any, make: Any) -> None:
    state = place.folder / ".seatrial"
    state.mkdir()
    make(state / "ledger.db")
    place.write("fails.py", FAILS)
    answer = place.run(sys.executable, "fails.py", timeout=20)
    assert answer.code == 2
    assert "ledger.db" in answer.err
    assert "next: " in answer.err
    assert "--help" not in answer.err
    assert not (state / "runs").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_is_the_reason_that_is_given(place: Any) -> None:
    small = place.folder / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        place.write("loud.py", "import sys\nfor _ in range(64): print('x' * (1 << 16))\n")
        answer = place.run(sys.executable, "loud.py", env={"SEATRIAL_DIR": str(small)})
        assert (answer.code, answer.result["outcome"]) == (3, "lost")
        assert "is full" in answer.result["conclusion"]
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def test_the_next_command_never_reads_a_log_that_is_not_there(place: Any) -> None:
    place.write("fails.py", FAILS)
    quiet = place.seatrial("run", "--", sys.executable, "fails.py")
    assert "stderr.log" not in quiet.out
    assert "ended before its first optimizer step" in quiet.out
    assert "could not be started" not in quiet.out
    place.write("says.py", "import sys\nsys.exit('no such dataset')\n")
    loud = place.seatrial("run", "--", sys.executable, "says.py")
    (line,) = [line for line in loud.out.splitlines() if line.strip().startswith("next")]
    log = line.split()[-1]
    assert "no such dataset" in Path(log).read_text()


@pytest.mark.parametrize(
    ("flag", "value"), [("--wall", "٣s"), ("--memory", "٣GiB"), ("--wall", "0s")]
)
def test_a_bound_is_written_with_plain_digits(place: Any, flag: str, value: str) -> None:
    answer = place.seatrial("run", "--json", flag, value, "--", "true")
    assert answer.code == 2
    assert value in answer.err


def test_a_fault_in_a_trial_file_names_a_command_that_helps(place: Any) -> None:
    place.write("t.toml", 'schema = 1\n[bounds]\nmax_steps = "5"\nwall = "10s"\n')
    answer = place.seatrial("run", "--json", "t.toml")
    assert answer.code == 2
    assert "seatrial schema trial" in answer.err
    place.write("t.toml", "schema = 1.0\n")
    assert "schema is 1.0" in place.seatrial("run", "--json", "t.toml").err


def test_a_view_that_is_ended_leaves_the_run_alone(place: Any, wait_until: Any) -> None:
    place.write("slow.py", "import time\ntime.sleep(2.5)\n")
    view = place.start("run", "--json", "--", sys.executable, "slow.py")
    wait_until(lambda: list(place.folder.glob(".seatrial/runs/*/launch/started.json")))
    view.send_signal(signal.SIGHUP)
    out, _err = view.communicate(timeout=20)
    assert out == ""
    time.sleep(0.2)
    assert place.seatrial("watch", "--json").code == 3
    assert json.loads((place.record() / "result.json").read_text())["outcome"] == "completed"


def test_names_never_drive_the_terminal(place: Any) -> None:
    place.write("fails.py", FAILS)
    trial = (
        'schema = 1\nname = "a\\u001b[31m\\nb"\n[bounds]\nmax_steps = 5\nwall = "20s"\n'
        f'[runner]\ncommand = ["{sys.executable}", "fails.py", "\\u001b]0;x\\u0007", "new\\nx"]\n'
    )
    place.write("odd.toml", trial)
    ran = place.seatrial("run", "odd.toml")
    assert ran.code == 1, ran.err
    status, listed = place.seatrial("status"), place.seatrial("list")
    for text in (ran.out, ran.err, status.out, listed.out):
        assert "\x1b" not in text and "\x07" not in text
    assert len(listed.out.splitlines()) == 2
    refused = place.seatrial("run", "no\x1b[31msuch.toml")
    assert refused.code == 2 and "\x1b" not in refused.err


def test_an_authorization_takes_a_plain_name_and_no_secret(place: Any) -> None:
    place.write("fails.py", FAILS)
    place.write(
        "t.toml",
        f'schema = 1\n[bounds]\nmax_steps = 5\nwall = "20s"\n'
        f'[runner]\ncommand = ["{sys.executable}", "fails.py"]\n',
    )
    words = ("authorize", "t.toml", "--engine", "local", "--money", "1.00 USD", "--json", "--who")
    assert place.seatrial(*words, "Ada\nb\x1b[31m").code == 2
    token = "hf_" + "aB3dE6gH9jK2" * 3
    assert place.seatrial(*words, token).code == 0
    listed = place.seatrial("authorize", "--list", "--json")
    assert token not in listed.out
    assert len(json.loads(listed.out)["result"]) == 1
    for path in (place.folder / ".seatrial").iterdir():
        assert path.is_dir() or token.encode() not in path.read_bytes()


def test_the_last_words_of_a_command_are_in_the_finding(place: Any) -> None:
    answer = place.run(sys.executable, "-m", "no_such_module_of_mine")
    (finding,) = [f for f in answer.result["findings"] if f["severity"] == "error"]
    assert "No module named no_such_module_of_mine" in finding["message"]
