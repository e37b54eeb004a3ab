"""Commands before they start: what would fail at once is said; what is not understood passes."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from seatrial.core.errors import UsageError
from seatrial.readers.command import check_command

ENV = {"PATH": os.environ.get("PATH", os.defpath)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('hi')\n")
    (tmp_path / "wrapper.sh").write_text("exec python train.py\n")
    (tmp_path / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n")
    (tmp_path / "odd name 'q'\n\xe9.py").write_text("1\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("1\n")
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty.py").write_text(" \n\n")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "latin_undeclared.py").write_bytes(b"x = '\xe9'\n")
    (tmp_path / "blob").write_bytes(b"\x7fELF")
    os.mkfifo(tmp_path / "pipe.py")
    with zipfile.ZipFile(tmp_path / "app.pyz", "w") as app:
        app.writestr("__main__.py", "1")
    (tmp_path / "bin").mkdir()
    for name in ("accelerate", "torchrun", "uv"):
        tool = tmp_path / "bin" / name
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
    return tmp_path


def check(folder: Path, *argv: str) -> None:
    check_command(argv, str(folder), {"PATH": f"{folder / 'bin'}:{ENV['PATH']}"})


GOOD = [
    ("python3", "train.py"),
    ("python3", "-u", "-X", "dev", "-W", "ignore", "train.py", "--missing.py"),
    ("python3", "./train.py"),
    ("python3", "latin.py"),
    ("python3", "odd name 'q'\n\xe9.py"),
    ("python3", "package"),
    ("python3", "app.pyz"),
    ("python3", "pipe.py"),
    ("python3", "-"),
    ("python3", "-c", "import nothing.py"),
    ("python3", "-m", "some.module", "none.py"),
    ("python3",),
    ("sh", "wrapper.sh"),
    ("sh", "-c", "python none.py"),
    ("sh", "-ec", "python none.py"),
    ("sh", "somewhere-on-path"),
    ("torchrun", "--standalone", "--nproc-per-node", "2", "train.py"),
    ("torchrun", "--standalone", "-m", "pkg.train"),
    ("torchrun", "--no-python", "prog"),
    ("accelerate", "launch", "--cpu", "--num_processes", "2", "train.py"),
    ("accelerate", "config"),
    ("uv", "run", "train.py"),
    ("uv", "run", "--with", "x", "train.py"),
    ("true", "none.py"),
]


@pytest.mark.parametrize("argv", GOOD, ids=" ".join)
def test_what_can_start_or_is_not_understood_passes(folder: Path, argv: tuple[str, ...]) -> None:
    check(folder, *argv)


BAD = [
    ((), "there is no command to run"),
    (("",), "there is no command to run"),
    (("python3", "a\0b"), "NUL byte"),
    (("pyhton", "train.py"), "no program 'pyhton' on PATH"),
    (("./none",), "the program './none' does not exist"),
    (("./plain",), "'./plain' is a folder, no program"),
    (("plain",), "'plain' is a folder, no program"),
    (("./train.py",), "'./train.py' is not executable"),
    (("train.py",), "no program 'train.py' on PATH"),
    (("python3", "none.py"), "the script 'none.py' does not exist"),
    (("python3", "train.py/x"), "does not exist"),
    (("python3", "empty.py"), "the script 'empty.py' is empty"),
    (("python3", "binary.py"), "the script 'binary.py' is binary \\(a NUL byte at 4\\)"),
    (("python3", "latin_undeclared.py"), "byte 0xe9 at 5 is not UTF-8"),
    (("python3", "plain"), "'plain' is a folder, no script"),
    (("sh", "./none.sh"), "the script './none.sh' does not exist"),
    (("torchrun", "--nproc-per-node", "2", "none.py"), "'none.py' does not exist"),
    (("torchrun", "--nproc-per-node=2", "none.py"), "'none.py' does not exist"),
    (("accelerate", "launch", "--num_processes=2", "none.py"), "'none.py' does not exist"),
    (("accelerate", "launch", "--use-fsdp", "none.py"), "'none.py' does not exist"),
    (("python3", "-m", "torch.distributed.run", "--standalone", "none.py"), "does not exist"),
    (("uv", "run", "python", "none.py"), "'none.py' does not exist"),
    (("uv", "run", "none.py"), "'none.py' does not exist"),
    (("env", "A=1", "python3", "none.py"), "'none.py' does not exist"),
]


@pytest.mark.parametrize(("argv", "words"), BAD, ids=[" ".join(row[0]) for row in BAD])
def test_what_cannot_start_is_named(folder: Path, argv: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        check(folder, *argv)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("argv", "remedy"),
    [
        (("train.py",), "seatrial run -- python train.py"),
        (("./wrapper.sh",), "seatrial run -- bash ./wrapper.sh"),
        (("./blob",), "chmod +x ./blob, then seatrial run -- ./blob"),
    ],
    ids=["script", "shell", "other"],
)
def test_the_next_command_is_named(folder: Path, argv: tuple[str, ...], remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(folder, *argv)
    assert caught.value.remedy == remedy


def test_a_script_that_may_not_be_read_is_named(as_user: Path) -> None:
    script = as_user / "train.py"
    script.write_text("1")
    script.chmod(0)
    with pytest.raises(UsageError, match="cannot be read: Permission denied"):
        check_command(("python3", "train.py"), str(as_user), ENV)


def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="working directory"):
        check_command(("python3",), str(tmp_path / "none"), ENV)


def test_a_character_cut_by_the_reading_limit_is_no_fault(tmp_path: Path) -> None:
    text = "#" + "x" * (2**20 - 2) + "é" + "\n1\n"
    (tmp_path / "long.py").write_text(text, encoding="utf-8")
    check_command(("python3", "long.py"), str(tmp_path), ENV)
