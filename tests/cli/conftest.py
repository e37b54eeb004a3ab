"""Real runs: the installed command line, real supervisors, real torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from seatrial.schemas import load_schema

LOOP = """
import sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(STEPS):
    x = torch.randn(32, 8)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    BEFORE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    AFTER
"""


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The one object on stdout, checked against its schema."""
        value: dict[str, Any] = json.loads(self.out)
        name = value["schema"].partition("/")[0].split(".")[-1]
        jsonschema.validate(value, load_schema(name if name in ("run", "watch") else "command"))
        return value

    def codes(self, severity: str = "error") -> list[str]:
        """Codes of the findings of a severity."""
        return [f["code"] for f in self.result["findings"] if f["severity"] == severity]


@dataclass
class Place:
    """A folder of its own with a state folder of its own."""

    folder: Path
    started: list[subprocess.Popen[str]]

    @staticmethod
    def loop(steps: int = 30, *, before: str = "pass", after: str = "pass", end: str = "") -> str:
        """A plain training loop with something planted in it."""
        text = LOOP.replace("STEPS", str(steps)).replace("BEFORE", before).replace("AFTER", after)
        return text + end + "\n"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the person."""
        return {
            **os.environ,
            "SEATRIAL_DIR": str(self.folder / ".seatrial"),
            "OMP_NUM_THREADS": "1",
        }

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def command(self, *words: str) -> list[str]:
        """The command line of ``seatrial`` with these words."""
        return [sys.executable, "-m", "seatrial", *words]

    def seatrial(
        self, *words: str, env: dict[str, str] | None = None, timeout: float = 120
    ) -> Answer:
        """Run one command to its end."""
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr.replace(_runners_own(done.stderr), ""), done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str, options: tuple[str, ...] = (), **rest: Any) -> Answer:
        """``seatrial run --json OPTIONS -- WORDS``."""
        return self.seatrial("run", "--json", *options, "--", *words, **rest)

    def run_script(self, text: str, *options: str, **rest: Any) -> Answer:
        """Run a Python script under seatrial."""
        self.write("train.py", text)
        return self.run(sys.executable, "train.py", options=options, **rest)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command and leave it running; it is ended with the test."""
        process = subprocess.Popen(
            self.command(*words),
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def record(self) -> Path:
        """The one record there is."""
        (found,) = (self.folder / ".seatrial" / "runs").iterdir()
        return found

    def left_running(self) -> list[int]:
        """Processes that carry the marker of a run of this folder."""
        runs = self.folder / ".seatrial" / "runs"
        names = [f"SEATRIAL_RUN_ID={path.name}".encode() for path in runs.iterdir()]
        left = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                environ = (entry / "environ").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if state != "Z" and any(name in environ for name in names):
                left.append(int(entry.name))
        return left


def _runners_own(text: str) -> str:
    """A traceback that the runner printed itself is no traceback of ours."""
    return "Traceback" if "train.py" in text else "\0"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A fresh folder; whatever still runs in it is ended."""
    made = Place(tmp_path, [])
    yield made
    for process in made.started:
        if process.poll() is None:
            made.seatrial("stop", "--force")
            process.kill()
        process.communicate()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], Any], float], Any]:
    """Poll until something is true; the value it had."""
    import time

    def wait(claim: Callable[[], Any], timeout: float = 60) -> Any:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            value = claim()
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError("it did not become true in time")

    return wait
