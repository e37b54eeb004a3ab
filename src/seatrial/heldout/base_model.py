"""Which model is the base: what the trained one is compared with."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from seatrial.core.observation import Observation
from seatrial.core.trial import Trial

_MAX_CONFIG = 16 << 20


@dataclass(frozen=True)
class BaseModel:
    """Where the base model lies, and how that is known; ``path`` is None when it is not."""

    path: str | None
    kind: str
    source: str
    weights: tuple[str, ...] = ()


def base_model(trial: Trial, observation: Observation, adapter_base: str | None) -> BaseModel:
    """The trial's model input, else the adapter's base, else what the run saved before step 1.

    Args:
        trial: its inputs of role model are looked at first.
        observation: the run's saves.
        adapter_base: local folder that an adapter names as its base; None for a full model.
    """
    models = [spec for spec in trial.inputs if spec.role == "model"]
    # The trial's own loader opens what no format of ours names.
    own = trial.heldout is not None and trial.heldout.loader is not None
    for spec in models:
        if spec.path is not None and (_kind(spec.path) or (own and os.path.exists(spec.path))):
            return _known(spec.path, f"input {spec.id!r}")
    if adapter_base is not None and os.path.isdir(adapter_base) and _kind(adapter_base):
        return _known(adapter_base, "the adapter's base model")
    saved = _saved_before_training(observation)
    if saved is not None:
        return _known(saved, "what the run saved before its first step")
    if models:
        told = models[0].hub or models[0].path
        return BaseModel(None, "", f"input {models[0].id!r} ({told}) is no local model folder")
    return BaseModel(
        None,
        "",
        "the trial has no input of role model, and the run saved nothing before its first step",
    )


def adapter_base_of(trial: Trial, path: str, cwd: str) -> str | None:
    """Local folder of an adapter's base: the trial's model input before what the adapter names.

    Args:
        trial: its inputs.
        path: folder of the adapter.
        cwd: of the run, which a relative name is seen from.
    """
    for spec in trial.inputs:
        if spec.role == "model" and spec.path is not None:
            return spec.path
    config = os.path.join(path, "adapter_config.json")
    try:
        if os.path.getsize(config) > _MAX_CONFIG:
            return None
        with open(config, encoding="utf-8") as file:
            told = json.load(file).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    if not isinstance(told, str) or not told:
        return None
    found = os.path.join(cwd, told)
    return found if os.path.isdir(found) else None


def adapter_folder(path: str) -> str:
    """Where an adapter lies: the folder itself, or the one below it that carries its name."""
    if not os.path.isdir(path) or os.path.isfile(os.path.join(path, "adapter_config.json")):
        return path
    inside = sorted(entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False))
    named = [one for one in inside if os.path.isfile(os.path.join(one, "adapter_config.json"))]
    return named[0] if len(named) == 1 else path


def weight_files(path: str) -> tuple[str, ...]:
    """Names of the weight files of a checkpoint: of a folder, or the file itself."""
    if os.path.isfile(path):
        return (os.path.basename(path),)
    try:
        names = sorted(os.listdir(path))
    except OSError:
        return ()
    tensors = tuple(name for name in names if name.endswith(".safetensors"))
    return tensors or tuple(name for name in names if name.endswith(".bin") and "model" in name)


def _known(path: str, source: str) -> BaseModel:
    return BaseModel(path, _kind(path) or "pt", source, weight_files(path))


def _kind(path: str) -> str:
    if os.path.isfile(path):
        return "pt" if path.endswith((".pt", ".pth", ".bin")) else ""
    if os.path.isfile(os.path.join(path, "adapter_config.json")):
        return "peft"
    return "hf" if os.path.isfile(os.path.join(path, "config.json")) else ""


def _saved_before_training(observation: Observation) -> str | None:
    """Folder or file of a save at step 0 that is still there; a folder when it is a whole model.

    What was saved again later holds trained weights by now.
    """
    later = {save.path for save in observation.saves if save.step != 0}
    for save in observation.saves:
        path: Any = save.path
        if save.step != 0 or save.error is not None or not isinstance(path, str):
            continue
        if path in later or not os.path.exists(path):
            continue
        folder = os.path.dirname(path)
        if _kind(folder):
            return folder
        if _kind(path):
            return path
    return None
