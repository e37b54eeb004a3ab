"""The words of a runner's command taken apart: interpreter, its options, script or module, rest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.core.command_line import is_python, script_of
from seatrial.core.interpreter import interpreter_of

_SHEBANG_BYTES = 512
# Options of the interpreter that change what it finds or how it reads; they go to a child as well.
_KEPT = frozenset("BEIPSsbOuq")


@dataclass(frozen=True)
class RunnerWords:
    """What a command says about the script that it runs.

    Attributes:
        interpreter: absolute path of the interpreter; None when the words do not tell.
        options: of the interpreter, as typed.
        script: absolute path of the script; None for a module, or when the words do not tell.
        module: dotted name behind ``-m``.
        args: what the script gets.
        launched: another program (``torchrun``, ``accelerate``) stands before the script.
    """

    interpreter: str | None = None
    options: tuple[str, ...] = ()
    script: str | None = None
    module: str | None = None
    args: tuple[str, ...] = ()
    launched: bool = False

    def first_on_path(self, cwd: str) -> str:
        """The folder that Python puts first on its path: the script's, or the working one."""
        return os.path.dirname(self.script) if self.script is not None else cwd


def runner_words(command: Sequence[str], cwd: str, env: Mapping[str, str]) -> RunnerWords:
    """Take a command apart; what its words do not tell stays None.

    Args:
        command: argv of the runner.
        cwd: its absolute working directory.
        env: its environment; ``PATH`` is looked at.
    """
    argv = tuple(command)

    def which(name: str) -> str | None:
        if os.sep in name:
            path = os.path.normpath(os.path.join(cwd, name))
            return path if os.access(path, os.X_OK) and os.path.isfile(path) else None
        return shutil.which(name, path=env.get("PATH", os.defpath))

    interpreter = interpreter_of(argv, which, _shebang) if argv else None
    script = script_of(argv)
    if script is None:
        module, options, args = _module_of(argv)
        return RunnerWords(interpreter, options, None, module, args)
    at = next(
        index
        for index, word in enumerate(argv)
        if word == script and script_of(argv[: index + 1]) == script
    )
    plain = is_python(argv[0]) and "-m" not in argv[:at]
    return RunnerWords(
        interpreter,
        _options(argv[1:at]) if plain else (),
        os.path.normpath(os.path.join(cwd, script)),
        None,
        argv[at + 1 :],
        launched=not plain,
    )


def _module_of(argv: tuple[str, ...]) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """Module, options and arguments of ``python ... -m module ...``."""
    if not argv or not is_python(argv[0]):
        return None, (), ()
    for index, word in enumerate(argv[1:], 1):
        if word == "-m" and index + 1 < len(argv):
            return argv[index + 1], _options(argv[1:index]), argv[index + 2 :]
        if not word.startswith("-") or word in ("-", "-c"):
            break
    return None, (), ()


def _options(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        word for word in words if word.startswith("-") and len(word) > 1 and set(word[1:]) <= _KEPT
    )


def _shebang(program: str) -> str | None:
    """The interpreter in a program's first line, also behind ``/usr/bin/env``."""
    try:
        with open(program, "rb") as handle:
            line = handle.read(_SHEBANG_BYTES).partition(b"\n")[0]
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    words = line[2:].decode("utf-8", "replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else None
