"""The index of a sharded checkpoint against the shards that are there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from seatrial.checkpoints.open_file import UnreadableError, read_json_object
from seatrial.core.finding import Evidence, Finding, Place

_FAMILY = "checkpoint"
_MAX_NAMES = 5


@dataclass(frozen=True)
class WeightIndex:
    """``weight_map`` of an index: tensor name to file name."""

    path: str
    weight_map: Mapping[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """File names, sorted."""
        return tuple(sorted(set(self.weight_map.values())))


def read_index(path: str) -> WeightIndex:
    """Read an index.

    Raises:
        UnreadableError: it is no index, or names a file outside its own folder.
    """
    value = read_json_object(path).get("weight_map")
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise UnreadableError("it has no weight_map of names")
    for name in value.values():
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise UnreadableError(f"it names {name!r}, which is no file of its own folder")
    return WeightIndex(path, value)


def index_findings(
    index: WeightIndex, present: tuple[str, ...], headers: Mapping[str, frozenset[str]]
) -> list[Finding]:
    """What index and shards say against each other.

    Args:
        index: as read.
        present: paths of the shards in its folder.
        headers: tensor names of the shards whose header could be read, by file name.
    """
    folder = os.path.dirname(index.path)
    there = {os.path.basename(path) for path in present}
    found = []
    missing = [
        name
        for name in index.files
        if name not in there and not os.path.isfile(os.path.join(folder, name))
    ]
    if missing:
        found.append(
            _finding(
                "missing_shard",
                "error",
                index.path,
                f"the index names {_list(missing)}, and "
                f"{'it is' if len(missing) == 1 else 'they are'} not there: the checkpoint cannot "
                "be loaded",
                "save it again, or copy the missing file beside the index",
                missing,
            )
        )
    extra = sorted(there - set(index.files))
    if extra:
        found.append(
            _finding(
                "unnamed_shard",
                "warning",
                index.path,
                f"{_list(extra)} {'is' if len(extra) == 1 else 'are'} not in the index: left over "
                "from another save",
                "save into an empty folder",
                extra,
            )
        )
    return found + _absent(index, headers)


def _list(names: list[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"


def _absent(index: WeightIndex, headers: Mapping[str, frozenset[str]]) -> list[Finding]:
    absent = [
        name
        for name, file in index.weight_map.items()
        if file in headers and name not in headers[file]
    ]
    if absent:
        return [
            _finding(
                "missing_tensor",
                "error",
                index.path,
                f"the index says that {absent[0]} is in {index.weight_map[absent[0]]}, which has "
                "no such tensor" + (f" ({len(absent)} such in all)" if len(absent) > 1 else ""),
                "save it again; index and shards are of different saves",
                absent,
                absent[0],
            )
        ]
    return []


def _finding(
    code: str,
    severity: str,
    file: str,
    message: str,
    remedy: str,
    names: list[str],
    parameter: str | None = None,
) -> Finding:
    return Finding(
        f"checkpoint.{code}",
        _FAMILY,
        severity,
        f"{os.path.dirname(file)}: {message}",
        Place(file=file, parameter=parameter),
        Evidence(observed=names[:_MAX_NAMES]),
        remedy,
        "proven",
    )
