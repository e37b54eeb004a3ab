"""Gates on checkpoints: one that fails, and one that never comes."""

from __future__ import annotations

from typing import Iterable

from seatrial.core.event import Event
from seatrial.core.event_data import text, whole
from seatrial.core.gates.base import Gate, GateInfo
from seatrial.core.gates.settings import GateSettings
from seatrial.core.trip import Trip


class BadCheckpointGate(Gate):
    """A save ended in an error.

    What it watches: the error of each save.

    Why: a long run without a usable checkpoint is lost with its first interruption.

    What it cannot see: a checkpoint that was written and cannot be loaded.
    """

    info = GateInfo("gate.bad_checkpoint", "checkpoint", "Save failed")

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at one save."""
        error = event.data.get("error") if event.event == "save" else None
        if not error:
            return ()
        step, path = whole(event.data, "step"), text(event.data, "path")
        return [
            self.trip(
                f"saving {path or 'a checkpoint'} failed at step {step}: {error}",
                metric="save",
                observed=str(error),
                expected="no error",
                step=step,
                rank=event.rank,
                remedy="Check free space and permissions of the output folder.",
            )
        ]


class NoCheckpointGate(Gate):
    """No good checkpoint was saved by the step at which there should be one.

    What it watches: saves without an error, against ``checkpoint_by_step`` (off unless set).

    Why: the save condition may never be true (an interval longer than the run, a metric that is
    never better), and that shows only when the run is over.

    What it cannot see: checkpoints that other functions write than those of torch and
    safetensors.
    """

    info = GateInfo("gate.no_checkpoint", "checkpoint", "No checkpoint")

    def __init__(self, settings: GateSettings, started_mono: float) -> None:
        super().__init__(settings, started_mono)
        self._saved = False

    def feed(self, event: Event) -> Iterable[Trip]:
        """Look at one step or save."""
        if event.event == "save" and not event.data.get("error"):
            self._saved = True
        limit = self.settings.checkpoint_by_step
        step = whole(event.data, "step") if event.event == "step" else None
        # The save of a step comes after its step event: judge when the next step begins.
        if limit is None or self._saved or step is None or step <= limit:
            return ()
        return [
            self.trip(
                f"no good checkpoint by step {limit}",
                metric="save",
                observed=0,
                expected=f"a save by step {limit}",
                step=step,
                remedy="Check the save interval and the condition under which the script saves.",
            )
        ]
