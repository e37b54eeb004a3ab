"""What surrounds a trial: commit and diff by git itself, packages by the interpreter itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.child import NOT_STARTED, OUTPUT, ChildAnswer, ChildRequest
from seatrial.core.trial import Bounds, RunnerSpec, Trial
from seatrial.process.child import run_child
from seatrial.readers.run_context import context_of

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed here")


def trial(folder: Path, *command: str) -> Trial:
    words = command or (sys.executable, "t.py")
    return Trial(
        name="t", runner=RunnerSpec(words, cwd=str(folder)), bounds=Bounds(1, 1.0, 1), file="x"
    )


def context(folder: Path, *command: str, ask: Any = run_child) -> dict[str, Any]:
    lock = str(folder / "trial.lock")
    return context_of(trial(folder, *command), str(folder), lock, dict(os.environ), ask)


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def only_git(request: ChildRequest) -> ChildAnswer:
    """Answers about packages are not asked for."""
    return run_child(request) if request.argv[0] == "git" else ChildAnswer(NOT_STARTED)


@pytest.fixture
def repository_folder(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "t.py").write_text("x = 1\n")
    return tmp_path


@needs_git
def test_commit_and_diff(repository_folder: Path) -> None:
    folder = repository_folder

    def told_by_git(place: Path) -> dict[str, Any]:
        found: dict[str, Any] = context(place, ask=only_git)["git"]
        return found

    told = told_by_git(folder)
    assert told["commit"] is None and told["dirty"] is True
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    clean = told_by_git(folder)
    assert clean == {
        "commit": git(folder, "rev-parse", "HEAD"), "dirty": False, "diff_sha256": None,
    }  # fmt: skip
    (folder / "trial.lock").write_text("ours")
    assert told_by_git(folder) == clean
    seen = [clean]
    for name, text in (("t.py", "x = 2\n"), ("t.py", "x = 3\n"), ("new.py", ""), ("n2.py", "")):
        (folder / name).write_text(text)
        told = told_by_git(folder)
        assert told["dirty"] is True and told not in seen
        assert told == told_by_git(folder)
        seen.append(told)
    sub = folder / "sub"
    sub.mkdir()
    (folder / "trial.lock").unlink()
    assert told_by_git(sub)["diff_sha256"] == seen[-1]["diff_sha256"]


@needs_git
def test_programs_that_a_repository_names_are_not_started(repository_folder: Path) -> None:
    folder = repository_folder
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    evil = folder / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {folder}/started\n")
    evil.chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(evil))
    git(folder, "config", "diff.external", str(evil))
    git(folder, "config", "diff.x.textconv", str(evil))
    git(folder, "config", "core.pager", str(evil))
    (folder / ".gitattributes").write_text("*.py diff=x\n")
    (folder / "t.py").write_text("x = 5\n")
    assert context(folder)["git"]["dirty"] is True
    assert not (folder / "started").exists()


def test_no_repository(tmp_path: Path) -> None:
    told = context(tmp_path)["git"]
    assert set(told) == {"not_told"}


def test_a_diff_that_is_too_large_is_not_told(tmp_path: Path) -> None:
    def ask(request: ChildRequest) -> ChildAnswer:
        if "diff" in request.argv:
            return ChildAnswer(OUTPUT)
        return ChildAnswer("exited", 0, b"/\n")

    told = context(tmp_path, ask=ask)["git"]
    assert told["dirty"] is True and "larger than" in told["diff_not_told"]
    absent = context(tmp_path, ask=lambda _: ChildAnswer(NOT_STARTED, error="no such file"))
    assert absent["git"] == {"not_told": "git is not installed"}
    assert "no such file" in absent["interpreter"]["not_told"] and absent["packages"] == {}


def test_packages_of_the_runners_interpreter(tmp_path: Path) -> None:
    told = context(tmp_path)
    assert told["interpreter"] == {"path": sys.executable, "version": sys.version.split()[0]}
    assert told["packages"]["pytest"] == metadata.version("pytest")
    assert list(told["packages"]) == sorted(told["packages"])


def test_packages_that_only_the_runner_sees(tmp_path: Path, monkeypatch: Any) -> None:
    info = tmp_path / "lib" / "made_up-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.5\n")
    (tmp_path / "lib" / "broken-1.dist-info").mkdir()
    assert "made-up" not in context(tmp_path)["packages"]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    assert context(tmp_path)["packages"]["made-up"] == "1.5"


def test_interpreters_that_are_not_told_or_do_not_answer(tmp_path: Path) -> None:
    told = context(tmp_path, "make", "train")
    assert "does not tell" in told["interpreter"]["not_told"]
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho no such luck >&2; exit 3\n")
    fake.chmod(0o755)
    told = context(tmp_path, "./python", "t.py")["interpreter"]
    assert told["path"] == str(fake) and "exit code 3: no such luck" in told["not_told"]
    fake.write_text("#!/bin/sh\necho '[1]'\n")
    assert "could not list" in context(tmp_path, "./python", "t.py")["interpreter"]["not_told"]
