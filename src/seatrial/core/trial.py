"""A trial and its bounds, as values. Parsing ``trial.toml`` is the readers' work."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Mapping, Optional, Tuple, Union

from seatrial.core.units import Money

# Defaults of an ad-hoc run (contract: "Defaults of an ad-hoc run").
AD_HOC_MAX_STEPS = 200
AD_HOC_WALL_S = 15 * 60.0
AD_HOC_MEMORY_SHARE = 0.8
EXTRA_LEGS_S = 120.0

GATE_OPS = ("<", "<=", ">", ">=", "==", "!=")
INPUT_ROLES = (
    "train",
    "validation",
    "heldout",
    "model",
    "tokenizer",
    "prompt",
    "validator",
    "other",
)

Value = Union[bool, int, float, str]


@dataclass(frozen=True)
class Bounds:
    """Step, time, memory and money caps. A trial without bounds is refused.

    ``sources`` names where each bound came from: ``default``, ``trial`` or ``flag``. A default wall
    that is reached while steps complete is normal (``capped``); a declared one is a timeout.
    """

    max_steps: int
    wall_s: float
    memory_bytes: int
    money: Money = field(default_factory=lambda: Money(Decimal(0)))
    sources: Mapping[str, str] = field(default_factory=dict)

    def is_default(self, name: str) -> bool:
        """Whether the bound was left to its default."""
        return self.sources.get(name, "default") == "default"


@dataclass(frozen=True)
class GateSpec:
    """A gate of the project's own on an emitted metric.

    It trips when ``metric op value`` does not hold for the mean of the last ``window`` values, from
    ``from_step`` on.
    """

    metric: str
    op: str
    value: float
    from_step: int = 0
    window: int = 1


@dataclass(frozen=True)
class InputSpec:
    """One input of a trial: a path or a Hub id."""

    id: str
    role: str
    path: Optional[str] = None
    hub: Optional[str] = None
    revision: Optional[str] = None
    split: Optional[str] = None


@dataclass(frozen=True)
class RunnerSpec:
    """The user's own script and its exact command. Secrets are names, never values."""

    command: Tuple[str, ...]
    dry_run: Tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Tuple[str, ...] = ()
    cwd: Optional[str] = None


@dataclass(frozen=True)
class OutputSpec:
    """Where the run's own artefacts go."""

    dir: Optional[str] = None
    hub: Optional[str] = None
    private: bool = True


@dataclass(frozen=True)
class HeldoutGate:
    """A threshold over one field of the validator's results."""

    field: str
    op: str
    value: Value


@dataclass(frozen=True)
class HeldoutSpec:
    """The held-out evaluation of a trial."""

    cases: str
    prompt: Optional[str] = None
    validator: Optional[str] = None
    normalize: Optional[str] = None
    loader: Optional[str] = None
    max_new_tokens: Optional[int] = None
    gates: Tuple[HeldoutGate, ...] = ()


@dataclass(frozen=True)
class Trial:
    """The smallest experiment that can disprove a setup.

    ``ad_hoc`` is true for ``seatrial run -- CMD``: safe defaults, nothing required but that the
    probe attached and saw an optimizer step.
    """

    name: str
    runner: RunnerSpec
    bounds: Bounds
    hypothesis: str = ""
    seed: Optional[int] = None
    inputs: Tuple[InputSpec, ...] = ()
    output: OutputSpec = field(default_factory=OutputSpec)
    gates: Tuple[GateSpec, ...] = ()
    heldout: Optional[HeldoutSpec] = None
    require: Tuple[str, ...] = ()
    disable: Tuple[str, ...] = ()
    resume_command: Tuple[str, ...] = ()
    engine: str = "local"
    rehearse: bool = False
    ad_hoc: bool = False
    file: Optional[str] = None
