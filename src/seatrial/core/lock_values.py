"""A lock: what a trial's inputs, runner, held-out cases and terms were when it was frozen."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Mapping, Optional, Tuple

from seatrial.core.strict_json import encodable

SCHEMA = "seatrial.lock/1"
MAX_EARLIER = 50


@dataclass(frozen=True)
class Earlier:
    """A lock that was there before, with the terms that it held."""

    sha256: str
    created: str
    terms: Mapping[str, Any]


@dataclass(frozen=True)
class Lock:
    """The content of a ``trial.lock``.

    Attributes:
        inputs: one entry for each input: ``id``, ``role``, ``kind`` (file, folder or hub), hashes.
        heldout: cases, prompt, validator and what belongs to them; None without ``[heldout]``.
        runner: command, folder, script, local modules, configuration files.
        terms: bounds, gates, checks, legs and the like, see ``lock_terms``.
        context: commit, interpreter, packages, machine; None when it was not looked at.
        created: when it was frozen, ISO 8601 in UTC.
        earlier: its ancestors, newest first, at most ``MAX_EARLIER``.
    """

    inputs: Tuple[Mapping[str, Any], ...]
    heldout: Optional[Mapping[str, Any]]
    runner: Mapping[str, Any]
    terms: Mapping[str, Any]
    context: Optional[Mapping[str, Any]] = None
    created: str = ""
    earlier: Tuple[Earlier, ...] = ()

    @cached_property
    def sha256(self) -> str:
        """Hash of what is frozen: canonical JSON without context, created and earlier."""
        return hash_of(self.content())

    @property
    def revisions(self) -> dict[str, str]:
        """Commit of each Hub input by its id."""
        return {str(one["id"]): str(one["revision"]) for one in self.inputs if one.get("revision")}

    def content(self) -> dict[str, Any]:
        """What is frozen, as plain JSON values."""
        return {
            "schema": SCHEMA,
            "inputs": [dict(entry) for entry in self.inputs],
            "heldout": None if self.heldout is None else dict(self.heldout),
            "runner": dict(self.runner),
            "terms": dict(self.terms),
        }

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON values with sorted keys."""
        value = self.content()
        value["sha256"] = self.sha256
        value["context"] = None if self.context is None else dict(self.context)
        value["created"] = self.created
        value["earlier"] = [dict(vars(entry)) for entry in self.earlier]
        ordered: dict[str, Any] = _sorted(value)
        return ordered

    @classmethod
    def from_json(cls, value: Any) -> Lock:
        """Read a lock back.

        Raises:
            ValueError: another schema, a part that is missing or of another kind, or a content
                that is not the one whose hash the lock names.
        """
        if not isinstance(value, dict):
            raise ValueError("it holds no JSON object")
        if value.get("schema") != SCHEMA:
            raise ValueError(f"its schema is {value.get('schema')!r}, not {SCHEMA}")
        _check_shape(value)
        lock = cls(
            inputs=tuple(value["inputs"]),
            heldout=value["heldout"],
            runner=value["runner"],
            terms=value["terms"],
            context=value.get("context"),
            created=str(value.get("created") or ""),
            earlier=tuple(
                Earlier(str(entry["sha256"]), str(entry["created"]), entry["terms"])
                for entry in value["earlier"][:MAX_EARLIER]
            ),
        )
        if lock.sha256 != value.get("sha256"):
            raise ValueError(
                f"it names {str(value.get('sha256'))[:12]} as the hash of its content, which is "
                f"{lock.sha256[:12]}: somebody changed it after it was written"
            )
        return lock


def hash_of(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value: sorted keys, no spaces, ASCII."""
    text = json.dumps(
        encodable(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def case_sha256(case: Mapping[str, Any]) -> str:
    """Hash of a held-out case: its id and everything else in its row."""
    return hash_of(case)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def _check_shape(value: Mapping[str, Any]) -> None:
    """That every part which ``drift`` walks through is of the kind that it expects."""
    inputs = value.get("inputs")
    if not _are_tables(inputs) or any(
        not isinstance(entry.get(key), str) for entry in inputs or () for key in ("id", "role")
    ):
        raise ValueError("its inputs are no list of entries with id and role")
    for key, required in (("runner", True), ("terms", True), ("heldout", False)):
        part = value.get(key)
        if not isinstance(part, dict) and (required or part is not None):
            raise ValueError(f"its {key} is no table")
    if not isinstance(value.get("context"), (dict, type(None))):
        raise ValueError("its context is no table")
    listed = [value["runner"].get("files"), *(entry.get("files", []) for entry in inputs or ())]
    if value["heldout"] is not None:
        listed += [value["heldout"].get("files"), value["heldout"].get("cases")]
    if not all(_are_tables(files) for files in listed):
        raise ValueError("one of its lists of files or cases is none")
    earlier = value.get("earlier")
    if not _are_tables(earlier) or any(
        not isinstance(entry.get("terms"), dict) or not {"sha256", "created"} <= set(entry)
        for entry in earlier or ()
    ):
        raise ValueError("its earlier locks are no list of hash, moment and terms")


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
