"""Scripts run by real interpreters, with the probe as the supervisor would attach it and without.

No supervisor is involved: a record folder and the variables of the seam are all that the probe
knows of one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
BOOTSTRAP = ROOT / "src" / "seatrial" / "probe" / "bootstrap"
LIMIT_S = 100


@dataclass
class Done:
    """One script that has ended, and what the probe wrote about it (nothing without it)."""

    code: int
    out: str
    err: str
    record: Path
    told: dict[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    def events(self, name: str | None = None, rank: int = 0) -> list[dict[str, Any]]:
        """The rank's events; every line must parse."""
        path = self.record / "run" / f"events.rank{rank}.jsonl"
        if not path.exists():
            return []
        lines = path.read_text(encoding="ascii").splitlines()
        events = [json.loads(line) for line in lines]
        return [event for event in events if name in (None, event["event"])]

    def data(self, name: str, rank: int = 0) -> list[dict[str, Any]]:
        """Only what the events of this name hold."""
        return [event["data"] for event in self.events(name, rank)]

    def end(self, rank: int = 0) -> dict[str, Any]:
        """The process's last event."""
        ends = [data for data in self.data("train.end", rank) if data["scope"] == "process"]
        assert len(ends) == 1
        assert self.events(rank=rank)[-1]["event"] == "train.end"
        return ends[0]

    def attached(self) -> list[dict[str, Any]]:
        """What the interpreters said about themselves."""
        folder = self.record / "run" / "attach"
        return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]

    def healthy(self, rank: int = 0) -> Done:
        """The run went well, and so did the probe."""
        assert self.code == 0, self.err[-3000:]
        assert self.data("probe.error", rank) == []
        assert [entry["error"] for entry in self.attached() if entry["error"]] == []
        return self


class Bench:
    """A folder to work in, and ways to run a script there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = 0

    def write(self, text: str, name: str = "script.py") -> Path:
        """Write a script."""
        path = self.folder / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def environment(
        self, record: Path | None, env: dict[str, str], **bounds: Any
    ) -> dict[str, str]:
        """The variables of a run with or without the probe."""
        result = {k: v for k, v in os.environ.items() if not k.startswith(("SEATRIAL_", "PYTHON"))}
        result |= {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
        result |= {"TOKENIZERS_PARALLELISM": "false"}
        if record is not None:
            (record / "run" / "attach").mkdir(parents=True)
            (record / "control").mkdir()
            result |= {"SEATRIAL_RECORD": str(record), "SEATRIAL_RUN_ID": record.name}
            result["PYTHONPATH"] = str(BOOTSTRAP)
            for name, value in bounds.items():
                result[f"SEATRIAL_{name.upper()}"] = str(value)
        user_path = env.pop("PYTHONPATH", None)
        if user_path:
            ours = result.get("PYTHONPATH")
            result["PYTHONPATH"] = os.pathsep.join(filter(None, [ours, user_path]))
        return result | env

    def start(
        self, command: Sequence[str | Path], probe: bool = True, **options: Any
    ) -> tuple[subprocess.Popen[str], Path]:
        """Start without waiting. ``options``: ``env`` and bounds such as ``max_steps``."""
        self._runs += 1
        record = self.folder / f"record{self._runs}"
        env = dict(options.pop("env", {}))
        environment = self.environment(record if probe else None, env, **options)
        child = subprocess.Popen(
            [str(word) for word in command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return child, record

    def command(self, command: Sequence[str | Path], probe: bool = True, **options: Any) -> Done:
        """Run to the end. A last line of output that is JSON is what the script ``told``."""
        child, record = self.start(command, probe, **options)
        try:
            out, err = child.communicate(timeout=LIMIT_S)
        finally:
            child.kill()
            child.wait()
        done = Done(child.returncode, out, err, record)
        last = out.strip().splitlines()[-1:] or [""]
        if last[0].startswith("{"):
            done.told = json.loads(last[0])
        return done

    def run(self, text: str, *args: str, probe: bool = True, **options: Any) -> Done:
        """Run a script given as text."""
        return self.command([sys.executable, self.write(text), *args], probe, **options)

    def torchrun(self, text: str, *args: str, probe: bool = True, **options: Any) -> Done:
        """Run a script as two ranks on gloo."""
        script = self.write(text)
        launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        launch += ["--standalone", "--no-python", sys.executable]
        return self.command([*launch, script, *args], probe, **options)

    def twins(self, run: str, text: str) -> tuple[Done, Done]:
        """The same script without and with the probe, side by side in folders of their own.

        Args:
            run: ``run`` or ``torchrun``.
            text: the script.
        """

        def one(probe: bool) -> Done:
            folder = self.folder / ("probed" if probe else "bare")
            folder.mkdir()
            done: Done = getattr(Bench(folder), run)(text, probe=probe)
            done.folder = folder
            done.out = done.out.replace(str(folder), "<folder>")
            done.err = done.err.replace(str(folder), "<folder>")
            return done

        with ThreadPoolExecutor(2) as pool:
            bare, probed = pool.map(one, (False, True))
        return bare, probed


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A folder with a blank in its name, to work in."""
    folder = tmp_path / "a bench"
    folder.mkdir()
    return Bench(folder)


@pytest.fixture(scope="session")
def bench_in() -> type[Bench]:
    """For benches in folders of a test's own choice, or shared by the tests of a module."""
    return Bench
