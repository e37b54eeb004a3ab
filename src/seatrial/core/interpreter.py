"""Which interpreter a command line runs its script with, as far as its words tell."""

from __future__ import annotations

from typing import Callable, Optional, Tuple

from seatrial.core.command_line import is_python


def interpreter_of(
    command: Tuple[str, ...],
    which: Callable[[str], Optional[str]],
    shebang: Callable[[str], Optional[str]],
) -> Optional[str]:
    """Absolute path of the interpreter behind a command; None when its words do not tell.

    Args:
        command: argv of the runner.
        which: finds a program on the runner's ``PATH``.
        shebang: the interpreter named in the first line of a program such as ``torchrun``.
    """
    if not command:
        return None
    program = which(command[0])
    if program is None:
        return None
    if is_python(command[0]):
        return program
    named = shebang(program)
    return which(named) if named is not None and is_python(named) else None
