"""What seatrial costs: ratios of two things measured side by side, in turn, in this one run.

    python benchmarks/run.py [--repeats 7] [--steps 40] [--json]

Absolute times differ from machine to machine; a ratio of neighbours much less. Every figure is a
median over pairs (one run without, one with, in alternating order), printed with the range that
the pairs had. A goal that the noise does not let decide is called "not decided", never "met".
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
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
BOOTSTRAP = SOURCE / "seatrial" / "probe" / "bootstrap"
WORKLOAD = Path(__file__).parent / "workload.py"
WARM_UP = 5
EVENTS = 20_000


@dataclass(frozen=True)
class Figure:
    """One measured figure. ``goal`` is the most it may be; None where there is no goal."""

    name: str
    value: float
    low: float
    high: float
    goal: float | None
    unit: str = "x"

    @property
    def judgement(self) -> str:
        """Whether the goal is met; not decided while it lies in the middle half of the pairs."""
        if self.goal is None:
            return ""
        if self.low <= self.goal < self.high:
            side = "below" if self.value <= self.goal else "above"
            return f"goal {self.goal}: not decided by this run (median {side} it)"
        return f"goal {self.goal}: {'met' if self.value <= self.goal else 'NOT MET'}"


def over_pairs(name: str, ratios: list[float], goal: float | None, unit: str = "x") -> Figure:
    """The median of paired ratios with their middle half."""
    low, _, high = statistics.quantiles(ratios, n=4)
    return Figure(name, statistics.median(ratios), low, high, goal, unit)


def environment(record: Path | None) -> dict[str, str]:
    """One thread and, with a record, what the supervisor would set for the probe."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SEATRIAL_")}
    env |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    if record is not None:
        env |= {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(BOOTSTRAP), env.get("PYTHONPATH")])),
            "SEATRIAL_RECORD": str(record),
            "SEATRIAL_RUN_ID": "benchmark",
            "SEATRIAL_MAX_STEPS": "1000000",
            "SEATRIAL_DEADLINE": str(time.monotonic() + 3600),
            "SEATRIAL_SECRET_NAMES": "",
        }
    return env


def new_record(folder: Path) -> Path:
    """An empty record in which the probe finds the folders that it expects."""
    record = Path(tempfile.mkdtemp(dir=folder))
    (record / "run" / "attach").mkdir(parents=True)
    (record / "control").mkdir()
    return record


def train(steps: int, record: Path | None) -> tuple[float, float, str]:
    """One training process: seconds of a step, seconds of the whole, its last loss.

    A step's time is the 10th percentile of the process's own: what else the machine does only ever
    adds to a step, and what the probe does is in every one of them.
    """
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(WORKLOAD), str(steps)],
        env=environment(record),
        capture_output=True,
        text=True,
        check=True,
    )
    whole = time.perf_counter() - begin
    told = json.loads(done.stdout)
    if record is not None:
        file = record / "run" / "events.rank0.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        seen = sum(json.loads(line)["event"] == "step" for line in lines)
        if seen != steps:
            raise SystemExit(f"the probe saw {seen} of {steps} steps: nothing was measured")
    return statistics.quantiles(told["seconds"][WARM_UP:], n=10)[0], whole, told["loss"]


def probe_cost(repeats: int, steps: int, folder: Path) -> list[Figure]:
    """Step time and whole-run time with the probe over without."""
    step_ratios, whole_ratios = [], []
    for number in range(repeats):
        record = new_record(folder)
        order = [None, record] if number % 2 == 0 else [record, None]
        measured = {bool(which): train(steps, which) for which in order}
        if measured[True][2] != measured[False][2]:
            raise SystemExit("the last loss differs with the probe: it changed what was computed")
        step_ratios.append(measured[True][0] / measured[False][0])
        whole_ratios.append(measured[True][1] / measured[False][1])
        say(f"pair {number + 1}/{repeats}: step {step_ratios[-1]:.3f} whole {whole_ratios[-1]:.3f}")
    return [
        over_pairs("step time with probe / without", step_ratios, 1.02),
        over_pairs("whole-run time with probe / without", whole_ratios, 1.05),
    ]


def cpu_seconds(command: list[str]) -> float:
    """User and system seconds of one child."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment(None), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def help_cost(runs: int) -> Figure:
    """CPU time of ``seatrial --help`` over ``python -c pass``: the ratio of two means."""
    script = Path(sys.executable).parent / "seatrial"
    ours = [str(script)] if script.exists() else [sys.executable, "-m", "seatrial"]
    theirs = [sys.executable, "-c", "pass"]
    pairs = [(cpu_seconds([*ours, "--help"]), cpu_seconds(theirs)) for _ in range(runs)]
    fifths = [pairs[start::5] for start in range(5)]  # five interleaved parts show the spread
    parts = sorted(sum(a for a, _ in part) / sum(b for _, b in part) for part in fifths)
    mean = sum(a for a, _ in pairs) / sum(b for _, b in pairs)
    return Figure(f"CPU of --help / python -c pass, {runs} runs", mean, parts[1], parts[3], 6.0)


def event_rate(repeats: int, folder: Path) -> list[Figure]:
    """Events a second through the probe's writer, and against bare writes of the same lines."""
    sys.path.insert(0, str(SOURCE))
    from seatrial.core.redaction import Redactor
    from seatrial.probe.writer import EventWriter

    data = {
        "step": 1, "segment": 1, "optimizer": "AdamW", "loss_raw": 2.3456, "lr": [3e-4],
        "grad_norm": 0.987, "tokens": 4096, "supervised_tokens": 1024, "seconds": 0.123,
        "rss_bytes": 1 << 30, "device_bytes": 0, "micro_batches": 1, "source": "optimizer",
    }  # fmt: skip
    rates, ratios = [], []
    for _ in range(repeats):
        record = new_record(folder)
        writer = EventWriter(str(record), lambda: 0, lambda: Redactor(()))
        begin = time.perf_counter()
        for _ in range(EVENTS):
            writer.write("step", data, plain=True)
        ours = time.perf_counter() - begin
        lines = (record / "run" / "events.rank0.jsonl").read_bytes().splitlines(keepends=True)
        if len(lines) != EVENTS:
            raise SystemExit(f"{len(lines)} of {EVENTS} events were written")
        handle = os.open(record / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        begin = time.perf_counter()
        for line in lines:
            os.write(handle, line)
        bare = time.perf_counter() - begin
        os.close(handle)
        rates.append(EVENTS / ours)
        ratios.append(ours / bare)
    return [
        over_pairs("events written a second", rates, None, "/s"),
        over_pairs("time of an event / bare write of its line", ratios, None),
    ]


def say(text: str) -> None:
    """Progress for whoever waits."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="pairs of training runs (>= 2)")
    parser.add_argument("--steps", type=int, default=40, help="optimizer steps of a run (> 5)")
    parser.add_argument("--help-runs", type=int, default=50, help="runs of --help (>= 10)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seatrial-bench-") as name:
        folder = Path(name)
        say("events")
        figures = event_rate(max(2, args.repeats), folder)
        say("--help")
        figures.append(help_cost(args.help_runs))
        say("training pairs")
        figures = probe_cost(args.repeats, args.steps, folder) + figures
    if args.json:
        rows = [asdict(figure) | {"judgement": figure.judgement} for figure in figures]
        print(json.dumps({"load_average": os.getloadavg(), "figures": rows}))
        return
    print(f"{'':42} {'median':>10}   middle half of the pairs")
    for figure in figures:
        digits = 0 if figure.unit == "/s" else 3
        value, low, high = (f"{x:,.{digits}f}" for x in (figure.value, figure.low, figure.high))
        print(f"{figure.name:42} {value:>8}{figure.unit:2}   {low} .. {high}   {figure.judgement}")
    print(f"load average {os.getloadavg()[0]:.2f} at the end, on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
