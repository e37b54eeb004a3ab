"""Verdicts, outcomes and exit codes: the one table that others' scripts rely on."""

from __future__ import annotations

from typing import Iterable

PASS = "pass"
FAIL = "fail"
INCONCLUSIVE = "inconclusive"
VERDICTS = (PASS, FAIL, INCONCLUSIVE)

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_USAGE = 2
EXIT_COULD_NOT_JUDGE = 3
EXIT_OUR_BUG = 4
EXIT_INTERRUPTED = 130

OUTCOMES = (
    "completed",
    "capped",
    "stopped_short",
    "failed",
    "gate",
    "timeout",
    "oom",
    "hung_after_success",
    "never_started",
    "lost",
    "interrupted",
)

# Which of several reasons decides the exit code (contract: "Precedence").
PRECEDENCE = (
    EXIT_OUR_BUG,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EXIT_FAIL,
    EXIT_COULD_NOT_JUDGE,
    EXIT_PASS,
)


def strongest_exit(codes: Iterable[int]) -> int:
    """The exit code that wins among several reasons.

    Args:
        codes: exit codes, each one of ``PRECEDENCE``; an empty iterable means pass.

    Raises:
        ValueError: a code is not in the table.
    """
    present = set(codes)
    unknown = present - set(PRECEDENCE)
    if unknown:
        raise ValueError(f"unknown exit codes {sorted(unknown)}")
    for code in PRECEDENCE:
        if code in present:
            return code
    return EXIT_PASS


def verdict_for_exit(exit_code: int) -> str:
    """The verdict that goes with an exit code (2, 4 and 130 are inconclusive)."""
    if exit_code == EXIT_PASS:
        return PASS
    return FAIL if exit_code == EXIT_FAIL else INCONCLUSIVE
