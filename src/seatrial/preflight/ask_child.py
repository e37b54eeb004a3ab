"""A question to one of the programs in ``child/``, run by the runner's interpreter under caps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.core import strict_json
from seatrial.core.child import EXITED, MEMORY, OUTPUT, TIMEOUT, Ask, ChildRequest
from seatrial.core.limited_json import parse_limited
from seatrial.core.units import format_duration, format_size

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "child")
OUTPUT_BYTES = 8 * 2**20
_TAIL_CHARS = 300


@dataclass(frozen=True)
class Told:
    """The answer of a child program, or in words why there is none.

    ``began`` is true when it was ended after it had said that the work proper begins.
    """

    value: dict[str, Any] | None
    reason: str = ""
    ended: str = EXITED
    began: bool = False


@dataclass(frozen=True)
class Asked:
    """How a child program is run: ``options`` are those of the interpreter."""

    interpreter: str
    cwd: str
    env: Mapping[str, str]
    options: tuple[str, ...] = ()
    timeout_s: float = 60.0
    memory_bytes: int = 4 * 2**30


def ask_child(ask: Ask, program: str, how: Asked, request: Mapping[str, Any]) -> Told:
    """Run a program of ``child/`` and read its one line of JSON.

    Args:
        ask: runs a capped child.
        program: file name in ``child/``.
        how: interpreter, place and caps.
        request: JSON value that the program reads from standard input.
    """
    answer = ask(
        ChildRequest(
            argv=(how.interpreter, *how.options, os.path.join(_FOLDER, program)),
            timeout_s=how.timeout_s,
            cwd=how.cwd,
            env=how.env,
            stdin=strict_json.dumps(request).encode("ascii"),
            memory_bytes=how.memory_bytes,
            output_bytes=OUTPUT_BYTES,
        )
    )
    if answer.reason == EXITED and answer.exit_code == 0:
        line = answer.stdout.strip().rpartition(b"\n")[2]
        try:
            value = parse_limited(line)
        except ValueError:
            return Told(None, "its answer cannot be read")
        if isinstance(value, dict):
            return Told(value)
        return Told(None, "its answer cannot be read")
    return Told(None, _reason(answer, how), answer.reason, b'"began"' in answer.stdout)


def _reason(answer: Any, how: Asked) -> str:
    if answer.reason == TIMEOUT:
        return f"it took longer than {format_duration(how.timeout_s)}"
    if answer.reason == MEMORY:
        return f"it took more than {format_size(how.memory_bytes)} of memory"
    if answer.reason == OUTPUT:
        return f"it printed more than {format_size(OUTPUT_BYTES)}"
    if answer.reason != EXITED:
        return answer.error or f"it was {answer.reason}"
    words = answer.stderr.decode("utf-8", "replace").strip().splitlines()
    tail = f": {words[-1][:_TAIL_CHARS]}" if words else ""
    if answer.exit_code is not None and answer.exit_code < 0:
        return f"it was ended by signal {-answer.exit_code}{tail}"
    return f"it left with exit code {answer.exit_code}{tail}"
