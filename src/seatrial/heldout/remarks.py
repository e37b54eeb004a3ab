"""Findings on the held-out evaluation itself: its prompt, its cases, its thresholds."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.core.finding import Finding, Place


def prompt_differs(difference: str, path: str | None) -> Finding:
    """The prompt file renders another text than the checkpoint's own chat template."""
    return Finding(
        "tokenizer.prompt_differs",
        "tokenizer",
        "warning",
        f"The prompt file and the checkpoint's chat template differ {difference}.",
        place=Place(file=path),
        remedy="The model is asked in another form than its template trains: make them equal, or "
        "leave `prompt` out.",
        confidence="proven",
    )


def seen_before(count: int, cases: int, runs: Sequence[str]) -> Finding:
    """Cases that were used under another lock, newest run first."""
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    return Finding(
        "eval_mode.heldout_seen_before",
        "eval_mode",
        "warning",
        f"{count} of the {cases} held-out cases were used before under another lock, by run "
        f"{runs[0]}{more}: a new lock is no fresh look.",
        remedy="Take fresh cases when something was changed because of what these showed.",
        confidence="proven",
    )


def used_again(use: int, reason: str | None) -> Finding:
    """The cases were used before under this very lock, and somebody asked for another use."""
    return Finding(
        "eval_mode.heldout_used_again",
        "eval_mode",
        "warning",
        f"The held-out cases were used before under this lock; this is use {use}, because: "
        f"{reason}.",
        remedy="Take fresh cases when something was changed because of what the first showed.",
        confidence="proven",
    )


def base_holds() -> Finding:
    """The base model satisfies every threshold."""
    return Finding(
        "eval_mode.base_holds_thresholds",
        "eval_mode",
        "warning",
        "The base model satisfies every held-out threshold: they cannot tell training from none.",
        remedy="Raise the thresholds above what the base model reaches.",
        confidence="proven",
    )


def first_difference(case: str, prompt: str, own: str) -> str:
    """Where the rendered prompt and the chat template's own rendering part."""
    at = next(
        (i for i, (a, b) in enumerate(zip(prompt, own, strict=False)) if a != b),
        min(len(prompt), len(own)),
    )
    return (
        f"at character {at} of case {case!r}: the prompt has {prompt[at : at + 30]!r}, the chat "
        f"template has {own[at : at + 30]!r}"
    )
