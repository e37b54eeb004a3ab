"""Rows that are in two splits: a held-out case that was trained on says nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.trial import Trial
from seatrial.preflight.data_rows import Keys, UnreadableRowsError, keys_on_the_way, rows_of

FAMILY = "inputs"
# Held-out rows that are remembered, at about 600 bytes each; train rows only pass by.
MAX_REMEMBERED = 200_000
_SHOWN = 8
_MAX_ALIKE = 16  # held-out rows that ask the same; of more, those before tell it as well
_WHAT = {"train": "trained on", "validation": "used to choose the checkpoint"}


@dataclass
class _Split:
    """Rows of one file: how many, which are unreadable, which hold nothing to compare."""

    path: str
    role: str
    rows: int = 0
    faults: int = 0
    first_fault: tuple[int, str] = (0, "")
    empty: int = 0
    unread: str = ""


@dataclass(frozen=True)
class _Case:
    """A held-out row, by hashes."""

    path: str
    number: int
    exact: bytes
    system: bytes
    answer: bytes


@dataclass
class _Index:
    """The held-out rows by what they ask."""

    asked: dict[bytes, list[_Case]] = field(default_factory=dict)
    rows: int = 0
    full: bool = False


@dataclass
class _Shared:
    """What two splits have in common: pairs of (row here, file there, row there)."""

    exact: list[tuple[int, str, int]] = field(default_factory=list)
    normal: list[tuple[int, str, int]] = field(default_factory=list)
    other_system: int = 0
    same_answer: int = 0


def overlap(trial: Trial) -> tuple[list[Finding], list[NotJudged]]:
    """Compare the local train and validation files of a trial with its held-out files.

    The files are read row by row in this process; of the held-out rows hashes are kept.
    """
    files = _files(trial)
    findings: list[Finding] = []
    unjudged: list[NotJudged] = []
    heldout = [path for role, path in files if role == "heldout"]
    others = [(role, path) for role, path in files if role != "heldout"]
    findings += _same_file(files)
    if not heldout or not others:
        lacking = "held-out" if not heldout else "train or validation"
        reason = f"the trial names no local {lacking} file to compare"
        # What there is must be readable all the same.
        splits = [_read_only(role, path) for role, path in files]
        unjudged.append(NotJudged("inputs.heldout_in_train", FAMILY, reason))
    else:
        index = _Index()
        splits = [_remember(path, index) for path in heldout]
        same = {os.path.realpath(path) for path in heldout}
        for role, path in others:
            if os.path.realpath(path) in same:
                continue  # said already, and every row would say it again
            split, shared = _pass_by(role, path, index)
            splits.append(split)
            findings += _shared_findings(split, shared)
        if index.full:
            reason = f"of the held-out rows only the first {MAX_REMEMBERED} were compared"
            unjudged.append(NotJudged("inputs.heldout_in_train", FAMILY, reason))
    for split in splits:
        findings += _split_findings(split)
        if split.unread:
            reason = f"{split.path} ({split.role}): {split.unread}"
            unjudged.append(NotJudged("inputs.heldout_in_train", FAMILY, reason))
    return findings, unjudged


def _files(trial: Trial) -> list[tuple[str, str]]:
    """Role and path of every local data file, each once."""
    named = [
        (entry.role, entry.path)
        for entry in trial.inputs
        if entry.path is not None and entry.role in ("train", "validation", "heldout")
    ]
    if trial.heldout is not None:
        named.append(("heldout", trial.heldout.cases))
    return list(dict.fromkeys(named))


def _same_file(files: Iterable[tuple[str, str]]) -> list[Finding]:
    """Two roles of which one is held-out, and one file."""
    found = []
    seen: dict[str, str] = {}
    for role, path in sorted(files):  # "heldout" comes first
        real = os.path.realpath(path)
        if seen.get(real) == "heldout" and role != "heldout":
            found.append(
                Finding(
                    f"inputs.heldout_in_{role}",
                    FAMILY,
                    "error",
                    f"{path} is the {role} file and the held-out file",
                    Place(file=path),
                    Evidence(observed=[role, "heldout"]),
                    "name another file for the held-out cases",
                    "proven",
                )
            )
        seen.setdefault(real, role)
    return found


def _walk(split: _Split) -> Iterable[tuple[int, list[Keys]]]:
    """Keys of all rows of a file, the whole row's first; notes what is wrong with it."""
    try:
        for row in rows_of(split.path):
            split.rows += 1
            fault = row.fault or ("" if isinstance(row.value, (dict, str)) else "is no object")
            if fault:
                split.first_fault = split.first_fault if split.faults else (row.number, fault)
                split.faults += 1
                continue
            keys = keys_on_the_way(row.value)
            if keys:
                yield row.number, keys
            else:
                split.empty += 1
    except UnreadableRowsError as error:
        split.unread = str(error)


def _read_only(role: str, path: str) -> _Split:
    split = _Split(path, role)
    for _ in _walk(split):
        pass
    return split


def _remember(path: str, index: _Index) -> _Split:
    split = _Split(path, "heldout")
    for number, (keys, *_) in _walk(split):
        if index.rows >= MAX_REMEMBERED:
            index.full = True
            continue
        index.rows += 1
        there = index.asked.setdefault(keys.asked, [])
        if len(there) < _MAX_ALIKE:
            there.append(_Case(path, number, keys.exact(), keys.system(), keys.answer()))
    return split


def _pass_by(role: str, path: str, index: _Index) -> tuple[_Split, _Shared]:
    split, shared = _Split(path, role), _Shared()
    for number, listed in _walk(split):
        known = [keys for keys in listed if keys.asked in index.asked]
        if known and not any(_note(keys, number, index, shared) for keys in known):
            shared.other_system += 1
    return split, shared


def _note(keys: Keys, number: int, index: _Index, shared: _Shared) -> bool:
    """Note the held-out case that has these keys; the same words may be another task."""
    there = index.asked[keys.asked]
    system, exact, answer = keys.system(), keys.exact(), keys.answer()
    same = [case for case in there if not system or case.system in (b"", system)]
    if not same:
        return False
    hit = next((case for case in same if case.exact == exact), same[0])
    kind = shared.exact if hit.exact == exact else shared.normal
    kind.append((number, hit.path, hit.number))
    shared.same_answer += bool(answer and answer == hit.answer)
    return True


def _shared_findings(split: _Split, shared: _Shared) -> list[Finding]:
    pairs = shared.exact + shared.normal
    found = []
    if pairs:
        row, there, number = pairs[0]
        shown = ", ".join(f"{a}={b}" for a, _, b in pairs[:_SHOWN])
        more = f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else ""
        found.append(
            Finding(
                f"inputs.heldout_in_{split.role}",
                FAMILY,
                "error",
                f"{len(pairs)} of {split.rows} {split.role} rows ask what a held-out case asks "
                f"({split.path} row = {there} row: {shown}{more}); held-out cases that were "
                f"{_WHAT[split.role]} show nothing",
                Place(file=split.path, row=row),
                Evidence(
                    observed={
                        "rows": len(pairs),
                        "exact": len(shared.exact),
                        "but for case and white space": len(shared.normal),
                        "with the same answer": shared.same_answer,
                        "first": {"row": row, "file": there, "heldout_row": number},
                    },
                    expected=0,
                ),
                f"take these rows out of {os.path.basename(split.path)}, or out of the held-out "
                "file, then seatrial freeze",
                "proven" if shared.exact else "likely",
            )
        )
    if shared.other_system:
        found.append(
            Finding(
                f"inputs.heldout_in_{split.role}",
                FAMILY,
                "note",
                f"{shared.other_system} {split.role} rows have the words of a held-out case under "
                "another system turn",
                Place(file=split.path),
                Evidence(observed=shared.other_system),
                "look whether the system turn makes it another task",
                "likely",
            )
        )
    return found


def _split_findings(split: _Split) -> list[Finding]:
    """A file whose rows cannot be read, or that has none."""
    if split.unread:
        return []
    if split.faults:
        number, fault = split.first_fault
        more = f", and {split.faults - 1} more rows" if split.faults > 1 else ""
        return [
            Finding(
                "inputs.row_unreadable",
                FAMILY,
                "error",
                f"row {number} of the {split.role} file {split.path} {fault}{more}",
                Place(file=split.path, row=number),
                Evidence(observed=split.faults, expected=0),
                "write one JSON object on each line",
                "proven",
            )
        ]
    return [_no_rows(split)] if split.empty == split.rows else []


def _no_rows(split: _Split) -> Finding:
    text = "has no rows" if split.rows == 0 else f"has {split.rows} rows and nothing in them"
    return Finding(
        "inputs.no_rows",
        FAMILY,
        "error",
        f"the {split.role} file {split.path} {text}",
        Place(file=split.path),
        Evidence(observed=0, expected="at least one row"),
        "fill it, or name another file under [[input]]",
        "proven",
    )
