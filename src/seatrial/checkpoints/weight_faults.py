"""Faults in the weights themselves: NaN and infinity, sizes that do not fit the model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seatrial.checkpoints.scan import TensorScan
from seatrial.core.finding import Evidence, Finding, Place
from seatrial.core.observation.values import SaveView

_WEIGHT = re.compile(r"(^|[._])(weight|bias|kernel|gamma|beta|embedding|embeddings)$|lora_[AB]")
_MASK = re.compile(r"mask|causal|tril|triu", re.IGNORECASE)
_TOO_SMALL, _TOO_LARGE = 0.5, 1.5


def changing(saves: Iterable[SaveView]) -> tuple[frozenset[str], frozenset[str]]:
    """Names of tensors that changed from save to save, and of those that stayed as they were."""
    seen: dict[str, set[tuple[int | None, str]]] = {}
    for save in saves:
        for name, digest in save.digests.items():
            seen.setdefault(name, set()).add((save.step, digest))
    moved: set[str] = set()
    still: set[str] = set()
    for name, pairs in seen.items():
        if len({step for step, _digest in pairs}) > 1:
            (moved if len({digest for _step, digest in pairs}) > 1 else still).add(name)
    return frozenset(moved), frozenset(still)


def nonfinite_findings(
    path: str,
    step: int | None,
    tensors: Iterable[TensorScan],
    moved: frozenset[str],
    still: frozenset[str],
) -> list[Finding]:
    """NaN and infinity in a file, at most one finding for each severity.

    A buffer may hold infinities on purpose (an attention mask, a best loss so far): infinities in a
    tensor that is no weight by its name and did not change between saves are left alone.

    Args:
        path: the file.
        step: of its save.
        tensors: as scanned.
        moved: see ``changing``.
        still: likewise.
    """
    errors, warnings = [], []
    for tensor in tensors:
        if not tensor.nonfinite:
            continue
        if _WEIGHT.search(tensor.name) or tensor.name in moved:
            errors.append(tensor)
        elif tensor.nonfinite > tensor.infinite or not _on_purpose(tensor, still):
            warnings.append(tensor)
    found = []
    for severity, these in (("error", errors), ("warning", warnings)):
        if these:
            found.append(_nonfinite(path, step, these, severity))
    return found


def _on_purpose(tensor: TensorScan, still: frozenset[str]) -> bool:
    return (
        tensor.name in still or _MASK.search(tensor.name) is not None or tensor.shape in ((), (1,))
    )


def _nonfinite(
    path: str, step: int | None, tensors: Sequence[TensorScan], severity: str
) -> Finding:
    first = tensors[0]
    more = f"; {len(tensors)} tensors of the file have such values" if len(tensors) > 1 else ""
    return Finding(
        "checkpoint.not_finite",
        "checkpoint",
        severity,
        f"{path}: {first.name}{list(first.index())} is {first.word}, as "
        f"{first.nonfinite} of its elements are not finite{more}"
        if first.nonfinite and first.nonfinite > 1
        else f"{path}: {first.name}{list(first.index())} is {first.word}{more}",
        Place(file=path, step=step, parameter=first.name),
        Evidence(observed={"tensors": [t.name for t in tensors[:5]], "index": list(first.index())}),
        "find the step at which the loss or a gradient first was not finite; no checkpoint from "
        "then on is of use",
        "proven",
    )


def size_findings(
    path: str,
    kind: str,
    tensors: Sequence[TensorScan],
    models: Sequence[Mapping[str, Any]],
) -> list[Finding]:
    """Whether the elements on disk fit the model in memory, with room for ties and extra buffers.

    Args:
        path: the checkpoint.
        kind: ``hf`` or ``peft``; other files hold what their script likes.
        tensors: of all its files.
        models: summaries of the models that the probe saw.
    """
    empty = _empty_findings(path, tensors)
    if empty:
        return empty
    elements = sum(_elements(tensor) for tensor in tensors)
    totals = [n for model in models for n in [model.get("parameters")] if isinstance(n, int) and n]
    learnt = [n for model in models for n in [model.get("trainable")] if isinstance(n, int) and n]
    if kind == "peft":
        return _whole_base(path, elements, totals, learnt)
    if kind != "hf" or not totals or _is_packed(tensors):
        return []
    if any(_TOO_SMALL <= elements / total <= _TOO_LARGE for total in totals):
        return []
    nearest = min(totals, key=lambda total: abs(total - elements))
    small = elements < nearest
    return [
        _size(
            "too_small" if small else "too_large",
            "warning",
            path,
            f"it holds {elements:,} elements; the model in memory has {nearest:,} parameters",
            "see that all ranks' parts are gathered before the save"
            if small
            else "see what else is saved beside the weights",
            elements,
            nearest,
        )
    ]


def _empty_findings(path: str, tensors: Sequence[TensorScan]) -> list[Finding]:
    empty = [tensor for tensor in tensors if 0 in tensor.shape and _WEIGHT.search(tensor.name)]
    if tensors and 2 * len(empty) >= len(tensors):
        return [
            _size(
                "empty_tensors",
                "error",
                path,
                f"{len(empty)} of {len(tensors)} tensors have no element ({empty[0].name} has "
                f"shape {list(empty[0].shape)}): weights that were sharded over ranks were saved "
                "without being gathered",
                "gather them before the save (ZeRO-3: stage3_gather_16bit_weights_on_model_save)",
                len(empty),
                0,
            )
        ]
    return []


def _whole_base(
    path: str, elements: int, totals: Sequence[int], learnt: Sequence[int]
) -> list[Finding]:
    if totals and learnt and elements > 3 * max(learnt) and elements >= 0.9 * min(totals):
        return [
            _size(
                "too_large",
                "warning",
                path,
                f"the adapter holds {elements:,} elements; the model trains {max(learnt):,} of "
                f"{min(totals):,}: it seems to hold the whole base model",
                "save the adapter alone (PeftModel.save_pretrained)",
                elements,
                max(learnt),
            )
        ]
    return []


def _elements(tensor: TensorScan) -> int:
    total = 1
    for size in tensor.shape:
        total *= size
    return total


def _is_packed(tensors: Sequence[TensorScan]) -> bool:
    """Whether weights are quantised: several numbers in one element."""
    return any(tensor.dtype in ("U8", "I8", "I32", "F4") and tensor.shape for tensor in tensors)


def _size(
    code: str, severity: str, path: str, message: str, remedy: str, observed: int, expected: int
) -> Finding:
    return Finding(
        f"checkpoint.{code}",
        "checkpoint",
        severity,
        f"{path}: {message}",
        Place(file=path),
        Evidence(observed, expected, f"{_TOO_SMALL} to {_TOO_LARGE} times"),
        remedy,
        "measured",
    )
