"""Event files and resource samples: line by line, with limits; a bad line never hides the rest."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from seatrial.core import strict_json
from seatrial.core.event import Event, from_line
from seatrial.core.record_layout import RecordLayout
from seatrial.core.trip import Sample
from seatrial.readers.json_file import open_regular

MAX_LINE_BYTES = 2**20
MAX_FILE_BYTES = 2**30
MAX_PROBLEMS = 100
_RANK_FILE = re.compile(r"events\.rank(\d{1,6})\.jsonl")
_T = TypeVar("_T")


@dataclass(frozen=True)
class ReadProblem:
    """A line, or a file, that could not be read as what it should be. Lines count from 1."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


def _read_lines(
    path: str, parse: Callable[[str], _T]
) -> tuple[tuple[_T, ...], tuple[ReadProblem, ...]]:
    values: list[_T] = []
    problems: list[ReadProblem] = []
    bad = 0
    try:
        for number, raw in _lines(path):
            try:
                values.append(parse(_decode(raw)))
            except (ValueError, RecursionError) as error:  # noqa: PERF203 - a bad line is skipped
                if not raw.endswith(b"\n") and len(raw) <= MAX_LINE_BYTES:
                    continue  # the line that was being written when the writer died
                bad += 1
                if bad <= MAX_PROBLEMS:
                    problems.append(ReadProblem(path, number, str(error)[:200]))
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        problems.append(ReadProblem(path, None, str(error)))
    if bad > MAX_PROBLEMS:
        problems.append(ReadProblem(path, None, f"{bad - MAX_PROBLEMS} more lines are unreadable"))
    return tuple(values), tuple(problems)


def _decode(raw: bytes) -> str:
    if len(raw) > MAX_LINE_BYTES:
        raise ValueError(f"the line is longer than {MAX_LINE_BYTES} bytes")
    if not raw.endswith(b"\n"):
        raise ValueError("the last line has no end")
    return raw.decode("utf-8")


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    with open_regular(path) as file:
        number = 0
        while raw := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            yield number, raw
            while len(raw) > MAX_LINE_BYTES and not raw.endswith(b"\n"):
                raw = file.readline(MAX_LINE_BYTES + 1)  # the rest of a line that is too long
            if file.tell() > MAX_FILE_BYTES:
                raise ValueError(f"what follows {MAX_FILE_BYTES} bytes was not read")


def read_events(path: str) -> tuple[tuple[Event, ...], tuple[ReadProblem, ...]]:
    """Events of one file in order. A missing file has none; a cut last line is left out.

    Returns:
        The events, and what could not be read.
    """
    return _read_lines(path, from_line)


def _parse_sample(line: str) -> Sample:
    value = strict_json.loads(line)
    if not isinstance(value, dict) or "mono" not in value:
        raise ValueError("not a sample object")
    known = {key: item for key, item in value.items() if key in Sample.__dataclass_fields__}
    if any(isinstance(item, bool) or not isinstance(item, (int, float)) for item in known.values()):
        raise ValueError("a sample holds something that is no number")
    return Sample(**known)


def read_samples(path: str) -> tuple[tuple[Sample, ...], tuple[ReadProblem, ...]]:
    """Samples of the process tree in order, read like ``read_events``."""
    return _read_lines(path, _parse_sample)


def rank_files(layout: RecordLayout) -> tuple[tuple[int, str], ...]:
    """``(rank, path)`` of every event file of a rank, by rank."""
    try:
        names = os.listdir(layout.run)
    except OSError:
        return ()
    matches = filter(None, map(_RANK_FILE.fullmatch, names))
    return tuple(sorted((int(match[1]), os.path.join(layout.run, match[0])) for match in matches))


def read_all_events(layout: RecordLayout) -> tuple[tuple[Event, ...], tuple[ReadProblem, ...]]:
    """Every event of a record in the order of the machine's clock.

    Ranks, supervisor and guard run on one machine and share its monotonic clock; events of one file
    never change their order.
    """
    paths = [path for _, path in rank_files(layout)]
    events: list[Event] = []
    problems: list[ReadProblem] = []
    for path in (*paths, layout.supervisor_events, layout.guard_events, layout.leg_events):
        found, wrong = read_events(path)
        events.extend(found)
        problems.extend(wrong)
    return tuple(_in_time(events)), tuple(problems)


def _in_time(events: list[Event]) -> list[Event]:
    """Merge by time without reordering what one writer wrote."""
    latest: dict[tuple[int | None, int], float] = {}
    keyed = []
    for index, event in enumerate(events):
        writer = (event.rank, event.pid)
        mono = max(event.mono, latest.get(writer, event.mono))
        latest[writer] = mono
        keyed.append((mono, index, event))
    keyed.sort(key=lambda entry: entry[:2])
    return [event for _, _, event in keyed]
