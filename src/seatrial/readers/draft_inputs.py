"""Which files and Hub names of a script are inputs of a trial, and in which role."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from seatrial.core.draft import DraftInput, toml_string
from seatrial.readers.json_file import NotRegularError, open_regular
from seatrial.readers.script_facts import HubUse, Said, ScriptFacts

DATA_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".arrow", ".txt")
MAX_INPUTS = 40
_LINE_BYTES = 1 << 20
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_ROLES = (
    ("heldout", re.compile(r"(^|[^a-z])(test|held[-_ ]?out)([^a-z]|$)")),
    ("validation", re.compile(r"(^|[^a-z])(valid|validation|val|dev|eval)([^a-z]|$)")),
    ("train", re.compile(r"(^|[^a-z])(train|training)([^a-z]|$)")),
)
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "spiece.model", "vocab.json")
_HUB_FORMATS = ("json", "csv", "parquet", "text", "arrow", "imagefolder", "audiofolder")


@dataclass(frozen=True)
class Places:
    """Folders of a draft.

    Attributes:
        base: where the script's relative paths are seen from.
        trial: folder of the trial file; its paths are written as seen from here.
    """

    base: str
    trial: str

    def absolute(self, text: str) -> str:
        """A path of the script as an absolute one."""
        return os.path.normpath(os.path.join(self.base, os.path.expanduser(text)))

    def written(self, path: str) -> str:
        """An absolute path as the trial file says it."""
        return os.path.relpath(path, self.trial)


def role_of(path: str) -> str | None:
    """The role that a file's name tells: train, validation, heldout; None when it does not."""
    stem = os.path.basename(path).lower()
    stem = stem[: stem.rfind(".")] if "." in stem else stem
    return next((role for role, pattern in _ROLES if pattern.search(stem)), None)


def found_inputs(
    facts: ScriptFacts, extra: Iterable[Said], loads: Iterable[HubUse], places: Places
) -> list[DraftInput]:
    """Inputs that exist as files or folders, or are named as Hub ids; each once.

    Args:
        facts: of the script.
        extra: more texts that may be paths, for example of configuration files.
        loads: more Hub names, for example of configuration files.
        places: where relative paths are seen from.
    """
    found: dict[str, DraftInput] = {}
    for said in (*facts.texts, *extra):
        if isinstance(said.value, str) and len(found) < MAX_INPUTS:
            for entry in _files(said, places):
                found.setdefault(entry.path or "", entry)
    for use in (*facts.loads, *loads):
        loaded = _load(use, places)
        if loaded is not None and len(found) < MAX_INPUTS:
            # A folder is one input, whatever is loaded from it; a Hub name can be two.
            found.setdefault(loaded.path or f"{loaded.hub} {loaded.role}", loaded)
    return _with_ids(found.values())


def _files(said: Said, places: Places) -> list[DraftInput]:
    path = places.absolute(said.value)
    if "\0" in path or not said.value.strip():
        return []
    if os.path.isfile(path):
        if not path.lower().endswith(DATA_SUFFIXES):
            return []
        role = role_of(path)
        if role is None and path.lower().endswith((".json", ".txt")):
            return []  # as likely a configuration or a prompt
        return _entry(path, role or "other", said.where, places)
    if os.path.isdir(path) and path not in (places.base, places.trial):
        model = _model_folder(path)
        if model is not None:
            return _entry(path, model, said.where, places)
        return [
            entry
            for name in _names(path)
            if name.lower().endswith(DATA_SUFFIXES) and role_of(name) is not None
            for entry in _entry(
                os.path.join(path, name),
                role_of(name) or "",
                f"in the folder of {said.where}",
                places,
            )
        ]
    return []


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:1000]
    except OSError:
        return []


def _model_folder(path: str) -> str | None:
    names = _names(path)
    weights = any(name.endswith((".safetensors", ".bin")) for name in names)
    if "config.json" in names and weights:
        return "model"
    return "tokenizer" if any(name in _TOKENIZER_FILES for name in names) else None


def _entry(path: str, role: str, where: str, places: Places) -> list[DraftInput]:
    written = places.written(path)
    try:
        toml_string(written)
    except ValueError:
        return []  # bytes that no TOML file can hold
    return [DraftInput(id=role, role=role, source=where, path=written)]


def _load(use: HubUse, places: Places) -> DraftInput | None:
    role = {"dataset": "train", "tokenizer": "tokenizer"}.get(use.kind, "model")
    path = places.absolute(use.name)
    where = use.where
    if os.path.isdir(path):
        entries = _entry(path, _model_folder(path) or role, where, places)
        return entries[0] if entries else None
    if use.kind == "dataset" and (use.name in _HUB_FORMATS or use.name.endswith(DATA_SUFFIXES)):
        return None
    if _HUB_ID.fullmatch(use.name) is None or os.path.exists(path):
        return None
    split = use.split if isinstance(use.split, str) else None
    if use.kind == "dataset" and split is not None:
        role = role_of(split.partition("[")[0]) or role
    revision = use.revision if isinstance(use.revision, str) and use.revision.strip() else None
    return DraftInput(role, role, where, hub=use.name, revision=revision, split=split or None)


def _with_ids(entries: Iterable[DraftInput]) -> list[DraftInput]:
    """Ids are the roles, numbered where one comes again."""
    used: dict[str, int] = {}
    made = []
    for entry in entries:
        used[entry.role] = used.get(entry.role, 0) + 1
        count = used[entry.role]
        name = entry.role if count == 1 else f"{entry.role}-{count}"
        made.append(
            DraftInput(
                name, entry.role, entry.source, entry.path, entry.hub, entry.revision, entry.split
            )
        )
    return made


def is_case_file(path: str) -> bool:
    """Whether the first line of a file is a held-out case: an id, and messages or a prompt."""
    try:
        with open_regular(path) as handle:
            line = handle.readline(_LINE_BYTES)
        row = json.loads(line.decode("utf-8-sig"))
    except (OSError, NotRegularError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "id" in row and ("messages" in row or "prompt" in row)
