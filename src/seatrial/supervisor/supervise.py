"""The supervisor: claim, start, supervise, write the end, run the finalizer."""

from __future__ import annotations

import os
import socket
import time
from typing import Callable, Optional

from seatrial.core.gates.board import GateBoard
from seatrial.core.gates.settings import GateSettings
from seatrial.core.launch import Ended, Started
from seatrial.core.record_layout import RecordLayout
from seatrial.core.redaction import Redactor, from_environment
from seatrial.supervisor.attach import AttachWatch
from seatrial.supervisor.claim import claim_start
from seatrial.supervisor.finalizer import run_finalizer
from seatrial.supervisor.loop import Supervision
from seatrial.supervisor.message import LaunchMessage
from seatrial.supervisor.output import OutputPump
from seatrial.supervisor.output_log import OutputLog
from seatrial.supervisor.record import Record
from seatrial.supervisor.record_files import utc_now
from seatrial.supervisor.requests import Requests
from seatrial.supervisor.spawn import (
    Runner,
    SpawnError,
    bootstrap_folder,
    runner_variables,
    secret_names,
    spawn_runner,
)
from seatrial.supervisor.tree import RunTree, end_tree

EXIT_ENDED = 0
EXIT_LOST = 1
EXIT_BAD_MESSAGE = 2
EXIT_NO_RECORD = 3
EXIT_CLAIMED = 17


def redactor_of(message: LaunchMessage) -> Redactor:
    """Knows every secret of the runner's environment."""
    return from_environment(message.env, secret_names(message.plan, message.env), message.argv)


def supervise(message: LaunchMessage, guard: int) -> int:
    """Be the supervisor of one run.

    Args:
        message: what to run.
        guard: pid of our parent when we were forked.

    Returns:
        ``EXIT_ENDED``, ``EXIT_CLAIMED`` when another process has the start, ``EXIT_NO_RECORD`` when
        the record cannot be written (nothing was started then).
    """
    plan = message.plan
    layout = RecordLayout(plan.record)
    requests = Requests(layout)
    requests.listen()
    try:
        if not os.path.isdir(plan.record) or not claim_start(layout, plan.run_id, "supervisor"):
            return EXIT_CLAIMED if os.path.isdir(plan.record) else EXIT_NO_RECORD
    except OSError:
        return EXIT_NO_RECORD
    redactor = redactor_of(message)
    record = Record(layout, redactor)
    record.prepare()
    record.state("claimed", "the start is claimed", supervisor_pid=os.getpid())
    began = time.monotonic()
    env = runner_variables(plan, message.env, began + plan.wall_s)
    try:
        if record.fault is not None:
            raise SpawnError(record.fault.message, "", record.fault.kind, plan.record)
        runner = spawn_runner(message.argv, env, plan.cwd, redactor)
    except SpawnError as error:
        return _end(message, record, _not_spawned(error, record, began), None)
    supervision = _started(message, record, redactor, runner, began, requests, guard)
    ended = supervision.run()
    return _end(message, record, ended, supervision.heartbeat)


def _started(
    message: LaunchMessage,
    record: Record,
    redactor: Redactor,
    runner: Runner,
    began: float,
    requests: Requests,
    guard: int,
) -> Supervision:
    """Write that the runner runs, and put together what watches it."""
    plan, layout = message.plan, record.layout
    record.started(
        Started(
            pid=runner.pid,
            t=utc_now(),
            mono=began,
            start_ticks=runner.start_ticks,
            supervisor_pid=os.getpid(),
            guard_pid=guard,
            host=socket.gethostname(),
        )
    )
    record.state("started", f"the runner runs as process {runner.pid}", pid=runner.pid)
    tree = RunTree(plan.run_id, os.getpid())
    tree.set_runner(runner.pid, runner.start_ticks)
    pumps = (
        OutputPump(runner.stdout, OutputLog(layout.stdout), redactor, record.note_fault),
        OutputPump(runner.stderr, OutputLog(layout.stderr), redactor, record.note_fault),
    )
    for pump in pumps:
        pump.start()
    bounds = {
        "wall_s": plan.wall_s,
        "max_steps": plan.max_steps,
        "memory_bytes": plan.memory_bytes,
        "ad_hoc": plan.ad_hoc,
    }
    return Supervision(
        plan,
        record,
        runner,
        began,
        GateBoard(GateSettings.from_json({**bounds, **plan.gates}), began),
        tree,
        pumps,
        AttachWatch(layout, message.argv, bootstrap_folder()),
        requests,
        guard,
    )


def _not_spawned(error: SpawnError, record: Record, began: float) -> Ended:
    text = f"{error.message}. {error.remedy}" if error.remedy else error.message
    record.state("spawn_failed", text, errno=error.code, file=error.file)
    return Ended(
        reason="spawn_failed",
        t=utc_now(),
        seconds=round(time.monotonic() - began, 3),
        message=text,
        attach_report={
            "attached": False,
            "ranks": 0,
            "python": None,
            "torch": None,
            "reason": "the command could not be started",
        },
    )


def _end(
    message: LaunchMessage,
    record: Record,
    ended: Ended,
    heartbeat: Optional[Callable[[str], None]],
) -> int:
    """The last words, then the finalizer, under a heartbeat that says so."""
    record.state("ended", ended.message or f"the run ended: {ended.reason}", reason=ended.reason)

    def beat() -> None:
        if heartbeat is not None:
            heartbeat("finalizing")

    beat()
    if not record.ended(ended):
        return EXIT_NO_RECORD
    run_finalizer(
        message.plan.finalizer,
        record.layout.supervisor_log,
        beat,
        message.to_bytes(),
        message.plan.legs_s,
    )
    if message.plan.legs:  # a process that the user's code let loose behind the run ends with it
        end_tree(RunTree(message.plan.run_id, os.getpid()), 0.5, 2.0)
    if heartbeat is not None:
        heartbeat("ended")
    return EXIT_ENDED
