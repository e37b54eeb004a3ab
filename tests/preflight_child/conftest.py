"""Real children in this interpreter."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.child import Ask
from seatrial.core.trial import Bounds, HeldoutSpec, InputSpec, OutputSpec, RunnerSpec, Trial
from seatrial.core.units import Money
from seatrial.preflight.ask_child import Asked
from seatrial.process.child import run_child


@pytest.fixture
def ask() -> Ask:
    """Runs a capped child for real."""
    return run_child


@pytest.fixture
def how(tmp_path: Path) -> Asked:
    """This interpreter, the test's folder, this environment."""
    return Asked(sys.executable, str(tmp_path), dict(os.environ))


@pytest.fixture
def make_trial(tmp_path: Path) -> Callable[..., Trial]:
    """A trial of the test's folder; ``inputs`` are pairs of role and file name."""

    def make(
        *inputs: tuple[str, str],
        command: tuple[str, ...] = (sys.executable, "train.py"),
        cases: str | None = None,
        **rest: Any,
    ) -> Trial:
        runner = {
            "dry_run": rest.pop("dry_run", ()),
            "secrets": rest.pop("secrets", ()),
            "cwd": str(tmp_path),
        }
        return Trial(
            name="t",
            runner=RunnerSpec(command=command, **runner),
            bounds=Bounds(
                10,
                rest.pop("wall_s", 60.0),
                rest.pop("memory_bytes", 2**30),
                Money(Decimal(0)),
            ),
            inputs=tuple(
                InputSpec(f"{role}-{n}", role, path=str(tmp_path / name))
                for n, (role, name) in enumerate(inputs)
            )
            + rest.pop("more", ()),
            heldout=HeldoutSpec(cases=str(tmp_path / cases)) if cases else None,
            output=rest.pop("output", OutputSpec()),
            file=str(tmp_path / "trial.toml"),
            **rest,
        )

    return make
