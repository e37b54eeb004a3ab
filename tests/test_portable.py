"""The portable tests pass on Python 3.9 with site-packages hidden."""

from __future__ import annotations

import glob
import pwd
import re
import shutil
import subprocess
import sys
import textwrap
from os import getuid
from pathlib import Path

import pytest

RUN_ALL = Path(__file__).parent / "portable" / "run_all.py"


def python39() -> str | None:
    """A Python 3.9 that really answers, or None. A shim without its version behind it does not."""
    home = pwd.getpwuid(getuid()).pw_dir  # HOME itself is redirected by conftest
    candidates = [shutil.which("python3.9"), "/usr/bin/python3.9"]
    candidates += sorted(glob.glob(f"{home}/.pyenv/versions/3.9.*/bin/python3.9"), reverse=True)
    for candidate in filter(None, candidates):
        ask = [candidate, "-I", "-S", "-c", "import sys; print(sys.version_info[:2])"]
        try:
            answer = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=False)
        except OSError:
            continue
        if answer.stdout.strip() == "(3, 9)":
            return candidate
    return None


def run(folder: Path, interpreter: str = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [interpreter, "-I", "-S", str(folder / "run_all.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_portable_tests_pass_on_python_39_without_site_packages() -> None:
    interpreter = python39()
    if interpreter is None:
        pytest.skip("no working python3.9 on PATH, in /usr/bin or under ~/.pyenv/versions")
    done = run(RUN_ALL.parent, interpreter)
    tail = "\n".join(done.stdout.splitlines()[-60:])
    assert done.returncode == 0, f"{tail}\n{done.stderr}"
    assert re.search(r"^Python 3\.9\.\d+$", done.stdout, re.MULTILINE), tail
    assert re.search(r"^\d+ passed, 0 failed", done.stdout.splitlines()[-1]), tail


@pytest.mark.parametrize(
    ("body", "code", "closing", "shown"),
    [
        ("def test_a():\n    pass\n", 0, "1 passed, 0 failed", ""),
        (
            "def test_a():\n    pass\ndef test_b():\n    assert 1 == 2, 'planted'\n",
            1,
            "1 passed, 1 failed",
            "FAIL test_planted.test_b",
        ),
        ("import pytest\n", 1, "0 passed, 1 failed", "cannot be imported"),
        ("def test_a():\n    raise SystemExit(0)\n", 1, "0 passed, 1 failed", "SystemExit"),
        ("x = 1\n", 1, "0 passed, 0 failed", ""),
    ],
    ids=["healthy", "a failing test", "needs site-packages", "exits early", "nothing to run"],
)
def test_run_all_tells_what_happened(
    tmp_path: Path, body: str, code: int, closing: str, shown: str
) -> None:
    folder = tmp_path / "tests" / "portable"
    folder.mkdir(parents=True)
    shutil.copy(RUN_ALL, folder)
    (folder / "test_planted.py").write_text(textwrap.dedent(body))
    done = run(folder)
    assert done.returncode == code, done.stdout
    assert done.stdout.splitlines()[-1] == closing
    assert shown in done.stdout
