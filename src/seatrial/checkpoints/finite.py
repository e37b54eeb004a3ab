"""NaN and infinity among packed numbers, found with slices of bytes and nothing else.

The byte that holds the top of the exponent of every element is one strided slice. Only when all
bits of an exponent's top byte are set anywhere in it can there be a NaN or an infinity, and asking
that is one or a few searches for a byte. So weights, which lie far from the largest number, cost
one slice. Where the search finds something, each element is looked at, by whole-number arithmetic.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

_ANY = bytes(range(256))


def _table(mask: int, value: int) -> bytes:
    """Translation that gives 1 for the bytes whose masked bits are ``value``, else 0."""
    return bytes(int(byte & mask == value) for byte in _ANY)


@dataclass(frozen=True)
class Kind:
    """How non-finite elements of one dtype look.

    Attributes:
        width: bytes of an element.
        tables: from the last byte of an element backwards, 1 for bytes that a non-finite element
            may have there; all of them must agree.
        infinite: likewise for all bytes of a non-finite element that is infinite; empty where the
            dtype has no infinity.
        unpack: how the first such element is read, to say whether it is NaN or infinite; empty
            where every such element is NaN.
    """

    width: int
    tables: tuple[bytes, ...]
    unpack: str = ""
    infinite: tuple[bytes, ...] = ()

    @cached_property
    def suspects(self) -> tuple[int, ...]:
        """Values of the last byte that can belong to a non-finite element."""
        return tuple(byte for byte in _ANY if self.tables[0][byte])


_TOP, _ZERO = _table(0, 0), _table(0xFF, 0)
_SINGLE = Kind(
    4, (_table(0x7F, 0x7F), _table(0x80, 0x80)), "<f", (_TOP, _table(0x7F, 0), _ZERO, _ZERO)
)
KINDS = {
    "F64": Kind(
        8, (_table(0x7F, 0x7F), _table(0xF0, 0xF0)), "<d", (_TOP, _table(0x0F, 0), *[_ZERO] * 6)
    ),
    "F32": _SINGLE,
    "C64": _SINGLE,
    "F16": Kind(2, (_table(0x7C, 0x7C),), "<e", (_table(0x03, 0), _ZERO)),
    "BF16": Kind(2, (_table(0x7F, 0x7F), _table(0x80, 0x80)), "bf16", (_TOP, _table(0x7F, 0))),
    "F8_E5M2": Kind(1, (_table(0x7C, 0x7C),), "e5m2", (_table(0x03, 0),)),
    "F8_E4M3": Kind(1, (_table(0x7F, 0x7F),)),
    "F8_E4M3FNUZ": Kind(1, (_table(0xFF, 0x80),)),
    "F8_E5M2FNUZ": Kind(1, (_table(0xFF, 0x80),)),
    "F8_E8M0": Kind(1, (_table(0xFF, 0xFF),)),
}
# Whole numbers, and small floats whose every pattern is a number.
ALWAYS_FINITE = frozenset(
    "BOOL U8 I8 U16 I16 U32 I32 U64 I64 F6_E2M3 F6_E3M2 F4".split()  # noqa: SIM905 - a list to read
)


class NonFiniteSearch:
    """Counts the non-finite elements of one tensor that comes in pieces, in order.

    Args:
        kind: how its elements look.

    Attributes:
        count: non-finite elements so far.
        infinite: how many of them are infinite; the others are NaN.
        first: index of the first of them; None so far.
        word: ``NaN``, ``+Inf`` or ``-Inf`` of that first one.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._taken = 0  # bytes of earlier pieces
        self._tail = b""  # the bytes of an element whose rest is in the next piece
        self.count = 0
        self.infinite = 0
        self.first: int | None = None
        self.word = ""

    def feed(self, data: bytes, start: int, end: int) -> None:
        """Look at ``data[start:end]``, the next bytes of the tensor."""
        width = self._kind.width
        # Where the first last-byte of an element lies in this piece.
        offset = (width - 1 - self._taken) % width
        tops = data[start + offset : end : width]
        if any(byte in tops for byte in self._kind.suspects):
            self._look_closer(data, start, end)
        self._taken += end - start
        rest = self._taken % width
        if rest:
            self._tail = (self._tail + data[max(start, end - rest) : end])[-rest:]
        else:
            self._tail = b""

    def _look_closer(self, data: bytes, start: int, end: int) -> None:
        width, before = self._kind.width, len(self._tail)
        block = self._tail + data[start:end]
        block = block[: len(block) - len(block) % width]
        marks = self._marks(block, self._kind.tables)
        if not marks:
            return
        self.count += marks.bit_count()
        if self._kind.infinite:
            self.infinite += (marks & self._marks(block, self._kind.infinite)).bit_count()
        if self.first is None:
            index = ((marks & -marks).bit_length() - 1) // 8
            self.first = (self._taken - before) // width + index
            self.word = _word(self._kind, block[index * width : (index + 1) * width])

    def _marks(self, block: bytes, tables: tuple[bytes, ...]) -> int:
        """A number with one bit of each byte set whose element has all of the tables' bits."""
        width, marks = self._kind.width, -1
        for place, table in enumerate(tables):
            column = block[width - 1 - place :: width].translate(table)
            marks &= int.from_bytes(column, "little")
        return marks


def _word(kind: Kind, element: bytes) -> str:
    if not kind.unpack:
        return "NaN"
    if kind.unpack == "bf16":
        (value,) = struct.unpack("<f", b"\0\0" + element)
    elif kind.unpack == "e5m2":
        (value,) = struct.unpack("<e", b"\0" + element)
    else:
        (value,) = struct.unpack(kind.unpack, element)
    return "NaN" if value != value else ("+Inf" if value > 0 else "-Inf")
