"""The supervisor's loop: read events, feed gates, sample, stop when something says so."""

from __future__ import annotations

import os
import sys
import time
import traceback
from typing import Iterable, Optional, Sequence, Tuple

from seatrial.core.event import Event
from seatrial.core.gates.board import GateBoard
from seatrial.core.launch import Ended, Heartbeat
from seatrial.core.plan import Plan
from seatrial.core.trip import STOP, Sample, Trip
from seatrial.supervisor.activity import Activity
from seatrial.supervisor.attach import AttachWatch
from seatrial.supervisor.children import Children
from seatrial.supervisor.exit_status import ExitStatus
from seatrial.supervisor.leaving import LINGER_S, HangWatch, linger_limit_s
from seatrial.supervisor.oom import has_risen, oom_kills
from seatrial.supervisor.output import OutputPump
from seatrial.supervisor.progress import Progress
from seatrial.supervisor.record import Record
from seatrial.supervisor.record_files import utc_now
from seatrial.supervisor.requests import Requests
from seatrial.supervisor.spawn import Runner
from seatrial.supervisor.stopping import Stopping
from seatrial.supervisor.tail import EventTail
from seatrial.supervisor.tree import RunTree, start_ticks_of
from seatrial.supervisor.vitals import Vitals, largest_dead_bytes

POLL_S = 0.1
_ATTACH_QUIET_S = 10.0
_ATTACH_SAY_S = 45.0
_AHEAD_STEPS = 2
_MEMORY_ASK_S = 3.0
_SLOW_STEP_LIMIT_S = 60.0
_MAX_ORPHANS_TOLD = 50
_REASON_OF_GATE = {"gate.wall": "wall", "gate.memory": "memory", "gate.step_cap": "step_cap"}


class Supervision:
    """One run from its start to an empty process tree.

    Args:
        plan: of the run.
        record: to write to.
        runner: as it was started.
        started_mono: monotonic seconds of the start.
        board: the gates.
        tree: finds the run's processes.
        pumps: of the runner's output.
        attach: collects hand-shakes.
        requests: to stop.
        guard: pid of our parent when we were forked; it may have died since.
    """

    def __init__(
        self,
        plan: Plan,
        record: Record,
        runner: Runner,
        started_mono: float,
        board: GateBoard,
        tree: RunTree,
        pumps: Sequence[OutputPump],
        attach: AttachWatch,
        requests: Requests,
        guard: int,
    ) -> None:
        self._plan = plan
        self._record = record
        self._started = started_mono
        self._board = board
        self._pumps = pumps
        self._attach = attach
        self._requests = requests
        self._guard = guard
        self._own_ticks = start_ticks_of(os.getpid())
        self._children = Children(runner.pid)
        self._tail = EventTail(record.layout)
        self._progress = Progress()
        self._activity = Activity(started_mono)
        self._vitals = Vitals(tree, plan.memory_bytes)
        self._tree = tree
        self._hang = HangWatch(float(plan.gates.get("hung_after_s", 30.0)))
        self._stopping = Stopping(record, tree, plan.grace_s)
        self._oom_before = oom_kills()
        self._runner_left: Optional[float] = None
        self._next_sample = 0.0
        self._next_line = 0.0
        self._next_second = 0.0
        self._attach_said = ""
        self._gate_has_failed = False
        self._orphans_told = 0

    def run(self) -> Ended:
        """Supervise until nothing of the run is left; what is to be written as its end."""
        while True:
            now = time.monotonic()
            self._collect(now)
            self._feed(self._tail.poll(), now)
            self._take_output()
            if now >= self._next_sample:
                self._sample()
            self._look_for_requests(now)
            self._look_for_faults(now)
            self._look_for_leaving(now)
            if now >= self._next_second:
                self._next_second = now + 1.0
                self._each_second(now)
            left = self._stopping.step(
                now, self._progress.has_obeyed(), self._children.runner_status is None
            )
            if left or self._is_over():
                return self._finish(left or ())
            time.sleep(POLL_S)

    def heartbeat(self, state: str) -> None:
        """Say that we are alive, and what is seen."""
        self._record.heartbeat(
            Heartbeat(
                t=utc_now(),
                mono=time.monotonic(),
                supervisor_pid=os.getpid(),
                supervisor_start_ticks=self._own_ticks,
                state=state,
                step=self._progress.furthest,
                planned=self._progress.planned,
                loss=self._progress.loss,
                rss_bytes=sum(process.rss_bytes for process in self._vitals.members),
                ranks=self._progress.ranks,
                probe=self._attach.report(ended=state in ("finalizing", "ended")),
            )
        )

    def _collect(self, now: float) -> None:
        before = self._children.runner_status
        for pid, orphan in self._children.collect().items():
            if not orphan.is_success and self._orphans_told < _MAX_ORPHANS_TOLD:
                self._orphans_told += 1
                self._record.state(
                    "orphan_left", f"process {pid} {orphan}", pid=pid, **orphan._asdict()
                )
        status = self._children.runner_status
        if before is None and status is not None:
            self._runner_left = now
            self._record.state("runner_left", f"the runner {status}", **status._asdict())

    def _feed(self, events: Iterable[Event], now: float) -> None:
        for event in events:
            self._activity.note(now)
            self._progress.feed(event)
            self._judge(event, now)

    def _take_output(self) -> None:
        for pump in self._pumps:
            if pump.last_mono is not None:
                self._activity.note(pump.last_mono)
            for line in pump.take_metrics():
                now = time.monotonic()
                self._judge(self._record.metrics(line.metrics, line.step, now), now)

    def _judge(self, event: Event, now: float) -> None:
        try:
            trips = self._board.feed(event)
        except Exception as error:  # noqa: BLE001 - a fault in a gate must not end a training
            self._gate_failed(error)
            return
        self._answer(trips, now)

    def _gate_failed(self, error: Exception) -> None:
        if not self._gate_has_failed:
            self._gate_has_failed = True
            text = f"a gate failed and may have missed something: {type(error).__name__}: {error}"
            self._record.state("gate_failed", text)
            sys.stderr.write(self._record.clean(traceback.format_exc()))
            sys.stderr.flush()

    def _sample(self) -> None:
        sample = self._vitals.sample(sum(pump.bytes_seen for pump in self._pumps))
        now = sample.mono
        self._next_sample = now + self._vitals.interval_s
        self._activity.sample(now, sample.cpu_seconds, self._vitals.io_bytes)
        if now >= self._next_line:
            self._next_line = now + 1.0
            self._record.sample(sample)
        try:
            self._answer(self._board.tick(now, sample), now)
        except Exception as error:  # noqa: BLE001 - the bounds below hold without the gates
            self._gate_failed(error)
        self._enforce(sample)

    def _answer(self, trips: Iterable[Trip], now: float) -> None:
        for trip in trips:
            self._record.gate(trip)
            if trip.action == STOP:
                reason = _REASON_OF_GATE.get(trip.gate, "gate")
                self._ask(reason, trip.message, now, trip)

    def _enforce(self, sample: Sample) -> None:
        """Wall and memory hold even when no gate speaks."""
        if sample.rss_bytes > self._plan.memory_bytes:
            text = f"{sample.rss_bytes} bytes of memory; the bound is {self._plan.memory_bytes}"
            self._ask("memory", f"the run used {text}", sample.mono)
        if sample.mono - self._started >= self._plan.wall_s:
            self._ask("wall", f"the wall bound of {self._plan.wall_s:g} s was reached", sample.mono)

    def _ask(self, reason: str, message: str, now: float, trip: Optional[Trip] = None) -> None:
        ahead = 0 if self._progress.world_size == 1 or reason == "step_cap" else _AHEAD_STEPS
        self._stopping.ask(
            reason,
            message,
            now,
            ask_s=self._ask_seconds(reason),
            at_step=(self._progress.furthest or 0) + ahead if ahead else 0,
            trigger=None if trip is None else trip.to_json(),
        )

    def _ask_seconds(self, reason: str) -> float:
        """How long to wait for a clean stop. Without a probe there is nobody to ask."""
        if not self._progress.ranks and not self._attach.report()["attached"]:
            return 0.0
        if reason == "memory":
            return min(_MEMORY_ASK_S, self._plan.grace_s)
        steps = (_AHEAD_STEPS + 1) * self._progress.step_seconds
        return self._plan.grace_s + min(steps, _SLOW_STEP_LIMIT_S)

    def _look_for_requests(self, now: float) -> None:
        wish = self._requests.look()
        if wish is None:
            return
        self._ask(wish.reason, f"stopped on request ({wish.by})", now)
        if wish.at_once:  # also a second request, stronger than the first
            self._stopping.kill(now)

    def _look_for_faults(self, now: float) -> None:
        """A record that cannot be written ends the run: unseen training proves nothing."""
        fault = self._record.fault
        if fault is not None and self._stopping.reason is None:
            self._record.release_reserve()
            self._stopping.ask("supervisor_lost", fault.message, now, ask_s=0.0)

    def _look_for_leaving(self, now: float) -> None:
        if self._stopping.reason is not None:
            return
        if self._runner_left is None:
            hang = self._hang.look(now, self._progress, self._activity)
            if hang is not None:
                self._stopping.ask("hung_after_success", hang, now, ask_s=0.0)
            return
        members = self._tree.members(thorough=False)
        status = self._children.runner_status
        failed = status is not None and not status.is_success
        linger_s = float(self._plan.gates.get("linger_s", LINGER_S))
        torch = self._attach.torch_pids()
        limit = linger_limit_s(members, self._progress, torch, failed, linger_s)
        idle = min(now - self._runner_left, self._activity.quiet_s)
        if members and limit is not None and idle >= limit:
            names = ", ".join(str(process.pid) for process in members[:10])
            self._stopping.end_leftovers(
                f"the runner had left; {len(members)} idle processes stayed behind and were"
                f" ended ({names})",
                now,
            )

    def _each_second(self, now: float) -> None:
        self._record.check_present()
        self._attach.look(self._vitals.members, self._progress.ranks)
        if self._attach_said != "attached":
            self._say_attach(now - self._started)
        if self._guard and os.getppid() != self._guard:
            self._record.state("guard_lost", f"the guard {self._guard} died; the run goes on")
            self._guard = 0
        self.heartbeat(self._stopping.state)

    def _say_attach(self, age: float, ended: bool = False) -> None:
        """Once when it is missing, once when it is there; torch may be imported late."""
        report = self._attach.report(ended)
        late = ended or age >= _ATTACH_SAY_S or (age >= _ATTACH_QUIET_S and self._attach.is_blind)
        if report["attached"]:
            text = f"the probe is attached (Python {report['python']}, torch {report['torch']})"
            self._record.state("probe_attached", text, probe=report)
            self._attach_said = "attached"
        elif late and not self._attach_said:
            text = f"the probe is not attached: {report['reason']}"
            self._record.state("probe_missing", text, probe=report)
            self._attach_said = "missing"

    def _is_over(self) -> bool:
        """No child of ours is left, so no orphan either; the look finds what was never below us."""
        gone = self._children.runner_status is not None and self._children.none_left
        return gone and not self._tree.members()

    def _finish(self, left: Tuple[int, ...]) -> Ended:
        for pump in self._pumps:
            if not pump.finish(2.0):
                self._record.state("output_cut", "output was still coming when the run had ended")
        now = time.monotonic()
        self._feed(self._tail.drain(), now)
        self._take_output()
        self._collect(now)
        self._attach.look((), self._progress.ranks)
        if self._attach_said != "attached":
            self._say_attach(now - self._started, ended=True)
        dropped = sum(pump.dropped_bytes for pump in self._pumps)
        if dropped:
            self._record.state("output_dropped", f"{dropped} bytes of output are not in the logs")
        if self._tail.unreadable:
            text = f"{self._tail.unreadable} lines of the ranks' event files are no events"
            self._record.state("events_unreadable", text)
        return self._ended(left, now)

    def _ended(self, left: Tuple[int, ...], now: float) -> Ended:
        status = self._children.runner_status or ExitStatus(None, None)
        reason, message = self._stopping.reason or "natural", self._stopping.message
        trigger = self._stopping.trigger
        if reason == "natural" and self._left_at(now) - self._started >= self._plan.wall_s:
            reason, message = "wall", f"the wall bound of {self._plan.wall_s:g} s was reached"
        return Ended(
            reason=reason,
            t=utc_now(),
            seconds=round(now - self._started, 3),
            exit_code=status.exit_code,
            signal=status.signal,
            forced=self._stopping.forced,
            oom_killed=self._was_oom(status),
            message=message,
            trigger=trigger,
            peak_memory_bytes=max(self._vitals.peak_bytes, largest_dead_bytes()),
            left_running=left,
            attach_report=self._attach.report(ended=True),
        )

    def _left_at(self, now: float) -> float:
        return now if self._runner_left is None else self._runner_left

    def _was_oom(self, status: ExitStatus) -> bool:
        """The kernel killed for memory, and the runner's end fits it. Our own KILL does not count.

        A launcher turns the death of a rank into an exit code of its own; then only the counters of
        the run's own control group are believed, not those of the whole machine.
        """
        if self._stopping.forced or status.is_success:
            return False
        return has_risen(self._oom_before, oom_kills(), whole_machine=status.looks_killed)
