"""What the programs of this folder share that answer one JSON line with one JSON line."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Tuple

_MAX_TEXT = 1000
_LATE_S = 30
_NO_LIMIT_S = 600


def private_streams() -> Tuple[Any, int]:
    """Take standard input and output for ourselves, and leave the user's code harmless ones."""
    questions = open(os.dup(0), "rb")  # noqa: SIM115 - open as long as the process is
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return questions, answers


def say(handle: int, value: Dict[str, Any]) -> None:
    """Write one answer."""
    data = json.dumps(value).encode("ascii") + b"\n"
    while data:
        data = data[os.write(handle, data) :]


def leave_with_the_asker() -> None:
    """End this process and what it started when the process that asks is gone."""
    asker = os.getppid()

    def watch() -> None:
        while os.getppid() == asker:
            time.sleep(1.0)
        os.killpg(os.getpgid(0), signal.SIGKILL)

    if os.getpgid(0) == os.getpid():  # a session of its own: nobody else is in it
        threading.Thread(target=watch, daemon=True).start()


def told(error: BaseException) -> str:
    """An error as one line."""
    text = "".join(c if c.isprintable() else " " for c in f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:_MAX_TEXT]


def answer_all(answer: Callable[[Dict[str, Any]], Tuple[Dict[str, Any], bool]]) -> None:
    """Answer every question on standard input.

    Args:
        answer: turns a question into an answer, and says whether there is more to ask.
    """
    # The names of this folder are not the user's: his own `validate` must be found first.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    questions, answers = private_streams()
    leave_with_the_asker()
    process = os.getpid()
    for line in iter(questions.readline, b""):
        question = json.loads(line)
        # The asker kills what is late. An alarm without a handler ends even what is stuck in C.
        signal.alarm(int(question.get("limit_s") or _NO_LIMIT_S) + _LATE_S)
        value, more = answer(question)
        if os.getpid() != process:
            os._exit(0)  # a fork that the user's code let return: the questions are not its own
        signal.alarm(0)
        say(answers, {**value, "n": question.get("n")})
        if not more:
            return
