"""Every file that a runner consists of: program, script, local modules, configuration."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seatrial.core.command_line import is_python, script_of
from seatrial.core.trial import Trial
from seatrial.readers.config_files import named_by_config, named_by_script, named_by_words
from seatrial.readers.json_file import NotRegularError, open_regular
from seatrial.readers.local_modules import local_modules, module_file

SCRIPT = "script"
PROGRAM = "program"
MODULE = "module"
CONFIG = "config"
_SHELL_BYTES = 2**20


@dataclass(frozen=True)
class RunnerFiles:
    """The files of a runner.

    Attributes:
        script: absolute path of what the command runs; None when its words do not tell.
        files: what each file is, by its absolute path.
        open_points: what could not be followed, in words.
    """

    script: str | None
    files: Mapping[str, str]
    open_points: tuple[str, ...] = ()


def runner_files(trial: Trial, env: Mapping[str, str], apart: Sequence[str]) -> RunnerFiles:
    """The files that run when the trial's commands run.

    Args:
        trial: main, resume and dry-run command are looked at.
        env: environment of the runner: ``PATH`` and ``PYTHONPATH``.
        apart: files and folders that are frozen as something else, or are written by the run.
    """
    cwd = trial.runner.cwd or os.getcwd()
    kept = _Kept(apart)
    script, starts = _started(trial.runner.command, cwd, env)
    for command in (trial.resume_command, trial.runner.dry_run):
        starts += _started(command, cwd, env)[1]
    configs = [
        path
        for command in (trial.runner.command, trial.resume_command, trial.runner.dry_run)
        for path in named_by_words(command, [cwd])
    ]
    points: list[str] = []
    for path in starts:
        kept.add(path, SCRIPT if path == script else PROGRAM)
    pythons = [path for path in starts if _is_python_file(path)]
    modules = local_modules(pythons, _roots(pythons, cwd, env))
    if modules.truncated:
        points.append("there are more local modules than are followed")
    if script is None:
        points.append(f"which script {trial.runner.command[0]!r} runs is not told by the command")
    for path, tree in modules.trees.items():
        kept.add(path, MODULE)
        if tree is None:
            points.append(f"{os.path.basename(path)} is no Python that can be parsed")
            continue
        configs += named_by_script(tree, modules.sources[path], path, [cwd, os.path.dirname(path)])
    for path in configs[:]:
        configs += named_by_config(path, [cwd])
    for path in configs:
        kept.add(path, CONFIG)
    return RunnerFiles(script, kept.files, tuple(points))


def judge_files(path: str, env: Mapping[str, str]) -> Mapping[str, ast.Module | None]:
    """A validator's, normalizer's or loader's file with the local modules that it imports.

    Args:
        path: absolute path of the file.
        env: environment of the runner.
    """
    return local_modules([path], _roots([path], os.path.dirname(path), env)).trees


class _Kept:
    """Files by path; the first thing that a file is called counts."""

    def __init__(self, apart: Sequence[str]) -> None:
        self._apart = [os.path.realpath(path) for path in apart]
        self._seen: set[str] = set()
        self.files: dict[str, str] = {}

    def add(self, path: str, what: str) -> None:
        real = os.path.realpath(path)
        if real in self._seen:
            return
        if what == CONFIG and any(
            real == other or real.startswith(other + os.sep) for other in self._apart
        ):
            return
        self._seen.add(real)
        self.files[path] = what


def _started(
    command: Sequence[str], cwd: str, env: Mapping[str, str]
) -> tuple[str | None, list[str]]:
    """The script of a command, and every file of the project that its words start."""
    if not command:
        return None, []
    files = []
    program = os.path.join(cwd, command[0]) if os.sep in command[0] else ""
    if program and os.path.isfile(program) and not is_python(command[0]) and _is_near(program, cwd):
        files.append(os.path.normpath(program))
    word = script_of(command)
    script = os.path.normpath(os.path.join(cwd, word)) if word is not None else None
    if script is None:
        name = _module_name(command)
        script = module_file(name, [cwd, *_python_path(cwd, env)]) if name else None
    if script is None and files:
        script = files[0]
    if script is not None and not os.path.isfile(script):
        inside = os.path.join(script, "__main__.py")
        script = inside if os.path.isfile(inside) else None
    if script is not None and script not in files:
        files.append(script)
    if script is not None and not _is_python_file(script):
        files += _named_by_shell(script, cwd)
    return script, list(dict.fromkeys(files))


def _is_near(program: str, cwd: str) -> bool:
    """Whether a program belongs to the project, and not to an environment or the system."""
    real = os.path.realpath(program)
    if not real.startswith(os.path.realpath(cwd) + os.sep):
        return False
    return not os.path.exists(os.path.join(os.path.dirname(real), os.pardir, "pyvenv.cfg"))


def _module_name(command: Sequence[str]) -> str | None:
    """The module behind ``-m`` or ``--module`` of an interpreter or launcher."""
    for index, word in enumerate(command):
        if word in ("-m", "--module") and index + 1 < len(command):
            name = command[index + 1]
            if name in ("torch.distributed.run", "torch.distributed.launch") or name.startswith(
                "accelerate."
            ):
                continue
            return name if re.fullmatch(r"[A-Za-z_][\w.]*", name) else None
    return None


def _python_path(cwd: str, env: Mapping[str, str]) -> list[str]:
    return [
        os.path.join(cwd, entry)
        for entry in env.get("PYTHONPATH", "").split(os.pathsep)
        if entry and "\0" not in entry
    ]


def _roots(files: Iterable[str], cwd: str, env: Mapping[str, str]) -> list[str]:
    """What Python has on its path: the script's folder, PYTHONPATH, and where people start it.

    A project that is installed as a link to its source (``src`` beside ``.git``) comes last.
    """
    roots = [os.path.dirname(os.path.realpath(path)) for path in files]
    roots += [*_python_path(cwd, env), cwd]
    project = _project(cwd)
    if project is not None:
        roots += [os.path.join(project, "src"), project]
    return roots


def _project(folder: str) -> str | None:
    """The nearest folder above with a ``.git``."""
    for _ in range(40):
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return None


def _is_python_file(path: str) -> bool:
    if path.endswith((".py", ".pyw")):
        return True
    try:
        with open_regular(path) as handle:
            first = handle.read(200).split(b"\n", 1)[0]
    except (OSError, NotRegularError):
        return False
    return first.startswith(b"#!") and b"python" in first


def _named_by_shell(script: str, cwd: str) -> list[str]:
    """Files of the project that a shell script's words name: its Python and shell scripts."""
    try:
        with open_regular(script) as handle:
            text = handle.read(_SHELL_BYTES).decode("utf-8", "replace")
    except (OSError, NotRegularError):
        return []
    found: dict[str, None] = {}
    for line in text.splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        for word in words:
            if not word.endswith((".py", ".sh")) or "\0" in word:
                continue
            for base in (cwd, os.path.dirname(script)):
                path = os.path.normpath(os.path.join(base, word))
                if os.path.isfile(path):
                    found.setdefault(path)
                    break
    return list(found)
