"""A few answers for people to look at: failures first, both models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.core.heldout import Answer

MAX_EXAMPLES = 20
_TEXT = 2000


def example_rows(
    cases: Sequence[Mapping[str, Any]],
    answers: Mapping[str, Sequence[Answer]],
    against: Sequence[str],
) -> list[dict[str, Any]]:
    """Up to 20 cases: those that speak against a threshold, then failed ones, then the others.

    Args:
        cases: in the order of the file.
        answers: by role.
        against: ids of cases that speak against a threshold.
    """
    by_case = {
        role: {answer.case_id: answer for answer in found} for role, found in answers.items()
    }
    trained = by_case.get("trained", {})
    ids = {str(case["id"]): case for case in cases}
    failed = [name for name, answer in trained.items() if answer.error]
    order = dict.fromkeys([*(name for name in against if name in ids), *failed, *ids])
    bad = {*against, *failed}
    return [
        _row(ids[name], {role: found.get(name) for role, found in by_case.items()}, name in bad)
        for name in list(order)[:MAX_EXAMPLES]
    ]


def _row(
    case: Mapping[str, Any], answers: Mapping[str, Answer | None], failed: bool
) -> dict[str, Any]:
    row: dict[str, Any] = {"id": case["id"], "asked": _asked(case), "failed": failed}
    if "expected" in case:
        expected = case["expected"]
        row["expected"] = expected if isinstance(expected, str) else repr(expected)[:_TEXT]
    for role, answer in answers.items():
        if answer is not None:
            row[role] = {
                "raw": (answer.raw or "")[:_TEXT],
                "result": None if answer.result is None else dict(answer.result),
                "error": answer.error,
            }
    return row


def _asked(case: Mapping[str, Any]) -> str:
    """The last thing that the model was told."""
    messages = case.get("messages")
    if isinstance(messages, list) and messages and isinstance(messages[-1], Mapping):
        return str(messages[-1].get("content") or "")[:_TEXT]
    return str(case.get("prompt") or "")[:_TEXT]
