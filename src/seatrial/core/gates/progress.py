"""Gates on the pace of a run: the first step, silence, speed, data that ends early."""

from __future__ import annotations

import statistics
from collections import deque
from typing import Deque, Dict, Iterable, Optional, Set, Tuple

from seatrial.core.event import Event
from seatrial.core.event_data import whole
from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import Sample, Trip
from seatrial.core.units import format_duration

_WARM_UP_STEPS = 5  # compilation, first allocation and cold caches are not the run's speed
_MEDIAN_OF = 50
_CPU_WINDOW_S = 5.0
# What shows that the run does something other than an optimizer step.
_PHASES = frozenset({"eval", "save", "resume", "data.batch", "model"})


class FirstStepGate(Gate):
    """No optimizer step has been made for a long time after the start.

    What it watches: seconds from the start of the runner to the first step of any rank.

    Why: a run that still downloads, compiles or waits for another rank costs money and shows
    nothing.

    What it cannot see: why it takes so long, and whether the probe attached at all.
    """

    info = GateInfo("gate.first_step", "performance", "No first step")

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._stepped = False

    def feed(self, event: Event) -> Iterable[Trip]:
        """Remember the first step."""
        self._stepped = self._stepped or event.event == "step"
        return ()

    def tick(self, mono: float, sample: Sample) -> Iterable[Trip]:  # noqa: ARG002 - time is enough
        """Compare the time with the limit."""
        limit, elapsed = self.settings.first_step_s, mono - self.started_mono
        if self._stepped or limit is None or elapsed < limit:
            return ()
        return [
            self.trip(
                f"no optimizer step in the first {format_duration(elapsed)}",
                metric="seconds",
                observed=elapsed,
                expected=limit,
                remedy="See the output: a download, a compilation or a rank that waits for"
                " another. Fetch models and data before the trial.",
            )
        ]


class LoaderExhaustedGate(Gate):
    """The data ended before the planned steps were made.

    What it watches: the end of each training segment, with the steps it made and had planned.

    Why: the schedule never reaches its end, so the learning rate was wrong all along, and the run
    looks like a success.

    What it cannot see: loops that never say how many steps they plan.
    """

    info = GateInfo("gate.loader_exhausted", "inputs", "Data ended early")

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at the end of a segment."""
        if event.event != "train.end" or event.data.get("reason") != "exhausted":
            return ()
        done, planned = whole(event.data, "steps_done"), whole(event.data, "steps_planned")
        if not self.settings.loader or done is None or planned is None or done >= planned:
            return ()
        return [
            self.trip(
                f"the data ended after {done} of {planned} planned steps",
                metric="steps_done",
                observed=done,
                expected=planned,
                step=done,
                rank=event.rank,
                remedy="Repeat the data set, or plan as many steps as it has batches.",
            )
        ]


class _Pace:
    """Seconds between consecutive steps of each process, pauses for other phases left out."""

    def __init__(self, keep: int) -> None:
        self._last: Dict[Tuple[Optional[int], int], float] = {}
        self._paused: Set[Tuple[Optional[int], int]] = set()
        self.intervals: Deque[float] = deque(maxlen=keep)
        self.steps = 0

    def take(self, event: Event) -> None:
        key = (event.rank, event.pid)
        if event.event != "step":
            if event.event in ("eval", "save", "resume", "train.end"):
                self._paused.add(key)
            return
        self.steps += 1
        before = self._last.get(key)
        self._last[key] = event.mono
        if before is not None and key not in self._paused:
            self.intervals.append(max(0.0, event.mono - before))
        self._paused.discard(key)

    @property
    def median_s(self) -> float:
        return statistics.median(self.intervals) if self.intervals else 0.0


class StallGate(Gate):
    """Steps were flowing, and then nothing happened any more.

    What it watches: time since the last step, evaluation, save or batch of any rank, and the CPU
    time of the process tree. It trips when nothing came for several median step times and the
    processes are idle. Between ``train.end`` and the next step it is off.

    Why: a rank that waits for another one that is gone, or a loader whose workers are dead, waits
    for ever.

    What it cannot see: a wait that spins a CPU, as some collectives do; the wall ends that.
    """

    info = GateInfo("gate.stall", "performance", "Stalled")

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._pace = _Pace(_MEDIAN_OF)
        self._training: Set[Tuple[Optional[int], int]] = set()
        self._last_sign = started_mono
        self._step: Optional[int] = None
        self._anchor: Optional[Sample] = None

    def feed(self, event: Event) -> Iterable[Trip]:
        """Every sign of life moves the deadline."""
        self._pace.take(event)
        key = (event.rank, event.pid)
        if event.event == "step":
            self._training.add(key)
            self._step = whole(event.data, "step")
        elif event.event == "train.end":
            self._training.discard(key)
        elif event.event not in _PHASES:
            return ()
        self._last_sign = max(self._last_sign, event.mono)
        return ()

    def tick(self, mono: float, sample: Sample) -> Iterable[Trip]:
        """Compare the silence with the limit."""
        self._notice_work(mono, sample)
        if not self._training or self._pace.steps < self.settings.stall_after_steps:
            return ()
        limit = max(self.settings.stall_floor_s, self.settings.stall_factor * self._pace.median_s)
        silence = mono - self._last_sign
        if silence < limit:
            return ()
        return [
            self.trip(
                f"no step, evaluation or save for {format_duration(silence)} after step"
                f" {self._step}, and the processes are idle; a step took about"
                f" {format_duration(self._pace.median_s)} before",
                metric="seconds",
                observed=silence,
                expected=limit,
                step=self._step,
                remedy="Look for a rank that left early, a dead loader worker, or a wait for the"
                " network.",
            )
        ]

    def _notice_work(self, mono: float, sample: Sample) -> None:
        anchor = self._anchor
        if anchor is None or sample.cpu_seconds < anchor.cpu_seconds:  # a child left the sum
            self._anchor = sample
            return
        elapsed = sample.mono - anchor.mono
        if elapsed < _CPU_WINDOW_S:
            return
        self._anchor = sample
        if (sample.cpu_seconds - anchor.cpu_seconds) / elapsed >= self.settings.stall_busy_cores:
            self._last_sign = max(self._last_sign, mono)


class ThroughputGate(Gate):
    """Steps come more slowly than the trial allows.

    What it watches: the median time between the last steps of a rank, once it has warmed up,
    against ``min_steps_per_second`` (off unless set). Evaluations and saves do not count.

    Why: a configuration that is far too slow is cheaper to find in a trial than on the bill.

    What it cannot see: whether steps are slow because of the machine or because of the setup.
    """

    info = GateInfo("gate.throughput", "performance", "Too slow")

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._paces: Dict[Tuple[Optional[int], int], _Pace] = {}

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at the pace of one rank."""
        floor = self.settings.min_steps_per_second
        if floor is None:
            return ()
        window = max(1, self.settings.throughput_window)
        pace = self._paces.setdefault((event.rank, event.pid), _Pace(window))
        pace.take(event)
        if event.event != "step" or len(pace.intervals) < window:
            return ()
        if pace.steps < window + _WARM_UP_STEPS or pace.median_s * floor <= 1.0:
            return ()
        speed = 1.0 / pace.median_s
        step = whole(event.data, "step")
        return [
            self.trip(
                f"{speed:.3g} steps per second at step {step}; the floor is {floor:.3g}",
                metric="steps_per_second",
                observed=speed,
                expected=floor,
                step=step,
                rank=event.rank,
                remedy="Look at loader workers, sequence lengths and synchronisation on every"
                " step.",
            )
        ]
