"""What a reload in a fresh process shows: findings on the model that was loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.core.finding import Evidence, Finding, NotJudged, Place

_NAMED = 5


def reload_findings(
    ready: Mapping[str, Any], path: str, *, own_loader: bool = False
) -> Iterator[Finding]:
    """Faults of a loaded model.

    Args:
        ready: the child's first answer.
        path: of the checkpoint.
        own_loader: the user's function loaded it, which may change tensors on purpose.
    """
    missing = list(ready.get("missing") or ())
    if missing:
        yield Finding(
            "checkpoint.reload_incomplete",
            "checkpoint",
            "error",
            f"{len(missing)} weights of the model are not in the checkpoint and were made up "
            f"anew: {', '.join(missing[:_NAMED])}.",
            place=Place(file=path, parameter=missing[0]),
            evidence=Evidence(missing[:_NAMED], "every weight of the model in the files"),
            remedy="Save the whole model; what is made up differs in every process.",
            confidence="proven",
        )
    unexpected = list(ready.get("unexpected") or ())
    if unexpected:
        yield Finding(
            "checkpoint.reload_unused",
            "checkpoint",
            "error",
            f"{len(unexpected)} weights of the checkpoint have no place in the model and were "
            f"left out: {', '.join(unexpected[:_NAMED])}.",
            place=Place(file=path, parameter=unexpected[0]),
            evidence=Evidence(unexpected[:_NAMED], "a place for every weight"),
            remedy="Save the model itself, not a wrapper of it (PEFT, DDP, torch.compile).",
            confidence="proven",
        )
    proof = ready.get("proof")
    different = list(proof.get("different") or ()) if isinstance(proof, Mapping) else []
    if different:
        yield Finding(
            "checkpoint.reload_differs",
            "checkpoint",
            "warning" if own_loader else "error",
            f"{len(different)} tensors in memory are not those of the files after loading: "
            f"{', '.join(different[:_NAMED])}.",
            place=Place(file=path, parameter=different[0]),
            evidence=Evidence(different[:_NAMED], "equal bytes"),
            remedy="Look at what the loader changes: a cast, a merge, another file of the name.",
            confidence="proven",
        )


def changed_while_answering(
    before: object, after: object, path: str, *, own_loader: bool
) -> Iterator[Finding]:
    """Weights in memory are others behind the last case than before the first one.

    Args:
        before: hash of the loaded weights.
        after: the same, when every case was answered.
        path: of the checkpoint.
        own_loader: the user's function loaded it; what it answers with is then its own affair.
    """
    if before is not None and before != after:
        yield Finding(
            "checkpoint.changed_while_answering",
            "checkpoint",
            "warning" if own_loader else "error",
            "The weights in memory changed while the cases were answered: not every answer is that "
            "of the checkpoint.",
            place=Place(file=path),
            evidence=Evidence(after, before),
            remedy="Look at what answer() or generate() writes to.",
            confidence="proven",
        )


def reload_open_points(ready: Mapping[str, Any]) -> Iterator[NotJudged]:
    """What the proof of a loaded model leaves open."""
    proof = ready.get("proof")
    told = proof if isinstance(proof, Mapping) else {}
    stored, compared = told.get("tensors_in_files") or 0, told.get("compared") or 0
    if told.get("error"):
        reason = f"the tensors of the files could not be read ({told['error']})"
    elif not compared:
        reason = "no tensor of the files was found in the model, by name or by its bytes"
    elif compared < stored:
        absent = ", ".join(map(str, (told.get("not_in_memory") or ())[:_NAMED]))
        reason = f"{stored - compared} tensors of the files are not in the model: {absent}"
    else:
        return
    yield NotJudged("heldout.reload_proof", "checkpoint", reason)


def changed_while_loading(
    before: Mapping[str, str], after: Mapping[str, str], path: str
) -> Iterator[Finding]:
    """Weight files whose hash is another one than when the checkpoint was scanned."""
    names = [name for name in before if after.get(name) != before[name]]
    if names:
        yield Finding(
            "checkpoint.changed_after_scan",
            "checkpoint",
            "error",
            f"{names[0]} is not the file that was scanned: its hash is "
            f"{str(after.get(names[0]))[:12]}, not {before[names[0]][:12]}.",
            place=Place(file=path),
            remedy="Find out what writes to the folder after training.",
            confidence="proven",
        )
