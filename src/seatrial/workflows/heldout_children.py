"""The two children of a held-out evaluation: a loaded model, and the user's validator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from seatrial.core.heldout import Answer
from seatrial.core.trial import HeldoutSpec
from seatrial.process.lines import LineChild, LineChildError
from seatrial.readers.digests import Digest, DigestJob, digest_files
from seatrial.store.scratch import scratch_folder

CASE_S = 10.0
VALIDATOR_BYTES = 1 << 30
_LOAD_S = 300.0
_BEGIN_S = 60.0


class EvaluationEndedError(Exception):
    """The evaluation cannot go on; the reason is for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def child_program(name: str) -> str:
    """Path of a program of ``child/``, for the interpreter that trained."""
    return os.path.join(_package(), "child", f"{name}.py")


def own_program(name: str) -> str:
    """Path of a program of ``heldout/``, for our interpreter."""
    return os.path.join(_package(), "heldout", f"{name}.py")


def _package() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class RunningModel:
    """A loaded model: a child that answered its first question, for a ``with`` statement."""

    def __init__(
        self,
        start: Callable[[], LineChild],
        request: Mapping[str, Any],
        left: Callable[[float], float],
    ) -> None:
        self._start = start
        self._request = request
        self._left = left
        self._child: LineChild | None = None

    def __enter__(self) -> tuple[LineChild, dict[str, Any]]:
        path = self._request["path"]
        limit = self._left(_LOAD_S)
        try:
            child = self._child = self._start()
            ready = child.ask(self._request, limit)
        except LineChildError as error:
            self.__exit__()
            if error.kind == "stopped":
                raise EvaluationEndedError(error.message) from error
            raise EvaluationEndedError(f"{path} could not be loaded: {error.message}") from error
        except BaseException:
            self.__exit__()
            raise
        if not ready.get("ready"):
            self.__exit__()
            raise EvaluationEndedError(f"{path} could not be loaded: {ready.get('error')}")
        return child, ready

    def __exit__(self, *_rest: object) -> None:
        if self._child is not None:
            self._child.close()


class Validator:
    """The user's functions in a capped child; a fresh one after each case that broke it."""

    def __init__(
        self,
        spec: HeldoutSpec,
        start: Callable[[str, int, str], LineChild],
        left: Callable[[float], float],
    ) -> None:
        self._spec = spec
        self._start = start
        self._left = left
        self._child: LineChild | None = None
        self._scratch: Iterator[str] | None = None
        self._folder = ""

    def __enter__(self) -> Validator:
        return self

    def __exit__(self, *_rest: object) -> None:
        self.close()

    @property
    def is_needed(self) -> bool:
        """Whether the trial has functions of its own."""
        return self._spec.validator is not None or self._spec.normalize is not None

    def check(self) -> None:
        """Load the functions, so that a broken file is found before a case is used.

        Raises:
            EvaluationEndedError: they cannot be loaded.
        """
        if not self.is_needed:
            return
        try:
            self._ready()
        except LineChildError as error:
            named = self._spec.validator or self._spec.normalize
            raise EvaluationEndedError(
                error.message
                if error.kind == "stopped"
                else f"{named} cannot be loaded by the interpreter that trained: {error.message}"
            ) from error

    def judge(self, role: str, case: Mapping[str, Any], told: Mapping[str, Any]) -> Answer:
        """One answer with what it is worth; whatever breaks makes a failed case.

        Raises:
            EvaluationEndedError: a stop was asked for, or the leg's time is up.
        """
        raw = told.get("raw")
        values: dict[str, Any] = {
            "case_id": str(case["id"]),
            "role": role,
            "raw": raw,
            "stopped": str(told.get("stopped") or ""),
            "seconds": round(float(told.get("seconds") or 0.0), 6),
            "prompt_tokens": told.get("prompt_tokens"),
            "new_tokens": told.get("new_tokens"),
        }
        if not isinstance(raw, str):
            return Answer(**values, error=f"no answer: {told.get('error')}")
        if not self.is_needed:
            return Answer(**values, text=raw)
        try:
            found = self._ready().ask({"case": case, "raw": raw}, self._left(CASE_S))
        except LineChildError as error:
            self._drop()
            if error.kind == "stopped":
                raise EvaluationEndedError(error.message) from error
            self._left(CASE_S)  # an end of the leg's time is no fault of this case
            return Answer(**values, error=f"the validator broke: {error.message}")
        if "error" in found:
            if found.get("fresh"):
                self._drop()
            return Answer(**values, error=f"the validator failed: {found['error']}")
        return Answer(**values, text=found.get("text"), result=found.get("result"))

    def _ready(self) -> LineChild:
        if self._child is not None:
            return self._child
        if self._scratch is None:
            self._scratch = scratch_folder()
            self._folder = next(self._scratch)
        spec = self._spec
        limit = self._left(_BEGIN_S)
        child = self._start("validate", VALIDATOR_BYTES, self._folder)
        begin = {
            "validator": None if spec.validator is None else _place(spec.validator),
            "normalize": None if spec.normalize is None else _place(spec.normalize),
            "memory_bytes": VALIDATOR_BYTES,
        }
        ready = child.ask(begin, limit)
        if not ready.get("ready"):
            child.close()
            raise LineChildError("exited", str(ready.get("error")))
        self._child = child
        return child

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

    def close(self) -> None:
        """End the child and remove its folder."""
        self._drop()
        if self._scratch is not None:
            next(self._scratch, None)
            self._scratch = None


def _place(told: str) -> list[str]:
    path, _, name = told.rpartition(":")
    return [path, name]


def file_hashes(path: str, names: Sequence[str]) -> dict[str, str]:
    """SHA-256 of files of a checkpoint, by their names as seen from its folder."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    jobs = [DigestJob(os.path.join(folder, name), name) for name in names]
    found = digest_files(jobs, lambda _text: None)
    return {
        job.label: one.sha256
        for job, one in zip(jobs, found, strict=True)
        if isinstance(one, Digest)
    }
