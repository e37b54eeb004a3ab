"""The facts about the best for page and result: which one, its hashes, and a row for each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seatrial.checkpoints.examine import Examined
from seatrial.checkpoints.find import Found
from seatrial.checkpoints.memory_match import saves_by_path
from seatrial.checkpoints.run_folder import BestAnswer
from seatrial.core.observation.values import Observation

NO_METRIC = "last checkpoint; no evaluation decides"
_MODEL_KINDS = ("hf", "peft", "pt", "dcp")
# A file with fewer elements than this share of the model is no checkpoint of the model.
_WHOLE = 0.5


def weights_sha256(files: Mapping[str, str]) -> str | None:
    """One hash for the weights of a checkpoint: of its single file, or of ``name sha256`` lines."""
    if not files:
        return None
    if len(files) == 1:
        return next(iter(files.values()))
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def best_facts(
    found: Found,
    examined: Mapping[str, Examined],
    observation: Observation,
    answers: Sequence[BestAnswer],
) -> dict[str, Any]:
    """``best``, ``why``, ``recorded`` and ``table``.

    ``best`` is the best of the checkpoints that are there, of the training that recorded or
    evaluated last; where no evaluation decides, the last checkpoint that can be used, with the
    metric null. ``why`` says so in words.

    Args:
        found: all checkpoints.
        examined: those that were read, by path.
        observation: of the run.
        answers: what was gathered of each output folder, the last one last.
    """
    best: dict[str, Any] | None = None
    recorded: dict[str, Any] | None = None
    why = ""
    for answer in answers:
        case = answer.case
        if case.recorded.value is not None or case.recorded.path is not None:
            recorded = {"metric": case.history.metric, **vars(case.recorded)}
        if case.best_saved is not None:
            step, value = case.best_saved
            best = _best(found, examined, case.saved[step], case.history.metric, value, step)
    if best is None:
        best, why = _last(found, examined, observation), NO_METRIC
    elif recorded is None:
        why = f"best of the saved steps by {best['metric']}; the run recorded none"
    return {
        "best": best,
        "why": why if best is not None else "",
        "recorded": recorded,
        "table": _table(found, examined, observation, answers),
    }


def _best(
    found: Found,
    examined: Mapping[str, Examined],
    path: str,
    metric: str | None,
    value: float | None,
    step: int | None,
) -> dict[str, Any]:
    looked = examined.get(path)
    files = dict(sorted(looked.sha256.items())) if looked is not None else {}
    whole = looked is not None and len(files) == len(looked.checkpoint.weights)
    return {
        "metric": metric,
        "value": value,
        "step": step,
        "path": path,
        "sha256": weights_sha256(files) if whole else None,
        "files": files,
        "kind": found.checkpoints[path].kind,
    }


def _last(
    found: Found, examined: Mapping[str, Examined], observation: Observation
) -> dict[str, Any] | None:
    """The checkpoint that was saved last and can be used; of whole models rather than of others."""
    owners = {
        file: item.path
        for item in found.checkpoints.values()
        for file in (item.path, *item.weights)
    }
    usable = []
    for save in reversed(observation.saves):
        looked = examined.get(owners.get(save.path, ""))
        if looked is not None and not looked.fault and looked.checkpoint.kind in _MODEL_KINDS:
            usable.append((looked, save))
    given = [model.data.get("trainable") for model in observation.models]
    smallest = min((n for n in given if isinstance(n, int) and n > 0), default=0) * _WHOLE
    whole = [pair for pair in usable if not pair[0].elements or pair[0].elements >= smallest]
    for looked, save in whole or usable:
        step = looked.checkpoint.step
        at = save.step if step is None else step
        return _best(found, examined, looked.checkpoint.path, None, None, at)
    return None


def _table(
    found: Found,
    examined: Mapping[str, Examined],
    observation: Observation,
    answers: Iterable[BestAnswer],
) -> list[dict[str, Any]]:
    steps = {file: saves[-1].step for file, saves in saves_by_path(observation.saves).items()}
    values: dict[str, float] = {}
    for answer in answers:
        for step, path in answer.case.saved.items():
            value = answer.case.history.value_at(step)
            if value is not None:
                values[path] = value
    rows = []
    for item in found.checkpoints.values():
        looked = examined.get(item.path)
        known = [steps[file] for file in item.weights if file in steps]
        rows.append(
            {
                "step": item.step if item.step is not None else next(iter(known), None),
                "path": item.path,
                "kind": item.kind,
                "bytes": item.bytes,
                "sha256": weights_sha256(looked.sha256) if looked and looked.looked else None,
                "value": values.get(item.path),
                "finite": looked.finite if looked is not None else None,
                "fault": looked.fault if looked is not None else "",
                "read": looked is not None,
            }
        )
    return sorted(rows, key=lambda row: (row["step"] is None, row["step"] or 0, row["path"]))
