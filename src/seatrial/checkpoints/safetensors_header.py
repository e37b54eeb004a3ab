"""The header of a safetensors file, parsed without torch and with limits.

The format: eight bytes little-endian length, a JSON object of that length, then the tensors without
gaps. The limit on the header is the one that the format's own library keeps (100 MB).
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field
from typing import Any

from seatrial.checkpoints.open_file import UnreadableError, parse_json

HEADER_BYTES = 100_000_000
MAX_TENSORS = 500_000
_MAX_DIMS = 64
_MAX_DIM = 2**63

# Bits of one element, as the safetensors library lists them.
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


class HeaderError(UnreadableError):
    """The file is no sound safetensors file. ``code`` tells the kind of fault."""

    def __init__(self, code: str, message: str, tensor: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.tensor = tensor


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file; ``start`` and ``end`` count from the beginning of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    @property
    def elements(self) -> int:
        """How many elements the shape has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Header:
    """What a header says: tensors in order of their place, and the metadata."""

    tensors: tuple[TensorEntry, ...]
    data_start: int
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def unknown_dtypes(self) -> tuple[str, ...]:
        """Names of element types that this version does not know."""
        return tuple(sorted({entry.dtype for entry in self.tensors} - set(BITS)))


def read_header(handle: int) -> Header:
    """Read and check the header of an open file.

    Args:
        handle: descriptor of a regular file; its position is not used and not moved.

    Raises:
        HeaderError: ``truncated``, ``length``, ``json``, ``duplicate``, ``entry``, ``offsets`` or
            ``size``.
    """
    size = os.fstat(handle).st_size
    first = os.pread(handle, 8, 0)
    if len(first) < 8:
        raise HeaderError("truncated", f"it has {size} bytes; a header alone needs more than 8")
    length = int.from_bytes(first, "little")
    if length > size - 8:
        raise HeaderError(
            "length", f"its header claims {length} bytes, and the file has {size} in all"
        )
    if length > HEADER_BYTES:
        raise HeaderError("length", f"its header claims {length} bytes; the format allows 100 MB")
    text = _read_exactly(handle, length, 8)
    if not text.startswith(b"{"):
        raise HeaderError("json", "its header does not begin with '{'")
    return _parse(text, 8 + length, size)


def _read_exactly(handle: int, length: int, at: int) -> bytes:
    parts = []
    while length:
        part = os.pread(handle, length, at)
        if not part:
            raise HeaderError("truncated", f"it ends inside its header, at byte {at}")
        parts.append(part)
        at += len(part)
        length -= len(part)
    return b"".join(parts)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise HeaderError("duplicate", f"its header names {name!r} twice", name)
            seen.add(name)
    return found


def _parse(text: bytes, data_start: int, size: int) -> Header:
    try:
        value = parse_json(text, pairs=_no_repeats)
    except HeaderError:
        raise
    except UnreadableError as error:
        raise HeaderError("json", f"its header cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise HeaderError("json", "its header is no JSON object")
    metadata = value.pop("__metadata__", None)
    if len(value) > MAX_TENSORS:
        raise HeaderError("entry", f"its header names {len(value)} tensors")
    entries = [_entry(name, item, data_start) for name, item in value.items()]
    entries.sort(key=lambda entry: (entry.start, entry.end))
    _check_places(entries, data_start, size)
    return Header(tuple(entries), data_start, metadata if isinstance(metadata, dict) else {})


def _entry(name: str, item: Any, data_start: int) -> TensorEntry:
    def whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_DIM

    if not isinstance(item, dict):
        raise HeaderError("entry", f"its entry for {name!r} is no object", name)
    dtype, shape, offsets = item.get("dtype"), item.get("shape"), item.get("data_offsets")
    if not isinstance(dtype, str):
        raise HeaderError("entry", f"its entry for {name!r} has no dtype", name)
    if not isinstance(shape, list) or len(shape) > _MAX_DIMS or not all(map(whole, shape)):
        raise HeaderError("entry", f"its entry for {name!r} has no usable shape", name)
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(whole, offsets)):
        raise HeaderError("offsets", f"its entry for {name!r} has no usable data_offsets", name)
    begin, end = offsets
    if end < begin:
        raise HeaderError("offsets", f"its data of {name!r} end at {end}, before {begin}", name)
    entry = TensorEntry(name, dtype, tuple(shape), data_start + begin, data_start + end)
    bits = BITS.get(dtype)
    if bits is not None and entry.elements * bits != (end - begin) * 8:
        raise HeaderError(
            "size",
            f"its tensor {name!r} of {dtype} {list(shape)} needs {entry.elements * bits / 8:g} "
            f"bytes and has {end - begin}",
            name,
        )
    return entry


def _check_places(entries: list[TensorEntry], data_start: int, size: int) -> None:
    at = data_start
    for entry in entries:
        if entry.end > size:
            raise HeaderError(
                "truncated",
                f"its tensor {entry.name!r} ends at byte {entry.end}, and the file has {size}",
                entry.name,
            )
        if entry.start < at:
            raise HeaderError(
                "offsets", f"its tensor {entry.name!r} overlaps the one before it", entry.name
            )
        if entry.start > at:
            raise HeaderError(
                "offsets", f"{entry.start - at} bytes before {entry.name!r} are no tensor's",
                entry.name,
            )  # fmt: skip
        at = entry.end
    if at != size:
        raise HeaderError("offsets", f"{size - at} bytes at its end are no tensor's")
