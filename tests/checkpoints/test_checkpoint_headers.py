"""safetensors headers: sound ones are read, and every lie in one is refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.checkpoints.open_file import UnreadableError
from seatrial.checkpoints.safetensors_header import HeaderError
from seatrial.checkpoints.scan import header_of

from .conftest import floats, safetensors, with_header

ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], str]:
    def write(data: bytes) -> str:
        path = tmp_path / "model.safetensors"
        path.write_bytes(data)
        return str(path)

    return write


def test_a_sound_header_is_read(file: Callable[[bytes], str]) -> None:
    tensors = {"b": floats([2, 3]), "empty": floats([0, 5]), "scalar": floats([])}
    header = header_of(file(safetensors(tensors)))
    assert {e.name: (e.dtype, e.shape, e.end - e.start) for e in header.tensors} == {
        "b": ("F32", (2, 3), 24), "empty": ("F32", (0, 5), 0), "scalar": ("F32", (), 4),
    }  # fmt: skip
    named = with_header({"__metadata__": {"format": "pt"}, "x": ENTRY}, bytes(8))
    assert header_of(file(named)).metadata == {"format": "pt"}
    assert header_of(file(with_header({}, b""))).tensors == ()


def test_an_unknown_dtype_is_kept_and_named(file: Callable[[bytes], str]) -> None:
    odd = {"x": {"dtype": "F12", "shape": [4], "data_offsets": [0, 6]}}
    assert header_of(file(with_header(odd, bytes(6)))).unknown_dtypes == ("F12",)


LIES = {
    "eight exabytes": ((2**63 - 1).to_bytes(8, "little") + b"{}", "length"),
    "all ones": (b"\xff" * 8 + b"{}", "length"),
    "one byte too long": ((9).to_bytes(8, "little") + b"{}      ", "length"),
    "no byte": (b"", "truncated"),
    "seven bytes": (b"\0" * 7, "truncated"),
    "no JSON": (with_header("{nonsense", b""), "json"),
    "a list": (with_header("[1]", b""), "json"),
    "not UTF-8": ((7).to_bytes(8, "little") + b'{"\xff":1}', "json"),
    "nested": (with_header('{"a":' + "[" * 5000 + "]" * 5000 + "}", b""), "json"),
    "NaN": (with_header('{"a": NaN}', b""), "json"),
    "twice": (
        with_header(f'{{"x": {json.dumps(ENTRY)}, "x": {json.dumps(ENTRY)}}}', bytes(8)),
        "duplicate",
    ),
    "entry is a number": (with_header({"x": 1}, b""), "entry"),
    "negative shape": (with_header({"x": {**ENTRY, "shape": [-2]}}, bytes(8)), "entry"),
    "shape of truth": (with_header({"x": {**ENTRY, "shape": [True, 2]}}, bytes(8)), "entry"),
    "huge shape": (with_header({"x": {**ENTRY, "shape": [2**62, 2**62]}}, bytes(8)), "size"),
    "wrong size": (with_header({"x": {**ENTRY, "shape": [3]}}, bytes(8)), "size"),
    "backwards": (with_header({"x": {**ENTRY, "data_offsets": [8, 0]}}, bytes(8)), "offsets"),
    "out of the file": (with_header({"x": ENTRY}, bytes(4)), "truncated"),
    "gap": (with_header({"x": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)), "offsets"),
    "overlap": (
        with_header({"x": ENTRY, "y": {**ENTRY, "data_offsets": [4, 12]}}, bytes(12)),
        "offsets",
    ),
    "rest": (with_header({"x": ENTRY}, bytes(9)), "offsets"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_refused(file: Callable[[bytes], str], name: str) -> None:
    data, code = LIES[name]
    with pytest.raises(HeaderError) as caught:
        header_of(file(data))
    assert caught.value.code == code, caught.value


def test_what_is_no_regular_file_is_unreadable(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    for path in (tmp_path / "pipe.safetensors", tmp_path, tmp_path / "missing", tmp_path / "a\0b"):
        with pytest.raises(UnreadableError):
            header_of(str(path))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 60), st.binary(max_size=4))
def test_no_damage_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, patch: bytes
) -> None:
    sound = bytearray(safetensors({"x": floats([3]), "y": floats([2, 2])}))
    sound[at : at + len(patch)] = patch
    for data in (noise, bytes(sound)):
        path = tmp_path_factory.getbasetemp() / "noise.safetensors"
        path.write_bytes(data)
        try:
            header_of(str(path))
        except (HeaderError, UnreadableError):
            pass
