"""Checkpoints that an earlier run left where this one saves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from seatrial.checkpoints.find import Checkpoint
from seatrial.checkpoints.run_folder import RunFolder
from seatrial.core.finding import Evidence, Finding, Place
from seatrial.core.observation.values import Observation

# File systems keep times coarsely, and clocks of machines differ a little.
_SLACK_S = 2.0


def earlier_run(
    checkpoints: Iterable[Checkpoint],
    observation: Observation,
    folders: Sequence[RunFolder],
    start: float | None,
) -> frozenset[str]:
    """Paths of those that are older than the run and that it did not write.

    Where a training resumed, what lies there may be what it resumed from and is not left out.

    Args:
        checkpoints: everything found.
        observation: of the run.
        folders: the output folders of its Trainers.
        start: of the runner, in seconds since the epoch; None when unknown.
    """
    resumed = [folder.path for folder in folders if folder.resumes(observation)]
    if start is None or (observation.resumes and not resumed):
        return frozenset()
    written = {save.path for save in observation.saves}
    return frozenset(
        item.path
        for item in checkpoints
        if item.mtime < start - _SLACK_S
        and item.path not in written
        and not written.intersection(item.weights)
        and not any(item.path.startswith(folder + os.sep) for folder in resumed)
    )


def earlier_findings(paths: Iterable[str]) -> list[Finding]:
    """A note about those that lie outside a Trainer's own checkpoint folders."""
    listed = sorted(paths)
    if not listed:
        return []
    names = ", ".join(os.path.basename(path) for path in listed[:5])
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    one = len(listed) == 1
    return [
        Finding(
            "checkpoint.earlier",
            "checkpoint",
            "note",
            f"{os.path.dirname(listed[0])}: {names}{more} {'is' if one else 'are'} older than this "
            f"run, and {'was' if one else 'were'} not looked at",
            Place(file=listed[0]),
            Evidence(observed=listed[:20]),
            "",
            "measured",
        )
    ]
