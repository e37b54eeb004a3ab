"""Checks on a live run: pure state machines, fed events and samples, answering with trips."""

from __future__ import annotations

from typing import Tuple, Type

from seatrial.core.gates.base import Gate
from seatrial.core.gates.bounds import (
    DeviceMemoryGate,
    MemoryGate,
    MoneyGate,
    StepCapGate,
    WallGate,
)
from seatrial.core.gates.non_finite import NonFiniteGradientGate, NonFiniteLossGate
from seatrial.core.gates.project import ProjectGate

# The order in which trips of one moment are reported: causes first, bounds last.
GATES: Tuple[Type[Gate], ...] = (
    NonFiniteLossGate,
    NonFiniteGradientGate,
    ProjectGate,
    StepCapGate,
    MemoryGate,
    DeviceMemoryGate,
    MoneyGate,
    WallGate,
)
