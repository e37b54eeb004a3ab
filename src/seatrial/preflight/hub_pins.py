"""What a trial takes from the Hub, and where it pushes to, as far as that is known offline."""

from __future__ import annotations

import re
from collections.abc import Mapping

from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.trial import Trial

PINS = "inputs.hub_revision"
TARGET = "secrets.hub_target"
_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(revision: str | None) -> bool:
    """Whether a revision names one state for good: 40 hexadecimal digits."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def hub_pins(trial: Trial, locked: Mapping[str, str]) -> tuple[list[Finding], list[NotJudged]]:
    """Open points of the trial's Hub inputs.

    Args:
        trial: with its inputs.
        locked: revision by input id, as ``trial.lock`` holds them; empty without a lock. What is
            locked was looked up when it was frozen.
    """
    unjudged = []
    for entry in trial.inputs:
        if entry.hub is None or is_commit(locked.get(entry.id)):
            continue
        if is_commit(entry.revision):
            reason = f"{entry.hub} is pinned to {entry.revision}; nobody looked whether it is there"
        elif entry.revision is None:
            reason = f"{entry.hub} (input {entry.id!r}) has no revision: it may be another tomorrow"
        else:
            reason = f"{entry.hub} is at {entry.revision!r}, which is no commit and may move"
        unjudged.append(
            NotJudged(PINS, "inputs", f"{reason}; seatrial freeze looks it up and pins")
        )
    return [], unjudged


def hub_target(trial: Trial) -> tuple[list[Finding], list[NotJudged]]:
    """Whether the trial's Hub target is private."""
    if trial.output.hub is None:
        return [], []
    if trial.output.private:
        reason = f"whether {trial.output.hub} is there already, and public, is not known offline"
        return [], [NotJudged(TARGET, "secrets", reason)]
    return [
        Finding(
            "secrets.hub_target_public",
            "secrets",
            "warning",
            f"the trial pushes to {trial.output.hub} and says private = false: anybody can read it",
            Place(file=trial.file),
            Evidence(observed=False, expected=True),
            "write private = true under [output]",
            "proven",
        )
    ], []
