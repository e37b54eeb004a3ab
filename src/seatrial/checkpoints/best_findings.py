"""Findings about the best that need the files: its weights, the reload, the number of folders."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from seatrial.checkpoints.examine import Examined
from seatrial.checkpoints.final_weights import FinalWeights
from seatrial.checkpoints.run_folder import RunFolder
from seatrial.core.best_judgement import BestCase
from seatrial.core.finding import Evidence, Finding, Place

_FAMILY = "best_checkpoint"


def unusable_findings(case: BestCase, examined: Mapping[str, Examined]) -> list[Finding]:
    """The recorded best is there, and it is of no use."""
    path = case.recorded.path
    looked = examined.get(path) if path is not None else None
    if looked is None or not looked.fault:
        return []
    broken = looked.finite is False
    return [
        Finding(
            "best_checkpoint.not_finite" if broken else "best_checkpoint.unusable",
            _FAMILY,
            "error",
            f"the recorded best {path} is of no use: {looked.fault}",
            Place(file=path, step=case.recorded.path_step),
            Evidence(observed=looked.fault),
            "evaluate and save again; a metric that leaves nan values out makes a broken "
            "checkpoint look good"
            if broken
            else "save it again",
            "proven",
        )
    ]


def reload_findings(case: BestCase, final: FinalWeights | None) -> list[Finding]:
    """What the script saved at its end against the best."""
    if final is None or final.is_best or not final.is_last or case.best is None:
        return []
    last = max(case.ever_saved)
    said = (
        f"{final.folder} holds the weights of the last checkpoint (step {last}), and not those of "
        f"the best, {case.told(case.best_saved or case.best)}"
    )
    if case.wish.load_best:
        return [
            _final(
                "not_reloaded",
                "error",
                f"{said}, although load_best_model_at_end is set",
                "see that nothing is trained or loaded between the end of train() and the save",
                final,
                case,
                last,
            )
        ]
    if not case.wish.asked:
        return []
    if "best" in re.split(r"[^a-z0-9]+", os.path.basename(final.folder).lower()):
        return [
            _final(
                "named_best",
                "error",
                f"{said}, although it is called best",
                "take the checkpoint of best_global_step, not the one with the highest number",
                final,
                case,
                last,
            )
        ]
    return [
        _final(
            "final_is_not_best",
            case.absence,
            said,
            "set load_best_model_at_end=True, or use the best checkpoint's folder",
            final,
            case,
            last,
        )
    ]


def _final(
    code: str,
    severity: str,
    message: str,
    remedy: str,
    final: FinalWeights,
    case: BestCase,
    last: int,
) -> Finding:
    best = case.best_saved or case.best
    return Finding(
        f"best_checkpoint.{code}",
        _FAMILY,
        severity,
        message,
        Place(file=final.folder, step=last),
        Evidence(observed=last, expected=best[0] if best is not None else None),
        remedy,
        "proven",
    )


def limit_findings(case: BestCase, folder: RunFolder, stale: frozenset[str]) -> list[Finding]:
    """More folders than ``save_total_limit`` keeps.

    One more is allowed: the best, or a save that was not yet followed by the clean-up.
    """
    limit = case.wish.limit
    mine = [item.path for item in folder.checkpoints.values() if item.path not in stale]
    if limit is None or limit < 1 or len(mine) <= limit + 1:
        return []
    return [
        Finding(
            "best_checkpoint.limit_exceeded",
            _FAMILY,
            "warning",
            f"{folder.path} holds {len(mine)} checkpoints of this run; save_total_limit is {limit}",
            Place(file=folder.path),
            Evidence(len(mine), limit),
            "see what keeps the clean-up from working before a long run fills the disk",
            "measured",
        )
    ]


def stale_findings(
    folder: RunFolder | None, stale: frozenset[str], recorded: str | None
) -> list[Finding]:
    """Checkpoints of an earlier run beside those of this one."""
    if folder is None or not stale - {recorded}:
        return []
    names = sorted(os.path.basename(path) for path in stale)
    return [
        Finding(
            "checkpoint.stale",
            "checkpoint",
            "warning",
            f"{folder.path} also holds {', '.join(names[:5])}"
            f"{f' and {len(names) - 5} more' if len(names) > 5 else ''} of an earlier run",
            Place(file=folder.path),
            Evidence(observed=names[:20]),
            "use an empty output folder for each run; a loader that takes the highest number takes "
            "the wrong one",
            "measured",
        )
    ]
