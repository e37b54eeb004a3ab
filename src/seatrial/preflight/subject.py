"""Build what the rules look at: from a trial, or from a lone file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from seatrial.core.child import Ask
from seatrial.core.command_line import is_python, script_of
from seatrial.core.errors import UsageError
from seatrial.core.trial import Trial
from seatrial.preflight.rule import AD_HOC, FILE, TRIAL, Subject
from seatrial.preflight.script import MAX_SOURCE_BYTES, Content, Script, parse_script, read_bytes

# A file for the literal checks alone may be longer than a script.
MAX_FILE_BYTES = 64 * 2**20
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")


def runner_file(command: Sequence[str], cwd: str) -> str | None:
    """The path of the script that a command runs; None when that is not certain."""
    script = script_of(command)
    return None if script is None else os.path.normpath(os.path.join(cwd, script))


def words_behind(command: Sequence[str]) -> tuple[str, ...]:
    """The words of a command that its script gets."""
    script = script_of(command)
    if script is None or script not in command:
        return ()
    return tuple(command[list(command).index(script) + 1 :])


def subject_of_trial(
    trial: Trial,
    env: Mapping[str, str],
    cwd: str,
    *,
    ask: Ask | None = None,
    require: Sequence[str] = (),
    forbid: Sequence[str] = (),
) -> Subject:
    """What the rules look at before a run.

    Args:
        trial: the trial, or that of an ad-hoc run.
        env: environment of the runner.
        cwd: its absolute working directory.
        ask: runs a capped child; None: nothing may run.
        require: literal texts that must be in the file.
        forbid: literal texts that must not.

    Raises:
        UsageError: the script is there and is not to be read (binary, too long, another coding).
    """
    command = trial.runner.command
    content, script, problem = _read_runner(command, cwd)
    return Subject(
        mode=AD_HOC if trial.ad_hoc else TRIAL,
        script=script,
        content=content,
        command=tuple(command),
        trial=trial,
        env=env,
        cwd=cwd,
        require=tuple(require),
        forbid=tuple(forbid),
        ask=ask,
        problem=problem,
    )


def _read_runner(command: Sequence[str], cwd: str) -> tuple[Content | None, Script | None, str]:
    path = runner_file(command, cwd)
    shown = " ".join(command[:3])
    if path is None:
        return None, None, f"which script `{shown}` runs cannot be told from the command"
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None, None, f"the script {path} cannot be read"
    if not stat.S_ISREG(mode):
        return None, None, f"{path} is no regular file"
    if path.endswith((".pyc", ".pyz", ".zip")):
        return None, None, f"{path} holds no source"
    content = read_bytes(path)
    if os.path.basename(command[0]) in _SHELLS and not is_python(command[0]):
        return content, None, f"{path} is a shell script"
    if content.data.startswith(b"PK\x03\x04"):
        return content, None, f"{path} holds no source"
    return content, parse_script(content, words_behind(command)), ""


def subject_of_file(
    path: str,
    words: Sequence[str] | None,
    *,
    env: Mapping[str, str],
    cwd: str,
    require: Sequence[str] = (),
    forbid: Sequence[str] = (),
) -> Subject:
    """What the rules look at of a lone file, Python or not.

    Args:
        path: the file, as typed.
        words: those that it will get; None: not said.
        env: environment of the person.
        cwd: absolute working directory.
        require: literal texts that must be in the file.
        forbid: literal texts that must not.

    Raises:
        UsageError: it cannot be read, or is a Python script that is binary, too long or in another
            coding than it says.
    """
    content = read_bytes(path, MAX_FILE_BYTES)
    script, problem = None, f"{path} is no Python script; only texts and hash are looked at"
    if is_python_file(content):
        if len(content.data) > MAX_SOURCE_BYTES:
            raise UsageError(
                f"{path!r} has more than {MAX_SOURCE_BYTES // 2**20} MiB; no training script is "
                "that long",
                remedy="name the script itself",
            )
        script, problem = parse_script(content, words), ""
    return Subject(
        mode=FILE,
        script=script,
        content=content,
        command=(path, *words) if words else (),
        env=env,
        cwd=cwd,
        require=tuple(require),
        forbid=tuple(forbid),
        problem=problem,
    )


def is_python_file(content: Content) -> bool:
    """By its name, or by the interpreter in its first line."""
    if content.path.endswith((".py", ".pyw")):
        return True
    first = content.data[:200].split(b"\n", 1)[0]
    return first.startswith(b"#!") and b"python" in first
