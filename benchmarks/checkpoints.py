"""How fast checkpoints are scanned, beside plain reading of the same file, in this one run.

    python benchmarks/checkpoints.py [--mib 1024] [--repeats 5] [--folder DIR] [--json]

One file of float32 weights is made. Each repeat reads it plainly and scans it, in turn, both from
disk (the file's pages are dropped from the cache before each) and from the cache. A scan finds NaN
and infinity in every tensor and takes the SHA-256 of the file; "with digests" also takes that of
every tensor. Figures are medians of the pairs' ratios, scan speed by reading speed, with their
range.

The goal, 0.6 of plain reading speed, is about reading from disk. From the cache no scan with a
SHA-256 can come near it: hashing alone is the line "sha256 alone".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from seatrial.checkpoints.scan import scan_safetensors

GOAL = 0.6
MEMORY_GOAL = 300 * 2**20
TENSORS = 16
CHUNK = 8 * 2**20


def make(path: str, size: int) -> None:
    """A safetensors file of random float32 weights, synced to disk."""
    each = size // TENSORS // 4 * 4
    header = {
        f"layer.{n}.weight": {
            "dtype": "F32", "shape": [each // 4], "data_offsets": [n * each, (n + 1) * each]
        }
        for n in range(TENSORS)
    }  # fmt: skip
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # Exponents of ordinary weights: the byte that holds them is 0x3c to 0x3f, or with the sign.
    noise = bytearray(os.urandom(4 * 2**20))
    noise[3::4] = bytes(0x3C | (byte & 0x83) for byte in noise[3::4])
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        left = each * TENSORS
        while left:
            part = noise[:left]
            file.write(part)
            left -= len(part)
        file.flush()
        os.fsync(file.fileno())


def drop(path: str) -> None:
    """Drop the file's pages from the cache."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def read(path: str) -> None:
    """Plain reading, into one buffer."""
    buffer = bytearray(CHUNK)
    handle = os.open(path, os.O_RDONLY)
    try:
        while os.readv(handle, [buffer]):
            pass
    finally:
        os.close(handle)


def hash_alone(path: str) -> None:
    """What hashlib does by itself."""
    with open(path, "rb", buffering=0) as file:
        hashlib.file_digest(file, "sha256")


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measure(path: str, repeats: int) -> dict[str, dict[str, float]]:
    """Ratios of speed, other by reading, for each way and each state of the cache."""
    names = [f"layer.{n}.weight" for n in range(TENSORS)]
    ways: dict[str, Callable[[], object]] = {
        "scan": lambda: scan_safetensors(path),
        "scan with digests": lambda: scan_safetensors(path, digests_of=names),
        "scan without hashing": lambda: scan_safetensors(path, hash_file=False),
        "sha256 alone": lambda: hash_alone(path),
    }
    size = os.path.getsize(path) / 2**30
    found = {}
    for cached in (False, True):
        for name, action in ways.items():
            ratios, speeds, plain = [], [], []
            for turn in range(repeats):
                taken = {}
                pair = [("read", lambda: read(path)), ("other", action)]
                for label, work in pair if turn % 2 else reversed(pair):
                    read(path) if cached else drop(path)
                    taken[label] = seconds(work)
                ratios.append(taken["read"] / taken["other"])
                speeds.append(size / taken["other"])
                plain.append(size / taken["read"])
            found[f"{name}, {'from cache' if cached else 'from disk'}"] = {
                "ratio": statistics.median(ratios),
                "low": min(ratios),
                "high": max(ratios),
                "gib_per_s": statistics.median(speeds),
                "read_gib_per_s": statistics.median(plain),
            }
    return found


def main() -> int:
    """Measure and print; exit code 0 whatever the figures are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--folder", default=None, help="where the file is made; it is removed again"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = os.path.join(folder, "model.safetensors")
        make(path, args.mib * 2**20)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        found = measure(path, args.repeats)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if args.json:
        print(json.dumps({"figures": found, "peak_bytes": peak, "before_bytes": before}))
        return 0
    print(f"{args.mib} MiB of float32, {os.cpu_count()} cores, medians of {args.repeats} pairs")
    for name, row in found.items():
        goal = ""
        if name in ("scan, from disk", "scan with digests, from disk"):
            met = "met" if row["low"] >= GOAL else "missed" if row["high"] < GOAL else "not decided"
            met = met if met != "not decided" or row["ratio"] < GOAL else "met by the median alone"
            goal = f"  goal {GOAL}: {met}"
        print(
            f"  {name:34} {row['ratio']:5.2f} of reading ({row['low']:.2f} to {row['high']:.2f})"
            f"  {row['gib_per_s']:5.2f} against {row['read_gib_per_s']:5.2f} GiB/s{goal}"
        )
    print(
        f"  peak memory of this process {peak / 2**20:.0f} MiB, goal at most 300: "
        f"{'met' if peak <= MEMORY_GOAL else 'missed'}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
