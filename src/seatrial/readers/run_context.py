"""What surrounds a trial and is only listed: commit, interpreter, packages, machine."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Mapping
from typing import Any

import seatrial
from seatrial.core.child import OUTPUT, Ask, ChildAnswer, ChildRequest
from seatrial.core.interpreter import interpreter_of
from seatrial.core.limited_json import parse_limited
from seatrial.core.runner_env import is_allowed
from seatrial.core.trial import Trial
from seatrial.readers.json_file import NotRegularError, open_regular

_GIT_S = 20.0
_PACKAGES_S = 60.0
_PACKAGES_BYTES = 2**30
_DIFF_BYTES = 64 * 2**20
# Nothing that a repository's configuration names is started for a question of ours.
_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


def runner_env_for_reading(trial: Trial, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the runner without its secrets: enough to find programs and modules."""
    if trial.ad_hoc:
        return dict(environ)
    return {name: value for name, value in environ.items() if is_allowed(name)} | dict(
        trial.runner.env
    )


def find_program(name: str, cwd: str, env: Mapping[str, str]) -> str | None:
    """Absolute path of a program as the runner would find it."""
    if os.sep in name:
        path = os.path.normpath(os.path.join(cwd, name))
        return path if os.access(path, os.X_OK) and os.path.isfile(path) else None
    return shutil.which(name, path=env.get("PATH", os.defpath))


def runner_interpreter(trial: Trial, cwd: str, env: Mapping[str, str]) -> str | None:
    """The Python behind the trial's command; None when its words do not tell."""
    return interpreter_of(
        trial.runner.command, lambda name: find_program(name, cwd, env), _shebang_of
    )


def _shebang_of(program: str) -> str | None:
    try:
        with open_regular(program) as handle:
            first = handle.read(512).split(b"\n", 1)[0]
    except (OSError, NotRegularError):
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode("utf-8", "replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words[0] if words else None


def context_of(
    trial: Trial, folder: str, lock_file: str, environ: Mapping[str, str], ask: Ask
) -> dict[str, Any]:
    """Commit, interpreter, packages and machine; what could not be told says why.

    Args:
        trial: the trial.
        folder: of the trial file.
        lock_file: absolute path of the lock, which is no part of the diff that it names.
        environ: environment of the person.
        ask: runs a capped child.
    """
    return {
        "git": _git(folder, lock_file, environ, ask),
        "platform": platform.platform(),
        "seatrial": seatrial.__version__,
        **_interpreter(trial, folder, environ, ask),
    }


def _interpreter(trial: Trial, folder: str, environ: Mapping[str, str], ask: Ask) -> dict[str, Any]:
    env = runner_env_for_reading(trial, environ)
    cwd = trial.runner.cwd or folder
    path = runner_interpreter(trial, cwd, env)
    if path is None:
        reason = "the command does not tell which interpreter runs it"
        return {"interpreter": {"not_told": reason}, "packages": {}}
    program = os.path.join(os.path.dirname(seatrial.__file__), "child", "list_packages.py")
    answer = ask(
        ChildRequest(
            argv=(path, "-B", program),
            timeout_s=_PACKAGES_S,
            cwd=cwd,
            env=env,
            memory_bytes=_PACKAGES_BYTES,
            output_bytes=4 * 2**20,
        )
    )
    try:
        if not answer.succeeded:
            raise ValueError(_why(answer))
        told = parse_limited(answer.stdout.splitlines()[-1])
        packages = {str(name): str(version) for name, version in told["packages"].items()}
        version = str(told["python"])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        reason = f"it could not list its packages: {error}"
        return {"interpreter": {"path": path, "not_told": reason}, "packages": {}}
    return {
        "interpreter": {"path": path, "version": version},
        "packages": dict(sorted(packages.items())),
    }


def _why(answer: ChildAnswer) -> str:
    if answer.error:
        return answer.error
    said = answer.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"{answer.reason}, exit code {answer.exit_code}" + (f": {said[-1]}" if said else "")


def _git(folder: str, lock_file: str, environ: Mapping[str, str], ask: Ask) -> dict[str, Any]:
    """Commit and what differs from it, in the whole repository around a folder."""
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}

    def git(*words: str) -> ChildAnswer:
        request = ChildRequest(
            (*_GIT, *words), timeout_s=_GIT_S, cwd=folder, env=env, output_bytes=_DIFF_BYTES
        )
        return ask(request)

    top = git("rev-parse", "--show-toplevel")
    if not top.succeeded:
        return {"not_told": _no_git(top)}
    root = top.stdout.decode("utf-8", "surrogateescape").rstrip("\n")
    commit = git("rev-parse", "--verify", "HEAD")
    name = os.path.relpath(os.path.realpath(lock_file), os.path.realpath(root))
    everything = ("--", ":/", f":(top,exclude,literal){name}")
    untracked = git("ls-files", "--full-name", "--others", "--exclude-standard", "-z", *everything)
    base = "HEAD" if commit.succeeded else "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # empty tree
    changes = git("diff", "--no-ext-diff", "--no-textconv", "--binary", base, *everything)
    found: dict[str, Any] = {
        "commit": commit.stdout.decode("ascii", "replace").strip() if commit.succeeded else None
    }
    if not untracked.succeeded or not changes.succeeded:
        failed = changes if untracked.succeeded else untracked
        too_large = failed.reason == OUTPUT
        reason = f"the diff is larger than {_DIFF_BYTES} bytes" if too_large else _why(failed)
        return {**found, "dirty": True if too_large else None, "diff_not_told": reason}
    names = sorted(untracked.stdout.split(b"\0")[:-1])
    digest = hashlib.sha256(changes.stdout + b"\0" + b"\0".join(names)).hexdigest()
    dirty = bool(changes.stdout or names)
    return {**found, "dirty": dirty, "diff_sha256": digest if dirty else None}


def _no_git(answer: ChildAnswer) -> str:
    said = answer.stderr.decode("utf-8", "replace")
    if "not a git repository" in said:
        return "the trial is in no git repository"
    if "dubious ownership" in said:
        return "git does not trust the owner of this repository"
    return "git is not installed" if answer.error else _why(answer)
