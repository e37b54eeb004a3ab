"""Whether the probe attached, and if not, why: hand-shakes in the record and ``/proc``."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.processes import Key, Process, command_of, environment_of, executable_of
from seatrial.supervisor.record_files import read_json

_PYTHON = re.compile(r"(?:python|pypy)(\d+(?:\.\d+)?)?(?:t|d)?\Z")
_WITH_VALUE = "WXcm"
_MAX_FILES = 1000
_MAX_SEEN = 200
NO_TORCH = "torch was never imported by this command, so there was no training to watch"


def _version_of(path: str) -> Optional[Tuple[int, ...]]:
    match = _PYTHON.match(os.path.basename(path))
    if match is None or not match.group(1):
        return None
    return tuple(int(part) for part in match.group(1).split("."))


def is_python(path: str) -> bool:
    """Whether a program name is that of a Python interpreter."""
    return _PYTHON.match(os.path.basename(path)) is not None


def interpreter_flags(argv: Sequence[str]) -> str:
    """The single letters before the script, ``"Iu"`` of ``python -I -u x.py``."""
    letters = ""
    for word in argv[1:]:
        if not word.startswith("-") or word == "-" or word.startswith("--"):
            break
        for letter in word[1:]:
            letters += letter
            if letter in _WITH_VALUE:
                break
        if letters[-1:] in ("c", "m"):
            break
    return letters


def why_unseen(argv: Sequence[str], executable: str, path: Optional[str], bootstrap: str) -> str:
    """Why an interpreter without a hand-shake could not load the bootstrap; empty when unknown.

    Args:
        argv: its command line.
        executable: the file it runs, links resolved; empty when unknown.
        path: ``PYTHONPATH`` in its environment; None when the environment is unknown.
        bootstrap: folder that should be on it.
    """
    flags = interpreter_flags(argv)
    version = _version_of(executable) or _version_of(argv[0])
    if version is not None and (version < (3,) or (len(version) > 1 and version < (3, 9))):
        text = ".".join(str(part) for part in version)
        return f"the interpreter is Python {text}; the probe needs 3.9 or newer"
    for letter in "IE":
        if letter in flags:
            return (
                f"Python was started with -{letter}, which ignores PYTHONPATH; start it without"
                f" -{letter}"
            )
    if "S" in flags:
        return "Python was started with -S, which loads no sitecustomize; start it without -S"
    if path is not None and bootstrap not in path.split(os.pathsep):
        return (
            "PYTHONPATH was replaced on the way to Python, so the probe was not found; add to it"
            " instead: PYTHONPATH=more:$PYTHONPATH"
        )
    return ""


class _Seen(NamedTuple):
    executable: str
    is_python: bool
    reason: str


class AttachWatch:
    """Collects what is seen over time, because short processes are gone when one asks.

    Args:
        layout: of the record.
        argv: the runner's real command line.
        bootstrap: folder that the runner was given on ``PYTHONPATH``.
    """

    def __init__(self, layout: RecordLayout, argv: Sequence[str], bootstrap: str) -> None:
        self._folder = layout.attach
        self._argv = tuple(argv)
        self._bootstrap = bootstrap
        self._files: Dict[str, Mapping[str, Any]] = {}
        self._seen: Dict[Key, _Seen] = {}
        self._ranks = 0

    def look(self, processes: Iterable[Process], ranks: int) -> None:
        """Read new hand-shakes and look at new processes.

        Args:
            processes: of the run, now.
            ranks: that have written events.
        """
        self._ranks = max(self._ranks, ranks)
        self._read_files()
        for process in processes:
            known = self._seen.get(process.key)
            executable = executable_of(process.pid)
            # A shell may have become Python by exec: same pid, another program.
            is_new = known is None and len(self._seen) < _MAX_SEEN
            if executable and (is_new or (known is not None and known.executable != executable)):
                self._inspect(process, executable)

    def _read_files(self) -> None:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names[:_MAX_FILES]:
            known = self._files.get(name)
            if name.endswith(".json") and (known is None or not known.get("torch")):
                value = read_json(os.path.join(self._folder, name))
                if value is not None:
                    self._files[name] = value

    def _inspect(self, process: Process, executable: str) -> None:
        argv = command_of(process.pid)
        if not argv:
            return  # gone, or just about to become something: asked again at the next look
        named = is_python(argv[0]) or is_python(executable)
        path = environment_of(process.pid).get("PYTHONPATH", "")
        reason = why_unseen(argv, executable, path, self._bootstrap) if named else ""
        self._seen[process.key] = _Seen(executable, named, reason)

    @property
    def is_blind(self) -> bool:
        """No interpreter has loaded the bootstrap so far, or it said that it could not."""
        return not self._files or any(file.get("error") for file in self._files.values())

    def torch_pids(self) -> Dict[int, str]:
        """Role by pid of every interpreter that has torch."""
        return {
            int(file["pid"]): str(file.get("role"))
            for file in self._files.values()
            if file.get("torch") and isinstance(file.get("pid"), int)
        }

    def report(self, ended: bool = False) -> Dict[str, Any]:
        """``attached``, ``ranks``, ``python``, ``torch`` and, when not attached, ``reason``.

        Args:
            ended: nothing more will come; words in the past.
        """
        files = list(self._files.values())
        with_torch = [file for file in files if file.get("torch")]
        errors = [str(file["error"]) for file in files if file.get("error")]
        attached = any(not file.get("error") for file in with_torch) or self._ranks > 0
        best: Mapping[str, Any] = (with_torch or files or [{}])[0]
        ranks = max(self._ranks, sum(1 for file in files if file.get("role") == "rank"))
        reason = "" if attached else self._reason(files, errors, ended)
        return {
            "attached": attached,
            "ranks": ranks,
            "python": best.get("python"),
            "torch": best.get("torch"),
            "reason": reason,
        }

    def _reason(self, files: List[Mapping[str, Any]], errors: List[str], ended: bool) -> str:
        if errors:
            return f"the probe could not be installed: {errors[0]}"
        unseen = [seen.reason for seen in self._seen.values() if seen.reason]
        if files:
            so_far = f"Python {files[0].get('python')} runs; torch is not imported so far"
            also = f"; another Python here could not be watched: {unseen[0]}" if unseen else ""
            return (NO_TORCH if ended else so_far) + also
        if unseen:
            return unseen[0]
        if is_python(self._argv[0]):
            known = why_unseen(self._argv, self._argv[0], None, self._bootstrap)
            if known:
                return known
        if any(seen.is_python for seen in self._seen.values()) or is_python(self._argv[0]):
            return "Python started and did not load the probe's bootstrap from PYTHONPATH"
        return "no Python process was seen under this command"
