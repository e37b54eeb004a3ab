"""Inputs of a trial that are one and the same thing in two roles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.core.errors import UsageError
from seatrial.core.finding import Evidence, Finding, Place
from seatrial.core.trial import Trial

CODE = "inputs.shared"
_LEARNT = ("train", "validation")
_DATA = (*_LEARNT, "heldout")


@dataclass(frozen=True)
class _Source:
    """One input, or the held-out cases."""

    name: str
    role: str
    shown: str
    identity: tuple[object, ...]
    split: str | None
    real: str | None
    is_hub: bool = False
    is_folder: bool = False


def shared_inputs(trial: Trial) -> tuple[Finding, ...]:
    """Warnings about inputs that overlap in a way that may be meant.

    Raises:
        UsageError: the held-out data is also what is trained on or chosen by.
    """
    sources = list(_sources(trial))
    found = []
    for index, one in enumerate(sources):
        for other in sources[index + 1 :]:
            text = _overlap(one, other)
            if text is None:
                continue
            roles = {one.role, other.role}
            apart = "heldout" in roles and len(roles) > 1
            if apart and one.identity == other.identity and not one.is_hub:
                raise UsageError(
                    f"{one.name} ({one.role}) and {other.name} ({other.role}) {text}: what is held "
                    "out must be in no other role",
                    remedy="name another file for one of them in the trial",
                )
            found.append(_finding(trial, one, other, text))
    return tuple(found)


def _finding(trial: Trial, one: _Source, other: _Source, text: str) -> Finding:
    return Finding(
        code=CODE,
        family="inputs",
        severity="warning",
        message=f"{one.name} ({one.role}) and {other.name} ({other.role}) {text}",
        place=Place(file=trial.file),
        evidence=Evidence(observed=one.shown, expected="data of its own for each role"),
        remedy="name the split of each, or another file for one of them",
        confidence="likely",
    )


def _sources(trial: Trial) -> Iterator[_Source]:
    for spec in trial.inputs:
        if spec.role not in _DATA:
            continue  # a model and its tokenizer are often one folder
        name = f"input {spec.id!r}"
        if spec.path is not None:
            yield _path(name, spec.role, spec.path, spec.split)
        else:
            identity = ("hub", spec.hub)
            yield _Source(name, spec.role, str(spec.hub), identity, spec.split, None, is_hub=True)
    if trial.heldout is not None:
        yield _path("heldout.cases", "heldout", trial.heldout.cases, None)


def _path(name: str, role: str, path: str, split: str | None) -> _Source:
    real = os.path.realpath(path)
    try:
        found = os.stat(path)
        identity: tuple[object, ...] = (found.st_dev, found.st_ino)
    except (OSError, ValueError):
        identity = (real,)
    return _Source(name, role, path, identity, split, real, is_folder=os.path.isdir(path))


def _overlap(one: _Source, other: _Source) -> str | None:
    """In words how two sources overlap; None when they do not, or may well be meant to."""
    if one.role == other.role:
        return None
    if one.split is not None and other.split is not None and one.split != other.split:
        return None
    if one.identity == other.identity:
        same_split = "" if one.split is None or other.split is None else f", split {one.split!r}"
        return f"are both {one.shown}{same_split}"
    if "heldout" not in (one.role, other.role) or one.real is None or other.real is None:
        return None
    for outer, inner in ((one, other), (other, one)):
        if outer.is_folder and str(inner.real).startswith(f"{outer.real}{os.sep}"):
            return f"overlap: {inner.shown} is inside {outer.shown}"
    return None
