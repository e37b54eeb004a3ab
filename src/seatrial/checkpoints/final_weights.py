"""Whether the weights that a script saved at its end are those of the best checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.checkpoints.find import step_of
from seatrial.core.observation.values import SaveView


@dataclass(frozen=True)
class FinalWeights:
    """A folder that was saved after the last checkpoint, and whose weights it holds.

    Attributes:
        folder: the folder.
        is_best, is_last: whether its weights are, in every tensor, those of the best and of the
            last checkpoint.
    """

    folder: str
    is_best: bool
    is_last: bool


def final_weights(
    saves: Sequence[SaveView], output: str, best_folder: str, last_folder: str
) -> FinalWeights | None:
    """The last model saved outside the checkpoint folders; None when there is none to compare.

    Args:
        saves: of the run, in order.
        output: the output folder; what was saved before its last checkpoint, or after the first
            one of another training, does not count.
        best_folder: of the best checkpoint.
        last_folder: of the checkpoint with the highest step.
    """
    ends = [place for place, save in enumerate(saves) if save.kind == "trainer"]
    mine_end = max((p for p in ends if os.path.dirname(saves[p].path) == output), default=None)
    if mine_end is None:
        return None
    next_end = min((p for p in ends if p > mine_end), default=len(saves))
    by_folder: dict[str, dict[str, str]] = {}
    last = None
    for place, save in enumerate(saves):
        if save.kind != "safetensors" or not save.path or save.error:
            continue
        folder = os.path.dirname(save.path)
        by_folder.setdefault(folder, {}).update(save.digests)
        if mine_end < place < next_end and step_of(folder) is None:
            last = folder
    if last is None or best_folder == last_folder:
        return None
    mine = by_folder[last]
    best, newest = by_folder.get(best_folder, {}), by_folder.get(last_folder, {})
    if not mine or set(mine) != set(best) or set(mine) != set(newest):
        return None
    return FinalWeights(last, _equal(mine, best), _equal(mine, newest))


def _equal(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    known = [name for name in first if "None" not in (first[name], second[name])]
    return bool(known) and all(first[name] == second[name] for name in known)
