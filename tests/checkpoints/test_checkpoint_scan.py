"""The streaming scan: digests and non-finite elements against an independent count."""

from __future__ import annotations

import hashlib
import math
import os
import random
import resource
import struct
import sys
from pathlib import Path

import pytest

from seatrial.checkpoints import scan as scanning
from seatrial.checkpoints.finite import KINDS, NonFiniteSearch
from seatrial.checkpoints.scan import (
    ChangedDuringScanError,
    ScanStopped,
    scan_bytes,
    scan_safetensors,
)

from .conftest import floats, packed, safetensors

NAN, INF = math.nan, math.inf


def test_hashes_are_those_of_file_and_tensors(tmp_path: Path) -> None:
    tensors = {"a": floats([3, 5], 1.5), "b": floats([7], -2.0, "BF16"), "none": floats([0])}
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors(tensors))
    seen = scan_safetensors(str(path), digests_of=["a", "none"])
    assert seen.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    digests = {tensor.name: tensor.sha256 for tensor in seen.tensors}
    assert digests == {
        "a": hashlib.sha256(tensors["a"][2]).hexdigest(),
        "b": None,
        "none": hashlib.sha256(b"").hexdigest(),
    }
    assert scan_safetensors(str(path), hash_file=False).sha256 is None
    assert scan_bytes(str(path)).sha256 == seen.sha256


@pytest.mark.parametrize(
    ("dtype", "value", "word"),
    [
        (dtype, value, word)
        for dtype in ("F64", "F32", "F16", "BF16", "F8_E5M2")
        for value, word in ((NAN, "NaN"), (-NAN, "NaN"), (INF, "+Inf"), (-INF, "-Inf"))
    ],
)
def test_one_bad_element_is_found_with_its_index(
    tmp_path: Path, dtype: str, value: float, word: str
) -> None:
    values = [0.25] * 60
    values[37] = value
    path = tmp_path / "m.safetensors"
    bad = (dtype, [5, 12], packed(dtype, values))
    path.write_bytes(safetensors({"pad": floats([3], 1.0, "U8"), "w": bad, "z": floats([4])}))
    seen = {tensor.name: tensor for tensor in scan_safetensors(str(path)).tensors}
    assert (seen["w"].nonfinite, seen["w"].first, seen["w"].word) == (1, 37, word)
    assert seen["w"].index() == (3, 1)
    assert seen["w"].infinite == (0 if word == "NaN" else 1)
    assert seen["z"].nonfinite == 0


def test_small_floats_and_complex_numbers(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(
        safetensors(
            {
                "e4m3": ("F8_E4M3", [4], bytes([0x7E, 0xFE, 0x00, 0xFF])),
                "c": ("C64", [2], struct.pack("<4f", 1, 2, 3, NAN)),
                "u8": ("U8", [3], b"\xff\x7f\x80"),
                "f4": ("F4", [4], b"\xff\xff"),
                "odd": ("F12", [4], b"\xff" * 6),
            }
        )
    )
    seen = {tensor.name: tensor.nonfinite for tensor in scan_safetensors(str(path)).tensors}
    assert seen == {"e4m3": 1, "c": 1, "u8": 0, "f4": 0, "odd": None}


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16"])
def test_the_largest_numbers_are_no_infinities(tmp_path: Path, dtype: str) -> None:
    largest = {"F64": sys.float_info.max, "F32": 3.4028234663852886e38, "F16": 65504.0,
               "BF16": 3.3895313892515355e38}[dtype]  # fmt: skip
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors({"w": floats([500], -largest, dtype)}))
    assert [tensor.nonfinite for tensor in scan_safetensors(str(path)).tensors] == [0]


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16", "F8_E5M2"])
def test_pieces_of_any_size_give_the_same_count(dtype: str) -> None:
    rng = random.Random(5)
    values = [rng.choice([0.5, -1.0, 0.0, NAN, INF, -INF, 3.0]) for _ in range(400)]
    data = packed(dtype, values)
    wanted = sum(not math.isfinite(value) for value in values)
    infinite = sum(math.isinf(value) for value in values)
    first = next(i for i, value in enumerate(values) if not math.isfinite(value))
    for _ in range(60):
        search, at = NonFiniteSearch(KINDS[dtype]), 0
        while at < len(data):
            end = min(len(data), at + rng.randrange(1, 40))
            search.feed(b"\x7f" * 3 + data[at:end] + b"\xff" * 3, 3, 3 + end - at)
            at = end
        assert (search.count, search.infinite, search.first) == (wanted, infinite, first)


def test_a_file_of_many_pieces_is_read_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(scanning, "_THREADED_BYTES", 2000)
    values = [1.0] * 5003
    values[4321] = NAN
    tensors = {
        "pad": floats([7], 1.0, "U8"),
        "w": ("F32", [5003], packed("F32", values)),
        "zero": floats([1500], 0.0),
        "end": floats([2], 0.0, "F64"),
    }
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors(tensors))
    seen = scan_safetensors(str(path), digests_of=list(tensors))
    assert seen.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    for tensor in seen.tensors:
        assert tensor.sha256 == hashlib.sha256(tensors[tensor.name][2]).hexdigest()
    found = {tensor.name: (tensor.first, tensor.zero) for tensor in seen.tensors}
    assert found == {
        "pad": (None, False), "w": (4321, False), "zero": (None, True), "end": (None, True),
    }  # fmt: skip


def test_a_write_during_the_scan_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 1000)
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors({"w": floats([4000])}))
    calls = []

    def meddle() -> bool:
        calls.append(1)
        if len(calls) == 3:
            with path.open("r+b") as file:
                file.seek(9000)
                file.write(b"????")
            os.utime(path, ns=(1, 1))
        return False

    with pytest.raises(ChangedDuringScanError, match="while it was read"):
        scan_safetensors(str(path), stop=meddle)

    def replace() -> bool:
        (tmp_path / "other").write_bytes(path.read_bytes())
        (tmp_path / "other").replace(path)
        return False

    with pytest.raises(ChangedDuringScanError, match="replaced"):
        scan_safetensors(str(path), stop=replace)


def test_the_scan_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(scanning, "_THREADED_BYTES", 2000)
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors({"w": floats([4000])}))
    calls = []
    with pytest.raises(ScanStopped):
        scan_safetensors(str(path), stop=lambda: calls.append(1) or len(calls) > 4)  # type: ignore[func-returns-value]
    assert len(calls) == 5


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    size = 400 * 2**20
    header = safetensors({})[:0]
    with path.open("wb") as file:  # sparse: no disk is used
        text = f'{{"w":{{"dtype":"F32","shape":[{size // 4}],"data_offsets":[0,{size}]}}}}'.encode()
        text += b" " * (-len(text) % 8)
        file.write(header + len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = scan_safetensors(str(path))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert seen.tensors[0].zero and seen.tensors[0].nonfinite == 0
    assert grown * 1024 < 300 * 2**20
