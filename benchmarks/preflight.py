"""What static rules cost on a runner of a thousand lines, beyond what `seatrial --help` costs.

    python benchmarks/preflight.py [--repeats 9] [--lines 1000] [--json]

Both commands run in turn in fresh processes; the figure is the median of the paired differences.
The goal is 300 ms. Processor time is shown beside it: on a
machine with other work to do the wall time says little, and a goal that is missed then is called
"not decided". The runner is put together from the scripts of `examples/` and padded to its
length with functions that make calls, so that the rules have something to follow.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
GOAL_MS = 300.0
BLOCK = '''

def stage_{number}(rows, scale={number}):
    """A step of preparation."""
    kept = [row for row in rows if len(row) > scale]
    settings = {{"scale": scale, "name": f"stage-{number}", "limit": scale * 2}}
    for at, row in enumerate(kept):
        if at % 100 == 0:
            print(f"stage {number}: {{at}} of {{len(kept)}}", settings["name"])
    return sorted(kept, key=len)[: settings["limit"]]
'''


def runner(lines: int) -> str:
    """A script of about that many lines, built on the Trainer example."""
    text = (ROOT / "examples" / "trainer" / "train.py").read_text(encoding="utf-8")
    number = 0
    while text.count("\n") < lines:
        text += BLOCK.format(number=number)
        number += 1
    return text


def seconds(words: list[str], folder: Path) -> tuple[float, float]:
    """Wall and processor time of one command in a fresh process."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "SEATRIAL_DIR": str(folder / ".seatrial"),
        # Compiled modules are kept, as of an installed package, and beside this tree.
        "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", *words],
        cwd=folder,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    took = time.perf_counter() - began
    if done.returncode != 0:
        raise SystemExit(f"seatrial {words[0]} ended with {done.returncode}: {done.stderr!r}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        text = runner(args.lines)
        (folder / "train.py").write_text(text, encoding="utf-8")
        command = ["preflight", "train.py", "--", "--max-steps", "40"]
        seconds(command, folder)  # warms the caches of the disk
        pairs: list[float] = []
        processor: list[float] = []
        for number in range(args.repeats):
            if number % 2:
                checked, bare = seconds(command, folder), seconds(["--help"], folder)
            else:
                bare, checked = seconds(["--help"], folder), seconds(command, folder)
            pairs.append((checked[0] - bare[0]) * 1000)
            processor.append((checked[1] - bare[1]) * 1000)
    low, median, high = statistics.quantiles(pairs, n=4)
    busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    judgement = "met" if median <= GOAL_MS else ("not decided: busy" if busy else "NOT MET")
    value = {
        "lines": text.count("\n"),
        "extra_ms": round(median, 1),
        "low_ms": round(low, 1),
        "high_ms": round(high, 1),
        "processor_ms": round(statistics.median(processor), 1),
        "goal_ms": GOAL_MS,
        "judgement": judgement,
    }
    if args.json:
        print(json.dumps(value))
    else:
        print(
            f"preflight of {value['lines']} lines: {value['extra_ms']} ms beyond --help "
            f"(middle half {value['low_ms']} to {value['high_ms']}; processor "
            f"{value['processor_ms']} ms), goal {GOAL_MS:g}: {judgement}"
        )


if __name__ == "__main__":
    main()
