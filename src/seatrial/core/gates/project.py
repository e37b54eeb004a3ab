"""Gates of the project's own: a comparison on any emitted metric."""

from __future__ import annotations

import math
import operator
from collections import deque
from typing import Callable, Deque, Dict, Iterable, List, Mapping, Optional, Tuple

from seatrial.core.event import Event
from seatrial.core.event_data import as_number, number, rates, whole
from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trial import GateSpec
from seatrial.core.trip import Trip

_OPS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_STEP_METRICS = frozenset(
    {
        "loss_raw",
        "lr",
        "grad_norm",
        "tokens",
        "supervised_tokens",
        "seconds",
        "rss_bytes",
        "device_bytes",
    }
)
# The loss of a step has one name in our events and another in everybody's head.
_ALIASES = {"loss": "loss_raw"}


def metric_names(metric: str) -> Tuple[str, ...]:
    """The names under which a metric may be emitted, the exact one first.

    ``loss`` is the raw loss of a step; ``accuracy`` may be emitted as ``eval_accuracy`` and the
    other way round. Names with a slash, such as ``safety/refusal_rate``, are taken as they are.
    """
    exact = _ALIASES.get(metric, metric)
    if exact in _STEP_METRICS:
        return (exact,)
    other = exact[len("eval_") :] if exact.startswith("eval_") else f"eval_{exact}"
    return (exact,) if other in _STEP_METRICS or other in _ALIASES else (exact, other)


def holds(op: str, value: float, limit: float) -> bool:
    """Whether ``value op limit`` holds; nan never does, not even ``!=``.

    Raises:
        KeyError: ``op`` is none of ``core.trial.GATE_OPS``.
    """
    return not math.isnan(value) and _OPS[op](value, limit)


class _Watch:
    """One declared gate: a window of values for each rank."""

    def __init__(self, spec: GateSpec) -> None:
        self.spec = spec
        self.names = metric_names(spec.metric)
        self._windows: Dict[Tuple[Optional[int], str], Deque[float]] = {}
        self._last: Dict[Tuple[Optional[int], str], Tuple[int, Optional[int], float]] = {}

    def mean(self, event: Event, name: str, value: float) -> Optional[float]:
        """Take one value; the mean of the window once it is full."""
        key = (event.rank, name)
        mark = (event.pid, whole(event.data, "step"), value)
        if event.event == "eval" and self._last.get(key) == mark:
            return None  # a trainer reports one evaluation through two of its hooks
        self._last[key] = mark
        window = self._windows.setdefault(key, deque(maxlen=max(1, self.spec.window)))
        window.append(value)
        if len(window) < max(1, self.spec.window):
            return None
        return sum(window) / len(window)

    def sees(self, event: Event) -> Optional[Tuple[str, float]]:
        """The value of the metric in this event, under its best name; None without one."""
        for index, name in enumerate(self.names):
            value = _value(event, name)
            if value is None:
                continue
            exact_known = any((event.rank, other) in self._last for other in self.names[:index])
            return None if exact_known else (name, value)
        return None


def _value(event: Event, name: str) -> Optional[float]:
    if event.event == "step" and name in _STEP_METRICS:
        if name == "lr":
            known = rates(event.data)
            return known[0] if known else None
        return number(event.data, name)
    if event.event == "eval" and name not in _STEP_METRICS:
        metrics = event.data.get("metrics")
        return as_number(metrics.get(name)) if isinstance(metrics, dict) else None
    return None


class ProjectGate(Gate):
    """A metric of the project does not hold what its gate demands.

    What it watches: any step field, evaluation metric, emitted or printed metric that a
    ``[[gate]]`` of the trial names; the mean of its last ``window`` values, once there are so
    many, from ``from_step`` on. nan violates every comparison.

    Why: only the project knows which accuracy, refusal rate or speed makes a longer run pointless.

    What it cannot see: a metric that is never emitted (that is listed as not judged), and values
    between two evaluations.
    """

    info = GateInfo("gate.project", "bounds", "Gate of the project", stops_ad_hoc=True)

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._watches = [_Watch(spec) for spec in settings.project]
        self._furthest: Dict[Tuple[Optional[int], int], int] = {}

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look for every declared metric in one event."""
        if event.event not in ("step", "eval"):
            return ()
        step = self._step(event)
        return [trip for watch in self._watches for trip in self._judge(watch, event, step)]

    def _step(self, event: Event) -> int:
        key = (event.rank, event.pid)
        step = whole(event.data, "step")
        if step is None:  # an emitted metric belongs to the last step that was made
            return self._furthest.get(key, max(self._furthest.values(), default=0))
        self._furthest[key] = max(step, self._furthest.get(key, 0))
        return step

    def _judge(self, watch: _Watch, event: Event, step: int) -> List[Trip]:
        spec = watch.spec
        seen = watch.sees(event)
        if seen is None or step < spec.from_step:
            return []
        mean = watch.mean(event, *seen)
        if mean is None or holds(spec.op, mean, spec.value):
            return []
        what = seen[0] if spec.window <= 1 else f"the mean of the last {spec.window} {seen[0]}"
        return [
            self.trip(
                f"{what} is {mean:.6g} at step {step}; the gate demands {spec.op} {spec.value:.6g}",
                metric=f"{spec.metric} {spec.op} {spec.value:g}",
                observed=mean,
                expected=f"{spec.op} {spec.value:g}",
                step=step,
                rank=event.rank,
                remedy=f"Look at the curve of {seen[0]}; change the setup, or the gate if it asks"
                " for too much.",
            )
        ]
