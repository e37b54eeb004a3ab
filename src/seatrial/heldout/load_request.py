"""What the child that loads a checkpoint is told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from seatrial.core.trial import HeldoutSpec, Trial


def load_request(
    trial: Trial,
    spec: HeldoutSpec,
    path: str,
    kind: str,
    weights: Sequence[str],
    device: str,
    max_new_tokens: int,
) -> dict[str, Any]:
    """The first question for ``child/generate.py``.

    Args:
        trial: names folders in which a tokenizer may lie.
        spec: its held-out part.
        path: of the checkpoint, a folder or a file.
        kind: ``hf``, ``peft``, ``pt`` or ``dcp``.
        weights: names of its files, seen from its folder.
        device: that the training ran on.
        max_new_tokens: of one answer.
    """
    places = [path if os.path.isdir(path) else os.path.dirname(path)]
    places += [
        given.path
        for role in ("tokenizer", "model")
        for given in trial.inputs
        if given.role == role and given.path is not None and os.path.isdir(given.path)
    ]
    return {
        "path": path,
        "kind": kind,
        "weights": list(weights),
        "loader": None if spec.loader is None else list(spec.loader.rpartition(":")[::2]),
        "tokenizers": places,
        "max_new_tokens": max_new_tokens,
        "seed": trial.seed or 0,
        "device": "cuda" if device.startswith("cuda") else "cpu",
    }
