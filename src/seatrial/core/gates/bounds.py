"""Gates that enforce the bounds of a run: time, steps, memory, money."""

from __future__ import annotations

from decimal import Decimal
from typing import Iterable

from seatrial.core.event import Event
from seatrial.core.event_data import number, whole
from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.trip import Sample, Trip
from seatrial.core.units import format_duration, format_size

_SECONDS_PER_HOUR = Decimal(3600)
_CENTS = Decimal("0.0001")


class WallGate(Gate):
    """The run took as long as it may.

    What it watches: seconds since the runner was started.

    Why: a trial without a deadline is not a trial.

    What it cannot see: time spent before the runner was started.
    """

    info = GateInfo("gate.wall", "bounds", "Wall clock", stops_ad_hoc=True, bound=True)

    def tick(self, mono: float, sample: Sample) -> Iterable[Trip]:  # noqa: ARG002 - time is enough
        """Compare the time with the deadline."""
        elapsed = mono - self.started_mono
        if elapsed < self.settings.wall_s:
            return ()
        return [
            self.trip(
                f"{format_duration(elapsed)} have passed; the wall bound is"
                f" {format_duration(self.settings.wall_s)}",
                metric="seconds",
                observed=elapsed,
                expected=self.settings.wall_s,
                remedy="Allow more with --wall, or lower --max-steps.",
            )
        ]


class StepCapGate(Gate):
    """The run went beyond its step cap.

    What it watches: the number of update rounds of each process. Reaching the cap is normal and
    the probe ends training there; this gate is for a probe that could not.

    Why: the cap is a bound that the person declared.

    What it cannot see: optimizers that the probe does not see stepping.
    """

    info = GateInfo("gate.step_cap", "bounds", "Step cap", stops_ad_hoc=True, bound=True)

    def feed(self, event: Event) -> Iterable[Trip]:
        """Compare one step's number with the cap."""
        step = whole(event.data, "step") if event.event == "step" else None
        if step is None or step <= self.settings.max_steps:
            return ()
        return [
            self.trip(
                f"step {step} was made; the step cap is {self.settings.max_steps}",
                metric="step",
                observed=step,
                expected=self.settings.max_steps,
                step=step,
                rank=event.rank,
                remedy="Allow more with --max-steps.",
            )
        ]


class MemoryGate(Gate):
    """The process tree uses more memory than it may.

    What it watches: resident memory of all processes of the run together.

    Why: a run that takes the whole machine takes other people's work with it, and the kernel's
    own killer leaves no explanation.

    What it cannot see: memory of other machines, and peaks between two samples.
    """

    info = GateInfo("gate.memory", "bounds", "Host memory", stops_ad_hoc=True, bound=True)

    def tick(self, mono: float, sample: Sample) -> Iterable[Trip]:  # noqa: ARG002 - as sampled
        """Compare the tree's memory with the bound."""
        if sample.rss_bytes <= self.settings.memory_bytes:
            return ()
        return [
            self.trip(
                f"the run uses {format_size(sample.rss_bytes)} of memory; the bound is"
                f" {format_size(self.settings.memory_bytes)}",
                metric="rss_bytes",
                observed=sample.rss_bytes,
                expected=self.settings.memory_bytes,
                remedy="Allow more with --memory, or use a smaller batch or fewer loader workers.",
            )
        ]


class DeviceMemoryGate(Gate):
    """A step used more accelerator memory than it may.

    What it watches: ``device_bytes`` of each step, against ``device_memory_bytes`` (off unless
    set).

    Why: a setup that fits by a hair in a short trial runs out of memory on the first long batch.

    What it cannot see: memory that other libraries take outside torch's allocator.
    """

    info = GateInfo("gate.device_memory", "bounds", "Accelerator memory")

    def feed(self, event: Event) -> Iterable[Trip]:
        """Compare one step's accelerator memory with the bound."""
        limit = self.settings.device_memory_bytes
        if limit is None or event.event != "step":
            return ()
        used = number(event.data, "device_bytes")
        if used is None or not used > limit:
            return ()
        step = whole(event.data, "step")
        return [
            self.trip(
                f"step {step} used {format_size(used)} of accelerator memory; the bound is"
                f" {format_size(limit)}",
                metric="device_bytes",
                observed=used,
                expected=limit,
                step=step,
                rank=event.rank,
                remedy="Use a smaller batch, shorter sequences or gradient checkpointing.",
            )
        ]


class MoneyGate(Gate):
    """The run has cost as much as it may.

    What it watches: price per hour times the time since the start, against the money bound. Off
    when the engine costs nothing.

    Why: nobody should learn the price of a trial from the bill.

    What it cannot see: storage, transfer, minimum charges and rounding by the provider.
    """

    info = GateInfo("gate.money", "bounds", "Money", stops_ad_hoc=True, bound=True)

    def tick(self, mono: float, sample: Sample) -> Iterable[Trip]:  # noqa: ARG002 - time is enough
        """Compare what was spent with the cap."""
        cap, price = self.settings.money, self.settings.price_per_hour
        if cap is None or price <= 0:
            return ()
        spent = price * Decimal(repr(mono - self.started_mono)) / _SECONDS_PER_HOUR
        if spent < cap:
            return ()
        currency = self.settings.currency
        return [
            self.trip(
                f"the run has cost about {spent.quantize(_CENTS)} {currency};"
                f" the cap is {cap} {currency}",
                metric="money",
                observed=str(spent.quantize(_CENTS)),
                expected=str(cap),
                remedy="Raise [bounds] money in the trial, or lower max_steps.",
            )
        ]
