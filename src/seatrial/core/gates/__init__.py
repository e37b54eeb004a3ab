"""Checks on a live run: pure state machines, fed events and samples, answering with trips."""

from __future__ import annotations

from typing import Tuple, Type

from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.gates.bounds import (
    DeviceMemoryGate,
    MemoryGate,
    MoneyGate,
    StepCapGate,
    WallGate,
)
from seatrial.core.gates.checkpoints import BadCheckpointGate, NoCheckpointGate
from seatrial.core.gates.divergence import DivergenceGate
from seatrial.core.gates.learning import ConstantLossGate, VanishedGradientGate
from seatrial.core.gates.non_finite import NonFiniteGradientGate, NonFiniteLossGate
from seatrial.core.gates.progress import (
    FirstStepGate,
    LoaderExhaustedGate,
    StallGate,
    ThroughputGate,
)
from seatrial.core.gates.project import ProjectGate

__all__ = ["GATES", "Gate", "GateInfo"]

# The order in which trips of one moment are reported: causes first, bounds last.
GATES: Tuple[Type[Gate], ...] = (
    NonFiniteLossGate,
    NonFiniteGradientGate,
    VanishedGradientGate,
    ConstantLossGate,
    DivergenceGate,
    LoaderExhaustedGate,
    BadCheckpointGate,
    NoCheckpointGate,
    ProjectGate,
    FirstStepGate,
    StallGate,
    ThroughputGate,
    DeviceMemoryGate,
    StepCapGate,
    MemoryGate,
    MoneyGate,
    WallGate,
)
