"""The probe's state in one process: settings, writer, counters, and what belongs to a round."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from seatrial.core.redaction import Redactor, from_environment
from seatrial.probe.attach import Attachment
from seatrial.probe.faults import Faults
from seatrial.probe.rounds import Rounds
from seatrial.probe.settings import Settings
from seatrial.probe.stopping import StopControl
from seatrial.probe.writer import EventWriter

_MAX_HELD = 16
_current: List[Session] = []


def current() -> Optional[Session]:
    """The session of this process, None before torch was imported or outside a run."""
    return _current[0] if _current else None


class Session:
    """Everything the hooks share.

    Attributes:
        busy: more than zero while a root module, a backward pass or a save of ours runs; inner
            calls are then not looked at.
        in_backward: more than zero inside ``torch.autograd.backward``.
        steps_seen: optimizer steps of any kind, to notice one that a scaler left out.
        segment_planned: plan of the running ``train()`` call.
        planned: sum of the plans of all ``train()`` calls, None when there was none.
    """

    def __init__(self, settings: Settings, attachment: Attachment) -> None:
        self.settings = settings
        self.attachment = attachment
        self.rounds = Rounds()
        self.writer = EventWriter(settings.record, self._rank, self.redactor)
        self.faults = Faults(self._report_fault)
        self.stop = StopControl(settings, self.is_alone)
        self.busy = 0
        self.in_backward = 0
        self.planned: Optional[int] = None
        self.segment_planned: Optional[int] = None
        self.best: Optional[Dict[str, Any]] = None
        self.skipped = 0
        self.steps_seen = 0
        self.ended = False
        self._is_fork = False
        self._held: List[Tuple[str, Dict[str, Any]]] = []
        self._redactor: Optional[Redactor] = None
        self.writer.on_open = self._opened
        self.env_summary: Callable[[], Dict[str, Any]] = dict
        self.is_data_worker: Callable[[], bool] = lambda: False
        self.distributed_rank: Callable[[], Optional[int]] = lambda: None
        self.distributed_world: Callable[[], int] = lambda: 1
        self.leave_group: Callable[[], None] = lambda: None
        _current[:] = [self]
        os.register_at_fork(after_in_child=self._forked)

    def redactor(self) -> Redactor:
        """Knows the secret values of the environment at the start and now."""
        if self._redactor is None:
            both = {**self.settings.environ, **{f"{k} (now)": v for k, v in os.environ.items()}}
            names = set(self.settings.secrets)
            names.update(f"{name} (now)" for name in self.settings.secrets)
            self._redactor = from_environment(both, names, sys.argv)
        return self._redactor

    def _rank(self) -> int:
        try:
            return int(os.environ["RANK"])
        except (KeyError, ValueError):
            return self.distributed_rank() or 0

    def is_alone(self) -> bool:
        """Whether no other rank steps together with this one."""
        try:
            if int(os.environ.get("WORLD_SIZE", "1")) > 1:
                return False
        except ValueError:
            pass
        return self.distributed_world() <= 1

    def _forked(self) -> None:
        """In a forked child: data workers must stay silent; a child that trains may speak.

        A child whose parent already writes stays silent for good.
        """
        if self.writer.is_open:
            self.writer.forget()
        self._is_fork = True
        self.busy = 0
        self.in_backward = 0
        self._held = []
        self.attachment.forked()

    def may_speak(self, stepping: bool = False) -> bool:
        """Whether this process may write events; only a step wakes a forked child up."""
        if self.writer.is_open:
            return True
        if self.writer.is_broken or self.is_data_worker():
            return False
        if self._is_fork and stepping:
            self._is_fork = False
        return not self._is_fork

    def write(self, name: str, data: Dict[str, Any], plain: bool = False) -> None:
        """Append an event, if this process may speak.

        A save alone makes no rank: a launcher or a script that prepares data saves too. Such events
        wait for the first sign of training.

        Args:
            name: of the event.
            data: its fields.
            plain: nothing in ``data`` can hold a secret.
        """
        if not self.may_speak(stepping=name == "step"):
            return
        if name == "save" and not self.writer.is_open:
            self._hold(name, data)
            return
        self.writer.write(name, data, plain)

    def _hold(self, name: str, data: Dict[str, Any]) -> None:
        self._held = [*self._held[1 - _MAX_HELD :], (name, data)]

    def _opened(self) -> None:
        """The first event is about to be written: this process is a rank."""
        argv = self.redactor().argv([str(item) for item in sys.argv])
        self.attachment.update(role="rank", argv=argv)
        summary = self.faults.guard("env", self.env_summary, {})()
        self.writer.write("env", summary)
        for name, data in self._held:
            self.writer.write(name, data)
        self._held = []

    def _report_fault(self, where: str, error: str, count: int) -> None:
        if self.writer.is_open:
            self.writer.write("probe.error", {"where": where, "error": error, "count": count})
        else:
            self._hold("probe.error", {"where": where, "error": error, "count": count})
            text = self.redactor().text(f"{where}: {error}")
            self.attachment.update(error=text)

    def end_segment(
        self,
        reason: str,
        planned: Optional[int] = None,
        best: Optional[Dict[str, Any]] = None,
    ) -> None:
        """Write ``train.end`` for the current segment."""
        if best is not None:
            self.best = best
        self.write(
            "train.end",
            {
                "scope": "segment",
                "segment": self.rounds.segment,
                "steps_done": self.rounds.steps_in_segment,
                "steps_planned": planned,
                "reason": reason,
                "best": best,
                "exception": None,
            },
        )

    def end_process(self, reason: str, exception: Optional[Dict[str, Any]] = None) -> None:
        """Write the last event of this process, once; nothing when it never was a rank."""
        if self.ended or not self.writer.is_open:
            return
        self.ended = True
        self._redactor = None  # the script may have set other secrets since
        # A bound that is met by the plan's own last step cut nothing short.
        whole = self.planned is not None and self.rounds.step >= self.planned
        self.writer.write(
            "train.end",
            {
                "scope": "process",
                "segment": self.rounds.segment,
                "steps_done": self.rounds.step,
                "steps_planned": self.planned,
                "reason": reason if whole else self.stop.reason or reason,
                "best": self.best,
                "exception": exception,
                "skipped": self.skipped,
                "mono_end": time.monotonic(),
            },
        )
