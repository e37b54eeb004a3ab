"""What was in memory when a file was saved, against what is in the file now."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from seatrial.checkpoints.scan import TensorScan
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.observation.values import SaveView

# Endings of libraries that save dicts of tensors.
KINDS = frozenset({"safetensors", "torch.save"})


def saves_by_path(saves: Iterable[SaveView]) -> dict[str, list[SaveView]]:
    """The last save of each rank to each path; whoever wrote last wins."""
    found: dict[str, dict[int | None, SaveView]] = {}
    for save in saves:
        if save.path and save.kind in KINDS:
            at = found.setdefault(save.path, {})
            at.pop(save.rank, None)
            at[save.rank] = save
    return {path: list(ranks.values()) for path, ranks in found.items()}


@dataclass(frozen=True)
class Match:
    """The answer for one file: tensors compared, findings, and what could not be compared."""

    compared: int
    findings: tuple[Finding, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()


def match(
    path: str,
    saves: list[SaveView],
    tensors: Mapping[str, TensorScan],
    others: Mapping[str, list[SaveView]],
) -> Match:
    """Compare one file with the saves that wrote it.

    Args:
        path: the file.
        saves: the last save of each rank that wrote to it.
        tensors: what the file holds, with digests.
        others: all saves by path, to tell a copy of another save.
    """
    saves = [save for save in saves if not save.error]  # a failed save is a finding of its own
    findings = list(_two_writers(path, saves))
    best: tuple[int, list[str]] | None = None
    for save in saves:
        compared, wrong = _compare(save, tensors)
        if best is None or len(wrong) < len(best[1]):
            best = (compared, wrong)
    if best is None:
        return Match(0)
    compared, wrong = best
    if wrong:
        findings.append(_difference(path, saves[-1], wrong, compared, tensors, others))
    if not compared and any(save.tensors for save in saves):
        return Match(
            0,
            tuple(findings),
            (
                NotJudged(
                    "checkpoint.memory",
                    "checkpoint",
                    f"{path}: nothing of what was in memory can be compared with the file (digests "
                    "are taken of the first 1 GiB of a save)",
                ),
            ),
        )
    return Match(compared, tuple(findings))


def _compare(save: SaveView, tensors: Mapping[str, TensorScan]) -> tuple[int, list[str]]:
    """How many tensors could be compared, and the names of those that differ."""
    there = {tensor.sha256 for tensor in tensors.values()}
    compared, wrong = 0, []
    for name, digest in save.digests.items():
        if digest in ("", "None"):
            continue
        tensor = tensors.get(name)
        if tensor is None:
            # One of several names of shared weights is enough on disk.
            if digest not in there:
                compared += 1
                wrong.append(name)
        elif tensor.sha256 is not None:
            compared += 1
            if tensor.sha256 != digest:
                wrong.append(name)
    return compared, wrong


def _difference(
    path: str,
    save: SaveView,
    wrong: list[str],
    compared: int,
    tensors: Mapping[str, TensorScan],
    others: Mapping[str, list[SaveView]],
) -> Finding:
    twin = _copied_from(path, tensors, others)
    at = f"step {save.step}" if save.step is not None else "its save"
    if twin is not None:
        return Finding(
            "checkpoint.replaced",
            "checkpoint",
            "note",
            f"{path} is not what was saved there at {at}: it is a copy of {twin.path} (step "
            f"{twin.step})",
            Place(file=path, step=save.step),
            Evidence(observed=twin.path, expected=save.step),
            "",
            "proven",
        )
    first = wrong[0]
    tensor = tensors.get(first)
    if tensor is None:
        how = f"{first} was in memory at {at} and is missing from the file"
    elif tensor.zero:
        how = f"{first} is all zero in the file, and was not in memory at {at}"
    else:
        how = f"{first} has other values in the file than in memory at {at}"
    return Finding(
        "checkpoint.memory_differs",
        "checkpoint",
        "error",
        f"{path}: {how} ({len(wrong)} of {compared} tensors differ)",
        Place(file=path, step=save.step, parameter=first),
        Evidence(
            observed=None if tensor is None else tensor.sha256,
            expected=save.digests.get(first),
        ),
        "save it again and compare; if something rewrites the file after the save, let it write "
        "elsewhere",
        "proven",
    )


def _copied_from(
    path: str, tensors: Mapping[str, TensorScan], others: Mapping[str, list[SaveView]]
) -> SaveView | None:
    """The save of another path whose every digest is in this file: a copy that somebody made."""
    for other, saves in others.items():
        for save in saves:
            if other != path and save.digests and set(save.digests) == set(tensors):
                compared, wrong = _compare(save, tensors)
                if compared and not wrong:
                    return save
    return None


def _two_writers(path: str, saves: list[SaveView]) -> Iterable[Finding]:
    steps = {save.step for save in saves}
    contents = {tuple(sorted(save.digests.items())) for save in saves if save.digests}
    if len(saves) < 2 or len(steps) > 1 or len(contents) < 2:
        return
    ranks = ", ".join(str(save.rank) for save in saves)
    yield Finding(
        "checkpoint.two_writers",
        "checkpoint",
        "error",
        f"{path} was written by ranks {ranks} at step {saves[0].step}, each with other weights: "
        "the ranks train apart from each other and overwrite each other's checkpoints",
        Place(file=path, step=saves[0].step),
        Evidence(observed=len(contents), expected=1),
        "make the ranks one group (a Trainer on CPUs needs use_cpu=True), and save on rank 0 alone",
        "proven",
    )


def failed_saves(saves: Iterable[SaveView]) -> list[Finding]:
    """Saves that raised and were not repeated: the file is missing or in pieces."""
    found = []
    for path, ranks in saves_by_path(saves).items():
        last = ranks[-1]
        if not last.error:
            continue
        there = os.path.exists(path)
        found.append(
            Finding(
                "checkpoint.save_failed",
                "checkpoint",
                "error" if there else "warning",
                f"the save of {path} at step {last.step} failed: {last.error[:200]}"
                + ("; what is there now is not that save" if there else ""),
                Place(file=path, step=last.step, rank=last.rank),
                Evidence(observed=last.error[:200]),
                "look at the disk's room and rights, and save again",
                "proven",
            )
        )
    return found
