"""How fast input files are hashed: against one thread of ``hashlib.file_digest``, side by side.

    python benchmarks/freeze.py [--files 8] [--size 512MiB] [--pairs 5] [--folder DIR] [--json]

The files are written and read once first, so that both sides read from memory. Every pair runs both
sides in alternating order; the figure is the median of the ratios (their time over ours: larger is
better), with the middle half of the pairs. A goal that the noise does not let decide is called "not
decided", never "met". Both sides must give the same hashes.

A pair during which other processes used more than a tenth of a core is printed and not counted:
two threads cannot be faster than one where the second core is taken.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
GOAL = 1.7
OTHERS_CORES = 0.1


def write_files(folder: Path, count: int, size: int) -> list[Path]:
    """Files of random bytes, so that nothing about them is cheaper than usual."""
    block = os.urandom(2**20)
    paths = []
    for number in range(count):
        path = folder / f"part-{number:02d}.bin"
        with path.open("wb") as file:
            for start in range(0, size, len(block)):
                file.write(block[: min(len(block), size - start)])
        paths.append(path)
    return paths


def theirs(paths: list[Path]) -> list[str]:
    """One thread, one file after the other."""
    found = []
    for path in paths:
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def ours(paths: list[Path]) -> list[str]:
    """As ``seatrial freeze`` does it."""
    from seatrial.readers.digests import DigestJob, digest_files

    jobs = [DigestJob(str(path), path.name) for path in paths]
    return [getattr(found, "sha256", "") for found in digest_files(jobs, lambda _text: None)]


def cores_used() -> tuple[float, float, float]:
    """Core seconds that the whole machine and this process have used so far, and the moment."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, soft, steal = map(int, file.readline().split()[1:9])
    busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
    return busy, time.process_time(), time.perf_counter()


def seconds(side: Callable[[list[Path]], list[str]], paths: list[Path]) -> tuple[float, list[str]]:
    """Wall time of one side, and what it found."""
    begin = time.perf_counter()
    found = side(paths)
    return time.perf_counter() - begin, found


def pair(number: int, paths: list[Path], expected: list[str]) -> tuple[float, float]:
    """One pair: the ratio of the two times, and how many cores others used meanwhile."""
    before = cores_used()
    order = [ours, theirs] if number % 2 == 0 else [theirs, ours]
    measured = {side.__name__: seconds(side, paths) for side in order}
    after = cores_used()
    if any(found != expected for _, found in measured.values()):
        raise SystemExit("the hashes differ: nothing was measured")
    ratio = measured["theirs"][0] / measured["ours"][0]
    machine, own, wall = (late - early for late, early in zip(after, before, strict=True))
    others = max(0.0, machine - own) / wall
    print(
        f"pair {number + 1}: {measured['theirs'][0]:.2f} s alone, {measured['ours'][0]:.2f} s "
        f"ours, {ratio:.2f}x; others used {others:.2f} cores",
        file=sys.stderr,
        flush=True,
    )
    return ratio, others


def judgement(ratios: list[float]) -> str:
    """Whether the goal is met; not decided while it lies in the middle half of the pairs."""
    if len(ratios) < 2:
        return f"goal {GOAL}: not decided, other processes had the cores"
    low, middle, high = statistics.quantiles(ratios, n=4)
    if low < GOAL <= high:
        return f"goal {GOAL}: not decided by this run (median {middle:.2f})"
    return f"goal {GOAL}: {'met' if middle >= GOAL else 'NOT MET'}"


def main() -> None:
    """Measure and print."""
    sys.path.insert(0, str(SOURCE))
    from seatrial.core.units import parse_size

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--size", default="512MiB", help="of each file")
    parser.add_argument("--pairs", type=int, default=5, help=">= 2")
    parser.add_argument("--folder", help="where the files are written (a temporary folder)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="seatrial-bench-", dir=args.folder))
    try:
        paths = write_files(folder, args.files, parse_size(args.size))
        expected = theirs(paths)  # warms the cache, too
        pairs = [pair(number, paths, expected) for number in range(args.pairs)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios = [ratio for ratio, others in pairs if others <= OTHERS_CORES]
    shown = ratios if len(ratios) > 1 else [ratio for ratio, _ in pairs]
    low, middle, high = statistics.quantiles(shown, n=4)
    if args.json:
        row = {"name": "freeze", "value": middle, "low": low, "high": high, "goal": GOAL}
        row |= {"pairs": len(pairs), "counted": len(ratios), "judgement": judgement(ratios)}
        print(json.dumps(row))
        return
    print(f"hashing {args.files} files of {args.size}, one thread / ours: {middle:.2f}x")
    print(f"  middle half of the pairs {low:.2f} .. {high:.2f}; {judgement(ratios)}")
    print(f"  {len(ratios)} of {len(pairs)} pairs counted, on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
