"""The prompt contract, applied to every case in a capped process of our own interpreter."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.core.child import EXITED, STOPPED, ChildRequest
from seatrial.process.child import run_child
from seatrial.readers.json_file import read_bytes_limited
from seatrial.workflows.heldout_children import EvaluationEndedError, own_program

RENDER_S = 20.0
_RENDER_BYTES = 1 << 30
_TEXT_BYTES = 256 << 20
_MAX_TEMPLATE = 1 << 20


def render_prompts(
    path: str,
    cases: Sequence[Mapping[str, Any]],
    tokens: Mapping[str, str],
    stop: Callable[[], bool],
) -> list[str]:
    """The exact text of every case.

    Args:
        path: of the prompt file.
        cases: in order.
        tokens: special tokens that the template may name.
        stop: asked some times a second; True ends it.

    Raises:
        EvaluationEndedError: the template raises, loops, uses too much, or a stop was asked for.
    """
    try:
        template = read_bytes_limited(path, _MAX_TEMPLATE).decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvaluationEndedError(
            f"the prompt file {path} is not UTF-8 (byte {error.start})"
        ) from error
    question = {
        "template": template,
        "cases": list(cases),
        "tokens": dict(tokens),
        "memory_bytes": _RENDER_BYTES,
    }
    # Our own interpreter: it has Jinja, which the one that trained need not have.
    answer = run_child(
        ChildRequest(
            (sys.executable, "-I", own_program("render_prompts")),
            RENDER_S,
            cwd="/",
            stdin=json.dumps(question).encode("ascii"),
            memory_bytes=_RENDER_BYTES,
            output_bytes=_TEXT_BYTES,
        ),
        stop,
    )
    if answer.reason == STOPPED:
        raise EvaluationEndedError("a stop was asked for")
    if answer.reason != EXITED:
        raise EvaluationEndedError(
            f"the prompt file {path} did not come to an end ({answer.reason}; it may take "
            f"{RENDER_S:g} s, {_RENDER_BYTES >> 30} GiB and {_TEXT_BYTES >> 20} MiB of text)"
        )
    try:
        told = json.loads(answer.stdout)
    except ValueError:
        last = answer.stderr[-300:].decode("utf-8", "replace").strip().splitlines()
        told = {"error": last[-1] if last else f"exit code {answer.exit_code}", "case": None}
    if not isinstance(told, dict) or "texts" not in told:
        number = told.get("case") if isinstance(told, dict) else None
        case = f" for case {cases[number].get('id')!r}" if isinstance(number, int) else ""
        raise EvaluationEndedError(f"the prompt file {path} fails{case}: {told.get('error')}")
    texts = [str(text) for text in told["texts"]]
    _refuse_one_text(path, texts)
    return texts


def _refuse_one_text(path: str, texts: Sequence[str]) -> None:
    """A prompt that says nothing of the case asks nothing about it."""
    if any(not text.strip() for text in texts):
        raise EvaluationEndedError(f"the prompt file {path} renders a case to an empty text")
    if len(texts) > 1 and len(set(texts)) == 1:
        raise EvaluationEndedError(
            f"the prompt file {path} renders every case to the same text: {texts[0][:60]!r}"
        )
