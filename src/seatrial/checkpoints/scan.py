"""One pass over a weight file: SHA-256 of the file and of tensors, NaN and infinity, all-zero.

A large file is read by the calling thread in pieces of 8 MiB; one thread hashes the file, another
looks at its tensors. Both hash with the interpreter's lock released, so they overlap with each
other and with reading. At most six pieces are in memory, whatever the size of the file.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from queue import Queue
from typing import Protocol

from seatrial.checkpoints.finite import ALWAYS_FINITE, KINDS, NonFiniteSearch
from seatrial.checkpoints.open_file import UnreadableError, open_regular
from seatrial.checkpoints.safetensors_header import Header, TensorEntry, read_header

CHUNK_BYTES = 8 * 2**20
_THREADED_BYTES = 4 * CHUNK_BYTES
_QUEUED = 2


class ScanStopped(Exception):  # noqa: N818 - no error: the caller asked for it
    """The caller's ``stop`` said so before the file was read to its end."""


class ChangedDuringScanError(UnreadableError):
    """The file was written to, replaced or cut while it was read."""


@dataclass(frozen=True)
class TensorScan:
    """What was seen of one tensor.

    Attributes:
        nonfinite: elements that are NaN or infinite; None when its dtype is not known.
        infinite: how many of them are infinite.
        first: index of the first of them in the flattened tensor; ``word`` says which it is.
        zero: every byte is zero (and there is at least one).
        sha256: of its bytes; None when it was not asked for.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nonfinite: int | None = 0
    infinite: int = 0
    first: int | None = None
    word: str = ""
    zero: bool = False
    sha256: str | None = None

    def index(self) -> tuple[int, ...]:
        """The first non-finite element's place along each axis."""
        rest, places = self.first or 0, []
        for size in reversed(self.shape):
            places.append(rest % size if size else 0)
            rest //= size or 1
        return tuple(reversed(places))


@dataclass(frozen=True)
class FileScan:
    """One file read from its first byte to its last, unchanged meanwhile."""

    path: str
    bytes: int
    sha256: str | None
    tensors: tuple[TensorScan, ...] = ()
    mtime: float = 0.0


def _never() -> bool:
    return False


def scan_safetensors(
    path: str,
    *,
    digests_of: Collection[str] = (),
    hash_file: bool = True,
    stop: Callable[[], bool] = _never,
) -> FileScan:
    """Read a safetensors file once, from beginning to end.

    Args:
        path: the file.
        digests_of: names of the tensors whose SHA-256 is wanted.
        hash_file: whether the SHA-256 of the file is wanted.
        stop: asked before every piece of 8 MiB.

    Raises:
        HeaderError: its header is not sound.
        UnreadableError: it cannot be read (``ChangedDuringScanError``: it changed meanwhile).
        ScanStopped: ``stop`` said so.
    """
    handle = open_regular(path)
    try:
        before = os.fstat(handle)
        header = read_header(handle)
        walk = _TensorWalk(header, frozenset(digests_of))
        digest = _read_all(handle, before.st_size, [walk], hash_file, stop)
        _refuse_change(handle, path, before)
        return FileScan(path, before.st_size, digest, walk.finish(), before.st_mtime)
    finally:
        os.close(handle)


def scan_bytes(path: str, *, stop: Callable[[], bool] = _never) -> FileScan:
    """The SHA-256 of any file.

    Raises:
        UnreadableError, ScanStopped: as ``scan_safetensors``.
    """
    handle = open_regular(path)
    try:
        before = os.fstat(handle)
        digest = _read_all(handle, before.st_size, [], True, stop)
        _refuse_change(handle, path, before)
        return FileScan(path, before.st_size, digest, (), before.st_mtime)
    finally:
        os.close(handle)


def header_of(path: str) -> Header:
    """The header alone.

    Raises:
        HeaderError, UnreadableError: as ``scan_safetensors``.
    """
    handle = open_regular(path)
    try:
        return read_header(handle)
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror}") from None
    finally:
        os.close(handle)


def _refuse_change(handle: int, path: str, before: os.stat_result) -> None:
    after = os.fstat(handle)
    try:
        named = os.stat(path)
    except OSError:
        raise ChangedDuringScanError("it was removed while it was read") from None
    for now, what in ((after, "written to"), (named, "replaced or written to")):
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (
            before.st_ino,
            before.st_size,
            before.st_mtime_ns,
        ):
            raise ChangedDuringScanError(f"it was {what} while it was read")


class _Taker(Protocol):
    def take(self, data: bytes, at: int) -> None: ...


class _FileHash:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def take(self, data: bytes, at: int) -> None:
        del at
        self.digest.update(data)


class _TensorWalk:
    """Cuts the pieces of a file into the pieces of its tensors."""

    def __init__(self, header: Header, wanted: frozenset[str]) -> None:
        self._entries = [entry for entry in header.tensors if entry.end > entry.start]
        self._empty = [entry for entry in header.tensors if entry.end == entry.start]
        self._wanted = wanted
        self._next = 0
        self._current: _Tensor | None = None
        self._done: list[TensorScan] = []

    def take(self, data: bytes, at: int) -> None:
        end = at + len(data)
        while self._next < len(self._entries):
            entry = self._entries[self._next]
            begin, close = max(entry.start, at), min(entry.end, end)
            if begin >= end:
                return
            if self._current is None:
                self._current = _Tensor(entry, entry.name in self._wanted)
            if close > begin:
                self._current.feed(data, begin - at, close - at)
            if entry.end > end:
                return
            self._done.append(self._current.finish())
            self._current = None
            self._next += 1

    def finish(self) -> tuple[TensorScan, ...]:
        """All tensors; those without an element too."""
        empty = [_Tensor(entry, entry.name in self._wanted).finish() for entry in self._empty]
        return (*self._done, *empty)


class _Tensor:
    def __init__(self, entry: TensorEntry, wanted: bool) -> None:
        self._entry = entry
        kind = KINDS.get(entry.dtype)
        self._search = NonFiniteSearch(kind) if kind is not None else None
        self._digest = hashlib.sha256() if wanted else None
        self._zero = entry.end > entry.start

    def feed(self, data: bytes, start: int, end: int) -> None:
        if self._search is not None:
            self._search.feed(data, start, end)
        if self._digest is not None:
            self._digest.update(memoryview(data)[start:end])
        if self._zero:
            # A few bytes answer for nearly every tensor; the rest is for one that begins with 0.
            head = min(start + 4096, end)
            self._zero = not (data[start:head].strip(b"\0") or data[head:end].strip(b"\0"))

    def finish(self) -> TensorScan:
        entry, search = self._entry, self._search
        known = search is not None or entry.dtype in ALWAYS_FINITE
        return TensorScan(
            name=entry.name,
            dtype=entry.dtype,
            shape=entry.shape,
            nonfinite=(search.count if search is not None else 0) if known else None,
            infinite=search.infinite if search is not None else 0,
            first=search.first if search is not None else None,
            word=search.word if search is not None else "",
            zero=self._zero,
            sha256=self._digest.hexdigest() if self._digest is not None else None,
        )


def _read_all(
    handle: int, size: int, takers: Iterable[_Taker], hash_file: bool, stop: Callable[[], bool]
) -> str | None:
    """Give every piece of the file to every taker; the file's SHA-256 when it is wanted."""
    whole = _FileHash() if hash_file else None
    everyone: list[_Taker] = [*takers, *([whole] if whole is not None else [])]
    crew = _Threads(everyone) if size >= _THREADED_BYTES else _Inline(everyone)
    at = 0
    try:
        while True:
            if stop():
                raise ScanStopped
            data = os.pread(handle, CHUNK_BYTES, at)
            if not data:
                break
            _read_ahead(handle, at + len(data))
            crew.give(data, at)
            at += len(data)
    except OSError as error:
        raise UnreadableError(f"it cannot be read at byte {at}: {error.strerror}") from None
    finally:
        crew.close()
    if at != size:
        raise ChangedDuringScanError(f"it had {size} bytes, and {at} could be read")
    return whole.digest.hexdigest() if whole is not None else None


def _read_ahead(handle: int, at: int) -> None:
    """Have the kernel fetch what comes next while the pieces that are there are looked at."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(handle, at, 4 * CHUNK_BYTES, os.POSIX_FADV_WILLNEED)


class _Inline:
    def __init__(self, takers: list[_Taker]) -> None:
        self._takers = takers

    def give(self, data: bytes, at: int) -> None:
        for taker in self._takers:
            taker.take(data, at)

    def close(self) -> None:
        pass


class _Threads:
    """One thread a taker, each with a short queue, so that memory stays bounded."""

    def __init__(self, takers: list[_Taker]) -> None:
        self._failure: BaseException | None = None
        self._queues: list[Queue[tuple[bytes, int] | None]] = []
        self._threads = []
        for taker in takers:
            queue: Queue[tuple[bytes, int] | None] = Queue(maxsize=_QUEUED)
            thread = threading.Thread(target=self._work, args=(taker, queue), daemon=True)
            self._queues.append(queue)
            self._threads.append(thread)
            thread.start()

    def _work(self, taker: _Taker, queue: Queue[tuple[bytes, int] | None]) -> None:
        while True:
            item = queue.get()
            if item is None:
                return
            if self._failure is None:
                try:
                    taker.take(*item)
                except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
                    self._failure = error

    def give(self, data: bytes, at: int) -> None:
        for queue in self._queues:
            queue.put((data, at))

    def close(self) -> None:
        for queue in self._queues:
            queue.put(None)
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure
