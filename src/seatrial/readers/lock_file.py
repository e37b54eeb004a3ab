"""``trial.lock``, read with limits."""

from __future__ import annotations

import os

from seatrial.core.errors import BrokenRecordError, UsageError
from seatrial.core.lock import Lock
from seatrial.core.trial import Trial
from seatrial.readers.json_file import read_json_limited

MAX_BYTES = 64 * 2**20


def lock_path(trial_file: str) -> str:
    """Where the lock of a trial file is: ``trial.toml`` has ``trial.lock``."""
    stem, suffix = os.path.splitext(trial_file)
    return f"{stem if suffix == '.toml' else trial_file}.lock"


def read_lock(trial: Trial) -> Lock | None:
    """The lock beside a trial's file; None when there is none, or the trial has no file.

    Raises:
        UsageError: the file is damaged, was changed by hand, or is no lock.
    """
    if trial.file is None:
        return None
    return read_lock_at(lock_path(trial.file), f"seatrial freeze {trial.file}")


def read_lock_at(path: str, again: str) -> Lock | None:
    """A lock file wherever it lies; None when there is none.

    Args:
        path: of the file.
        again: the command that makes another one.

    Raises:
        UsageError: see ``read_lock``.
    """
    try:
        value = read_json_limited(path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except BrokenRecordError as error:
        raise UsageError(
            f"the lock cannot be used: {error.message}",
            remedy=f"mv {path} {path}.old, then {again}",
        ) from error
    try:
        return Lock.from_json(value)
    except ValueError as error:
        raise UsageError(
            f"the lock {path} cannot be used: {error}",
            remedy=f"restore it from your history, or mv {path} {path}.old, then {again}",
        ) from error
