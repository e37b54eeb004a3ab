"""The gate on a loss that runs away."""

from __future__ import annotations

import math
import statistics
from collections import deque
from typing import Deque, Dict, Iterable, List, Optional, Set, Tuple

from seatrial.core.event import Event
from seatrial.core.event_data import Lane, lane, number, whole
from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import Trip

_START_STEPS = 5
_SMOOTH = 10
_STILL_FALLING = 0.9  # second half of a window below this share of the first: it recovers
_LEARNT_SHARE = 0.4  # what must have been learnt before it can be lost
# Below these a start counts as this much: twice nearly nothing is still nearly nothing.
_SMALLEST_START = 0.5
_SMALLEST_START_BLOWUP = 0.05


class _Level:
    """One series of losses: where it began, how low it came, how it stands now.

    ``limit`` is what the rule that was looked at last compared with.
    """

    def __init__(self, settings: GateSettings) -> None:
        self._settings = settings
        self._start: List[float] = []
        self._best = math.inf
        self._signed = False
        self.limit = math.inf
        self._recent: Deque[float] = deque(
            maxlen=max(
                settings.divergence_steps,
                settings.divergence_far_steps,
                settings.divergence_lost_steps,
                _SMOOTH,
            )
        )

    def take(self, loss: float) -> Optional[str]:
        """Take one loss; the words for what is wrong with the series, None while nothing is."""
        self._signed = self._signed or loss < 0
        if len(self._start) < _START_STEPS:
            self._start.append(loss)
            return None
        self._recent.append(loss)
        if len(self._recent) >= _SMOOTH:
            self._best = min(self._best, statistics.median(list(self._recent)[-_SMOOTH:]))
        if self._blown_up():
            return f"more than {self._settings.divergence_blowup:g} times where it began"
        if self._signed:  # rewards and advantages go below zero; ratios mean nothing there
            return None
        if self._risen():
            return (
                f"more than {self._settings.divergence_factor:g} times where it began for"
                f" {self._settings.divergence_steps} steps, and not falling"
            )
        if self._far_above_the_first():
            return f"mostly more than {self._settings.divergence_far:g} times the first one"
        return "back where it began after it had fallen" if self._lost() else None

    @property
    def first(self) -> float:
        return self._start[0] if self._start else 0.0

    @property
    def start(self) -> float:
        return max(map(abs, self._start), default=0.0)

    def _last(self, count: int) -> List[float]:
        return list(self._recent)[-count:] if len(self._recent) >= count else []

    def _blown_up(self) -> bool:
        floor = 1.0 if self._signed else _SMALLEST_START_BLOWUP
        limit = self.limit = self._settings.divergence_blowup * max(self.start, floor)
        last = self._last(self._settings.divergence_blowup_steps)
        return bool(last) and all(abs(loss) > limit for loss in last)

    def _risen(self) -> bool:
        limit = self.limit = self._settings.divergence_factor * max(self.start, _SMALLEST_START)
        last = self._last(self._settings.divergence_steps)
        return bool(last) and min(last) > limit and not _falls(last)

    def _far_above_the_first(self) -> bool:
        # The first loss is the only one from before any update: a rate that is far too high
        # ruins the second already, and leaves a series too ragged for the rule above.
        limit = self.limit = self._settings.divergence_far * max(self.first, _SMALLEST_START)
        last = self._last(self._settings.divergence_far_steps)
        return bool(last) and statistics.median(last) > limit and not _falls(last)

    def _lost(self) -> bool:
        start = statistics.median(self._start)
        gain = start - self._best
        if not gain > _LEARNT_SHARE * max(start, _SMALLEST_START):
            return False
        limit = self.limit = self._best + self._settings.divergence_lost_share * gain
        last = self._last(self._settings.divergence_lost_steps)
        return bool(last) and min(last) > limit and not _falls(last)


def _falls(losses: List[float]) -> bool:
    half = len(losses) // 2
    return statistics.median(losses[half:]) < _STILL_FALLING * statistics.median(losses[:half])


class _Series:
    """The losses of one segment, and the same per token while tokens are known."""

    def __init__(self, settings: GateSettings) -> None:
        self.loss = _Level(settings)
        self._per_token: Optional[_Level] = _Level(settings)
        self._first_tokens = 0.0

    def take(self, loss: float, tokens: Optional[float]) -> Optional[str]:
        """What is wrong with the loss, if its rise is not that of longer batches."""
        wrong = self.loss.take(loss)
        if tokens is None or not tokens > 0:
            self._per_token = None
        if self._per_token is None or tokens is None:
            return wrong
        # Per token, in units of the first batch, so that the smallest start means the same.
        self._first_tokens = self._first_tokens or tokens
        also = self._per_token.take(loss * self._first_tokens / tokens)
        return wrong if also else None


class DivergenceGate(Gate):
    """The loss runs away from where it began and does not come back.

    What it watches: the raw loss of each step against the largest of the first five. It trips
    when three steps are 100 times above; when twenty in a row are more than twice above and no
    longer falling; when the median of thirty is five times the very first loss; or when thirty in
    a row have lost 90% of what had been learnt. A rise that comes with longer batches alone (a
    summed loss) does not count. Losses below zero are judged by the first rule only, and two
    optimizers that take turns (a GAN) not at all.

    Why: a learning rate that is too high, a broken schedule or bad data, early enough to save the
    rest of the run.

    What it cannot see: a divergence that stays below twice the start; losses that start near
    zero; and value functions whose loss rightly grows with the rewards (switch it off there with
    ``[checks] disable = ["gate.divergence"]``).
    """

    info = GateInfo("gate.divergence", "optimizer", "Loss diverges")

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._series: Dict[Lane, _Series] = {}
        self._turns: Dict[Tuple[Optional[int], int], List[str]] = {}
        self._taking_turns: Set[Tuple[Optional[int], int]] = set()

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at one step's raw loss."""
        loss = number(event.data, "loss_raw") if event.event == "step" else None
        if loss is None or not math.isfinite(loss) or self._takes_turns(event):
            return ()
        series = self._series.setdefault(lane(event), _Series(self.settings))
        wrong = series.take(loss, number(event.data, "tokens"))
        if wrong is None:
            return ()
        step = whole(event.data, "step")
        return [
            self.trip(
                f"the loss is {loss:.6g} at step {step}, and it is {wrong}; the first was"
                f" {series.loss.first:.6g}, the largest of the first five {series.loss.start:.6g}",
                metric="loss_raw",
                observed=loss,
                expected=f"at most {series.loss.limit:.6g}",
                step=step,
                rank=event.rank,
                remedy="Lower the learning rate, lengthen the warmup, clip the gradient, and look"
                " at the data from where it rises. Where it rises by design, switch this gate off"
                ' in a trial: [checks] disable = ["gate.divergence"].',
            )
        ]

    def _takes_turns(self, event: Event) -> bool:
        """Whether several optimizers of this process step in turn, each after its own loss.

        Two optimizers that share one loss (one for matrices, one for the rest) do not: the second
        of a round has no loss of its own and never comes here.
        """
        key = (event.rank, event.pid)
        name = str(event.data.get("optimizer"))
        turns = self._turns.setdefault(key, [])
        if not turns or turns[-1] != name:
            if name in turns:
                self._taking_turns.add(key)
            else:
                turns.append(name)
        return key in self._taking_turns
