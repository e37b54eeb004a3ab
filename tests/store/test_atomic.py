"""Files are complete or not there, and what the system refuses is said with the place."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.core.errors import CouldNotJudgeError, SeatrialError, UsageError
from seatrial.store import atomic


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic.write_json(str(path), {"loss": float("nan"), "path": "\udcff"})
    assert path.read_text() == '{\n  "loss": "nan",\n  "path": "\\udcff"\n}\n'
    atomic.write_text(str(path), "twö")
    assert path.read_bytes() == "twö".encode()
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_when_a_write_fails_the_old_file_stays_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, broken, fail)
    with pytest.raises(CouldNotJudgeError, match=f"no space left to write {path}") as caught:
        atomic.write_text(str(path), "new")
    assert caught.value.exit_code == 3
    assert "seatrial clean" in caught.value.remedy
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_really_full_device_is_named() -> None:
    with pytest.raises(CouldNotJudgeError, match="no space left to write /dev/full"):
        atomic.append_line("/dev/full", "x")


def test_a_limit_on_file_size_counts_as_full(tmp_path: Path) -> None:
    code = (
        "import resource, signal\n"
        "from seatrial.core.errors import CouldNotJudgeError\n"
        "from seatrial.store.atomic import write_bytes\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        f"    write_bytes({str(tmp_path / 'big')!r}, b'x' * 5000)\n"
        "except CouldNotJudgeError as error:\n"
        "    raise SystemExit(0 if 'no space left' in error.message else 1)\n"
        "raise SystemExit(2)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert os.listdir(tmp_path) == []


def test_a_read_only_folder_is_a_usage_error(as_user: Path) -> None:
    folder = as_user / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    for write in (
        lambda: atomic.write_text(str(folder / "a"), "x"),
        lambda: atomic.append_line(str(folder / "a"), "x"),
        lambda: atomic.create_exclusive(str(folder / "a"), b"x"),
        lambda: atomic.make_folder(str(folder / "b")),
    ):
        with pytest.raises(UsageError, match=f"cannot write {folder}/.: Permission denied"):
            write()
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "name", ["missing/a", "file/a", "x" * 300], ids=["no-folder", "in-a-file", "long-name"]
)
def test_a_wrong_place_is_a_usage_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        atomic.write_text(str(tmp_path / name), "x") if len(name) < 300 else atomic.append_line(
            str(tmp_path / name), "x"
        )


def test_an_io_error_is_not_our_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(atomic.os, "fsync", fail)
    with pytest.raises(SeatrialError, match="Input/output error") as caught:
        atomic.write_text(str(tmp_path / "a"), "x")
    assert caught.value.exit_code == 3


def test_lines_are_appended_one_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    atomic.append_line(path, "one\n")
    atomic.append_line(path, "two")
    assert Path(path).read_text() == "one\ntwo\n"
    with pytest.raises(ValueError, match="one line"):
        atomic.append_line(path, "a\nb")


@pytest.mark.parametrize("hard_links", [True, False], ids=["links", "no-links"])
def test_of_twenty_processes_one_creates_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool
) -> None:
    if not hard_links:

        def refuse(*_args: object) -> None:
            raise OSError(errno.EOPNOTSUPP, "no hard links here")

        monkeypatch.setattr(atomic.os, "link", refuse)
    path = str(tmp_path / "claim.json")
    children = []
    for number in range(20):
        pid = os.fork()
        if pid == 0:
            os._exit(10 + atomic.create_exclusive(path, str(number).encode()))
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert sorted(codes) == [10] * 19 + [11]
    assert Path(path).read_text() == str(codes.index(11))
    assert os.listdir(tmp_path) == ["claim.json"]


def test_a_reader_never_meets_half_a_file(quick_folder: Path) -> None:
    path = quick_folder / "beat.json"
    sizes = {b"a" * 100_000, b"b" * 200_000}
    atomic.write_bytes(str(path), b"a" * 100_000)
    pid = os.fork()
    if pid == 0:
        while True:
            for data in sizes:
                atomic.write_bytes(str(path), data)
    try:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            assert path.read_bytes() in sizes
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert path.read_bytes() in sizes
