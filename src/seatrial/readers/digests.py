"""SHA-256 of files: streamed, several at a time, with progress, and never of a moving file."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass

from seatrial.core.errors import UsageError
from seatrial.core.units import format_size
from seatrial.readers.json_file import NotRegularError, open_regular
from seatrial.readers.machine import available_cores
from seatrial.readers.row_scan import RowError, RowScan

_CHUNK = 2**20
_TAIL = 2**20
_MAX_WORKERS = 8
_QUIET_S = 1.0
_EVERY_S = 2.0


@dataclass(frozen=True)
class DigestJob:
    """One file to be read.

    Attributes:
        path: absolute path.
        label: how messages name it: ``input 'train' (data/train.jsonl)``.
        rows: whether its rows are JSON lines that are counted and checked.
    """

    path: str
    label: str
    rows: bool = False


@dataclass(frozen=True)
class Digest:
    """What a file held when it was read.

    Attributes:
        sha256: hash of its bytes.
        size: number of bytes.
        rows: JSON rows; None where they were not asked for.
        unparsed: rows that were counted and not parsed, see ``row_scan``.
        long_lines: numbers of lines that are too long to be parsed.
    """

    sha256: str
    size: int
    rows: int | None = None
    unparsed: int = 0
    long_lines: tuple[int, ...] = ()


def digest_files(
    jobs: Sequence[DigestJob],
    say: Callable[[str], None],
    *,
    keep_going: bool = False,
    workers: int | None = None,
) -> list[Digest | UsageError]:
    """Read all files, in threads: hashing lets other threads run meanwhile.

    Args:
        jobs: what to read.
        say: told how far it is, from the second second on.
        keep_going: put faults in the place of digests instead of raising the first one.
        workers: threads; one for each core, at most eight, when None.

    Raises:
        UsageError: a file is missing, not regular, changed while it was read, or its rows are no
            JSON.
        KeyboardInterrupt: the reading has then stopped.
    """
    sizes = [_size(job.path) for job in jobs]
    work = _Work(jobs, _Progress(len(jobs), sum(sizes), say), keep_going=keep_going)
    # The largest first, so that no core waits for one at the end.
    work.waiting = sorted(range(len(jobs)), key=lambda index: sizes[index])
    count = min(len(jobs), workers or min(available_cores(), _MAX_WORKERS)) or 1
    pool = ThreadPoolExecutor(count, thread_name_prefix="digest")
    try:
        running = {pool.submit(work.run) for _ in range(count)}
        while running:
            done, running = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            work.progress.tell()
    finally:
        work.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
    return [work.found[index] for index in range(len(jobs))]


class _Work:
    """The jobs that threads take one after the other, the last in ``waiting`` first."""

    def __init__(self, jobs: Sequence[DigestJob], progress: _Progress, *, keep_going: bool) -> None:
        self.progress = progress
        self.stop = threading.Event()
        self.waiting: list[int] = []
        self.found: dict[int, Digest | UsageError] = {}
        self._jobs = jobs
        self._keep_going = keep_going

    def run(self) -> None:
        """Until there is nothing left, or a job failed.

        Raises:
            UsageError: it did.
        """
        while not self.stop.is_set():
            try:
                index = self.waiting.pop()  # one step for the interpreter: no two threads get one
            except IndexError:
                return
            try:
                self.found[index] = _digest(self._jobs[index], self.stop, self.progress)
            except UsageError as error:
                if not self._keep_going:
                    raise
                self.found[index] = error
            self.progress.files += 1


def digest_file(job: DigestJob) -> Digest:
    """Read one file; raises what ``digest_files`` raises."""
    return _digest(job, threading.Event(), _Progress(1, 0, lambda _text: None))


class _Progress:
    """Counts bytes over threads; a lost update would only make a line a little wrong."""

    def __init__(self, count: int, size: int, say: Callable[[str], None]) -> None:
        self.read = 0
        self.files = 0
        self._count = count
        self._size = size
        self._say = say
        self._next = time.monotonic() + _QUIET_S

    def tell(self) -> None:
        """A line, when the last one is long enough ago."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_S
            self._say(
                f"hashing: {format_size(self.read)} of {format_size(self._size)}, "
                f"{self.files} of {self._count} files done"
            )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _digest(job: DigestJob, stop: threading.Event, progress: _Progress) -> Digest:
    try:
        with open_regular(job.path) as file:
            return _read(job, file.fileno(), stop, progress)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{job.label}: there is no such file", remedy=f"ls {os.path.dirname(job.path)}"
        ) from None
    except NotRegularError as error:
        raise UsageError(f"{job.label}: {error}", remedy=f"ls -l {job.path}") from None
    except RowError as error:
        raise UsageError(
            f"{job.label}, line {error.line}: {error.reason}",
            remedy=f"sed -n {error.line}p {job.path}",
        ) from None
    except OSError as error:
        raise UsageError(
            f"{job.label} cannot be read: {error.strerror or error}", remedy=f"ls -l {job.path}"
        ) from error


def _read(job: DigestJob, handle: int, stop: threading.Event, progress: _Progress) -> Digest:
    before = os.fstat(handle)
    scan = RowScan(before.st_size) if job.rows else None
    hasher = hashlib.sha256()
    buffer = bytearray(min(_CHUNK, before.st_size + 1))
    view = memoryview(buffer)
    size = 0
    while True:
        if stop.is_set():
            raise UsageError(f"{job.label}: hashing was stopped")
        count = os.readv(handle, [view])
        if count == 0 or size + count > before.st_size:
            size += count  # more than there was: it grows, and is not followed
            break
        hasher.update(view[:count])
        if scan is not None:
            scan.feed(buffer, count)
        size += count
        progress.read += count
    if size == before.st_size and scan is not None:
        scan.finish()
        scan.check_tail(os.pread(handle, _TAIL, max(0, size - _TAIL)))
    _refuse_moving(job, size, before, os.fstat(handle))
    if scan is None:
        return Digest(hasher.hexdigest(), size)
    return Digest(hasher.hexdigest(), size, scan.rows, scan.unparsed, tuple(scan.long_lines))


def _refuse_moving(
    job: DigestJob, size: int, before: os.stat_result, after: os.stat_result
) -> None:
    """Compare what the file was with what it is, also by its name.

    Raises:
        UsageError: it was written, cut, or replaced meanwhile.
    """
    try:
        named = os.stat(job.path)
    except OSError:
        named = None
    if named is None or (named.st_dev, named.st_ino) != (before.st_dev, before.st_ino):
        what = "was replaced by another file"
    elif size != before.st_size or _identity(after) != _identity(before):
        what = f"changed from {before.st_size} to {after.st_size} bytes"
        if before.st_size == after.st_size:
            what = "was written to"
    else:
        return
    raise UsageError(
        f"{job.label} {what} while it was hashed",
        remedy="end what writes to it, then run it again",
    )
