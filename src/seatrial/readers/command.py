"""A command looked at before it starts: what would fail at once is said in words."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence

from seatrial.core.command_line import is_python, script_of
from seatrial.core.errors import UsageError

_LOOK_BYTES = 1 << 20
_EXAMPLE = "seatrial run -- python train.py"
# The first bytes of a zip file: Python runs those, too.
_ZIP = b"PK\x03\x04"


def check_command(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
    """Refuse a command that cannot start. What is not understood is let through.

    Args:
        argv: the command.
        cwd: absolute working directory of the runner.
        env: its environment; only ``PATH`` is looked at.

    Raises:
        UsageError: empty, a missing or wrong program, or a script that is missing, unreadable,
            empty, binary, or a folder that Python cannot run.
    """
    if not argv or not argv[0]:
        raise UsageError("there is no command to run", remedy=_EXAMPLE)
    for word in argv:
        if "\0" in word:
            raise UsageError("an argument holds a NUL byte; no program can be given that")
    if not os.path.isdir(cwd):
        raise UsageError(f"the working directory {cwd} is no folder")
    _check_program(argv[0], cwd, env)
    script = script_of(argv)
    if script is not None:
        _check_script(script, cwd, runs_python=not _is_shell_script(argv))


def _is_shell_script(argv: Sequence[str]) -> bool:
    return os.path.basename(argv[0]) in ("sh", "bash", "dash", "zsh", "ksh") and not is_python(
        argv[0]
    )


def _check_program(name: str, cwd: str, env: Mapping[str, str]) -> None:
    if os.sep in name:
        path = os.path.join(cwd, name)
        if os.path.isdir(path):
            raise UsageError(f"{name!r} is a folder, no program", remedy=_EXAMPLE)
        if not os.path.exists(path):
            raise UsageError(
                f"the program {name!r} does not exist (seen from {cwd})", remedy=f"ls {cwd}"
            )
        if not os.access(path, os.X_OK):
            raise UsageError(f"{name!r} is not executable", remedy=_remedy(name))
        return
    path_variable = env.get("PATH", os.defpath)
    if shutil.which(name, path=path_variable) is not None:
        return
    here = os.path.join(cwd, name)
    if os.path.isdir(here):
        raise UsageError(f"{name!r} is a folder, no program", remedy=_EXAMPLE)
    raise UsageError(
        f"no program {name!r} on PATH (looked in {path_variable})",
        remedy=_remedy(name) if os.path.isfile(here) else "install it, or type its whole path",
    )


def _remedy(name: str) -> str:
    if name.endswith(".py"):
        return f"seatrial run -- python {name}"
    if name.endswith(".sh"):
        return f"seatrial run -- bash {name}"
    path = name if os.sep in name else f"./{name}"
    return f"chmod +x {name}, then seatrial run -- {path}"


def _check_script(script: str, cwd: str, *, runs_python: bool) -> None:
    path = os.path.join(cwd, script)
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if not runs_python and os.sep not in script:
            return  # a shell also looks on PATH
        raise UsageError(
            f"the script {script!r} does not exist (seen from {cwd})", remedy=f"ls {cwd}"
        ) from None
    except OSError as error:
        raise UsageError(f"the script {script!r} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(found.st_mode):
        if runs_python and os.path.exists(os.path.join(path, "__main__.py")):
            return
        raise UsageError(f"{script!r} is a folder, no script", remedy=_EXAMPLE)
    if not stat.S_ISREG(found.st_mode):
        return  # a pipe can be run, and reading it here would take its content away
    try:
        with open(path, "rb") as handle:
            head = handle.read(_LOOK_BYTES)
    except OSError as error:
        raise UsageError(
            f"the script {script!r} cannot be read: {error.strerror}", remedy=f"ls -l {script}"
        ) from error
    _check_content(script, head, runs_python=runs_python)


def _check_content(script: str, head: bytes, *, runs_python: bool) -> None:
    if not head.strip():
        raise UsageError(f"the script {script!r} is empty: it would train nothing")
    if runs_python and (head.startswith(_ZIP) or script.endswith((".pyc", ".pyz", ".zip"))):
        return
    if b"\0" in head:
        raise UsageError(
            f"the script {script!r} is binary (a NUL byte at {head.index(0)}), no text",
            remedy="name the script itself",
        )
    if runs_python and b"coding" not in b"".join(head.splitlines()[:2]):
        _check_utf8(script, head)


def _check_utf8(script: str, head: bytes) -> None:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) == _LOOK_BYTES and error.start > len(head) - 4:
            return  # a character cut by the end of what was read
        raise UsageError(
            f"the script {script!r} is no text that Python reads: byte {head[error.start]:#04x} at "
            f"{error.start} is not UTF-8, and no coding is declared"
        ) from error
