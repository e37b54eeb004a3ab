"""Which folders and files of a run to look into for checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from seatrial.checkpoints.find import Found, find_checkpoints, is_beside, step_of
from seatrial.core.observation.values import SaveView

# torch.save writes these inside a folder that is a checkpoint as a whole.
_IN_A_FOLDER = ("pytorch_model", "adapter_model")


def search(
    saves: Iterable[SaveView], declared: str | None, stop: Callable[[], bool] = lambda: False
) -> Found:
    """Find what a run saved, and what else lies in its output folders.

    A Trainer's output folder and the declared one are searched with all that lies below; of other
    saves exactly the file or folder that was written counts, because a script may save into its
    home folder.

    Args:
        saves: of the run.
        declared: ``[output] dir`` of a trial.
        stop: asked before each folder.
    """
    trees, folders, files = [], [], []
    if declared is not None and os.path.isdir(declared):
        trees.append(declared)
    for save in saves:
        if not save.path:
            continue
        folder, name = os.path.split(save.path)
        if save.kind == "trainer":
            trees.append(folder if step_of(save.path) is not None else save.path)
        elif save.kind == "dcp":
            folders.append(save.path)
        elif save.kind == "safetensors" or name.startswith(_IN_A_FOLDER):
            folders.append(folder)
            files.append(save.path)
        elif save.kind == "torch.save" and save.tensors and not is_beside(name):
            files.append(save.path)
    return find_checkpoints(
        [tree for tree in dict.fromkeys(trees) if os.path.isdir(tree)],
        [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)],
        dict.fromkeys(files),
        stop=stop,
    )
