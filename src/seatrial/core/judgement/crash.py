"""What crashed: the exception, its place in the user's code, and whose fault it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple

from seatrial.core.event_data import whole
from seatrial.core.judgement.case import Case

_RANK_PREFIX = re.compile(r"^\[(?:rank|default)?(\d+)\]:\s?")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LAST_LINE = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
_HEADER = "Traceback (most recent call last):"
_NOT_THE_USERS = re.compile(
    r"(site-packages|dist-packages|/lib/python3|<frozen|<string>|seatrial/)"
)
_LAUNCHER_ERRORS = ("ChildFailedError", "CalledProcessError", "SystemExit")
_MISSING = re.compile(r"No module named '?(?P<name>[\w.]+)'?")
_MAKE_NOT_FOUND = re.compile(r"^make(\[\d+\])?: \*\*\* .*Error 12[67]$", re.M)
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|Cannot allocate memory", re.I)
_NO_ACCELERATOR = re.compile(
    r"Found no NVIDIA driver|No CUDA GPUs are available|not compiled with CUDA enabled"
    r"|CUDA driver version is insufficient|no CUDA-capable device"
)
# What a rank says when another one is gone: gloo, NCCL and the store.
_PEER_GONE = re.compile(
    r"Connection (?:closed|reset) by peer|[Cc]onnection was (?:likely )?closed|remote worker"
    r"|remote process (?:has )?exited|Broken pipe|ncclRemoteError"
)
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")


@dataclass(frozen=True)
class Crash:
    """An exception that ended a process. ``file`` and ``line`` are in the user's own code."""

    type: str
    message: str = ""
    file: Optional[str] = None
    line: Optional[int] = None
    rank: Optional[int] = None
    from_probe: bool = False

    @property
    def short_type(self) -> str:
        """The class name without its module."""
        return self.type.rpartition(".")[2]

    @property
    def out_of_memory(self) -> bool:
        """Whether memory ran out, of the host or of an accelerator."""
        return self.short_type in ("MemoryError", "OutOfMemoryError") or bool(
            self.short_type in ("RuntimeError", "OSError", "AcceleratorError")
            and _OUT_OF_MEMORY.search(self.message)
        )

    @property
    def missing_module(self) -> Optional[str]:
        """The module that could not be found, if that is what happened."""
        if self.short_type not in ("ModuleNotFoundError", "ImportError"):
            return None
        match = _MISSING.search(self.message)
        return match.group("name") if match else None

    @property
    def no_accelerator(self) -> bool:
        """Whether the script wanted an accelerator that is not there."""
        return bool(_NO_ACCELERATOR.search(self.message))

    @property
    def peer_gone(self) -> bool:
        """Whether this only echoes that another rank went away."""
        return bool(_PEER_GONE.search(self.message))

    @property
    def in_source(self) -> bool:
        """Whether the script cannot even be parsed."""
        return self.short_type in _SYNTAX_ERRORS

    def __str__(self) -> str:
        return f"{self.short_type}: {self.message}" if self.message else self.short_type


def crash_of(case: Case) -> Optional[Crash]:
    """The exception that ended the run: as the probe recorded it, else out of stderr.

    The lowest rank that crashed by itself is named, before those that only lost it; what it lacks
    (file, line) is filled in from a traceback of the same type.
    """
    printed = parse_traceback(case.stderr_tail)
    recorded = _all_recorded(case)
    own = [crash for crash in recorded if not crash.peer_gone]
    if own or (recorded and (printed is None or printed.peer_gone)):
        return _merged((own or recorded)[0], printed)
    return printed


def _all_recorded(case: Case) -> List[Crash]:
    found = []
    for rank in case.observation.ranks:
        given = rank.exception
        if given is None:
            parts = [p for p in case.observation.segments if p.rank == rank.rank and p.exception]
            # An exception that ended train() ended the process only if nothing caught it.
            given = parts[-1].exception if parts and not rank.ended else None
        if given is not None and _kind(given) != "SystemExit":  # an exit code, no crash
            found.append(_recorded(given, rank.rank))
    return found


def _merged(recorded: Crash, printed: Optional[Crash]) -> Crash:
    if printed is None or printed.short_type != recorded.short_type or recorded.file:
        return recorded
    return Crash(
        recorded.type,
        recorded.message or printed.message,
        printed.file,
        printed.line,
        recorded.rank,
        from_probe=True,
    )


def _kind(given: Mapping[str, Any]) -> str:
    return str(given.get("type") or "Exception")


def _recorded(given: Mapping[str, Any], rank: int) -> Crash:
    file = given.get("file")
    return Crash(
        type=_kind(given),
        message=first_line(str(given.get("message") or "")),
        file=file if isinstance(file, str) and file else None,
        line=whole(given, "line"),
        rank=rank,
        from_probe=True,
    )


def first_line(message: str, limit: int = 300) -> str:
    """The first non-empty line of a message, cut to ``limit`` characters."""
    line = next((part.strip() for part in message.splitlines() if part.strip()), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."


def parse_traceback(stderr: str) -> Optional[Crash]:
    """The last Python exception printed on stderr that is not a launcher's own or an echo.

    Understands the ``[rank0]:`` prefixes of torchrun, chained tracebacks and syntax errors, which
    have no header.
    """
    found = _crashes(stderr.splitlines())
    own = [crash for crash in found if crash.short_type not in _LAUNCHER_ERRORS]
    causes = [crash for crash in own if not crash.peer_gone]
    return (causes or own)[-1] if own else None


def _crashes(lines: List[str]) -> List[Crash]:
    crashes: List[Crash] = []
    frames: List[Tuple[str, int]] = []
    inside = False
    for raw in lines:
        prefix = _RANK_PREFIX.match(raw)
        line = raw[prefix.end() :] if prefix else raw
        frame = _FRAME.match(line)
        if line.strip() == _HEADER:
            frames, inside = [], True
        elif frame:
            frames.append((frame.group("file"), int(frame.group("line"))))
            inside = True
        elif inside and line[:1].strip() and _LAST_LINE.match(line):
            crashes.append(_printed(line, frames, int(prefix.group(1)) if prefix else None))
            frames, inside = [], False
    return crashes


def _printed(line: str, frames: List[Tuple[str, int]], rank: Optional[int]) -> Crash:
    match = _LAST_LINE.match(line)
    kind, message = (match.group("type"), match.group("message") or "") if match else (line, "")
    place = users_frame(frames)
    file, number = place if place else (None, None)
    return Crash(kind, first_line(message), file, number, rank)


def users_frame(frames: List[Tuple[str, int]]) -> Optional[Tuple[str, int]]:
    """The innermost frame in the user's own code; without one the innermost of all."""
    own = [frame for frame in frames if not _NOT_THE_USERS.search(frame[0])]
    return (own or frames)[-1] if frames else None


def command_missing(case: Case) -> bool:
    """Whether a shell or make could not find or start a program (exit 126 or 127)."""
    code = case.ended.exit_code if case.ended is not None else None
    return code in (126, 127) or bool(_MAKE_NOT_FOUND.search(case.stderr_tail))
