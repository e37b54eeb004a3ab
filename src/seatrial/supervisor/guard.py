"""The guard: the supervisor's parent. When the supervisor dies, it ends the run and says so."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from typing import Optional

from seatrial.core.launch import Ended
from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.children import collect_dead
from seatrial.supervisor.claim import claim_start, is_claimed_by
from seatrial.supervisor.exit_status import ExitStatus, decode_status
from seatrial.supervisor.finalizer import run_finalizer
from seatrial.supervisor.kernel import adopt_orphans, ignore_terminal_signals
from seatrial.supervisor.message import LaunchMessage
from seatrial.supervisor.record_files import EventFile, create_json, read_json, utc_now
from seatrial.supervisor.supervise import (
    EXIT_BAD_MESSAGE,
    EXIT_CLAIMED,
    EXIT_ENDED,
    EXIT_LOST,
    EXIT_NO_RECORD,
    redactor_of,
    supervise,
)
from seatrial.supervisor.tree import RunTree, end_tree

_GRACE_S = 3.0
_KILL_S = 5.0
_KNOWN_EXITS = (EXIT_ENDED, EXIT_CLAIMED, EXIT_NO_RECORD)


def guard_from_stdin() -> int:
    """Read the launch message from standard input, then guard its run to the end.

    Returns:
        0 the run has ended and the record says how; 1 the supervisor died and the guard ended the
        run; 2 the message is no launch message; 3 the record cannot be written; 17 the run was
        started before, by somebody else. The last three start nothing.
    """
    try:
        message = LaunchMessage.from_bytes(sys.stdin.buffer.read())
    except ValueError as error:
        sys.stderr.write(f"seatrial: {error}\n")
        return EXIT_BAD_MESSAGE
    ignore_terminal_signals()
    _detach(RecordLayout(message.plan.record))
    adopt_orphans()
    guard = os.getpid()
    supervisor = os.fork()
    if supervisor == 0:
        _be_supervisor(message, guard)
    return _guard(message, supervisor)


def _detach(layout: RecordLayout) -> None:
    """Own session, no terminal, no working directory, output to the supervisor's log."""
    try:
        os.setsid()
    except PermissionError:  # started with start_new_session: we lead one already
        pass
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        log = os.open(layout.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        log = os.dup(nothing)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for handle in (nothing, log):
        if handle > 2:
            os.close(handle)


def _be_supervisor(message: LaunchMessage, guard: int) -> None:
    """In the forked child; never returns."""
    code = EXIT_LOST
    try:
        os.setsid()
        adopt_orphans()
        code = supervise(message, guard)
    except BaseException:  # noqa: BLE001 - whatever it is, the guard must learn of it and take over
        sys.stderr.write(redactor_of(message).text(traceback.format_exc()))
        sys.stderr.flush()
    finally:
        os._exit(code)


def _guard(message: LaunchMessage, supervisor: int) -> int:
    def pass_on(_number: int, _frame: object) -> None:
        try:
            os.kill(supervisor, signal.SIGTERM)
        except ProcessLookupError:
            return

    signal.signal(signal.SIGTERM, pass_on)
    _, raw = os.waitpid(supervisor, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    status = decode_status(raw)
    layout = RecordLayout(message.plan.record)
    if status.exit_code in _KNOWN_EXITS:
        return int(status.exit_code or 0)
    if os.path.exists(layout.claim):
        if not is_claimed_by(layout, supervisor):
            return EXIT_CLAIMED
    elif not _claim_nothing(message, layout):
        return EXIT_CLAIMED
    return _take_over(message, layout, supervisor, status)


def _claim_nothing(message: LaunchMessage, layout: RecordLayout) -> bool:
    """The supervisor died before it claimed: make sure that nobody starts this run any more."""
    try:
        return claim_start(layout, message.plan.run_id, "guard")
    except OSError:
        return False


def _take_over(
    message: LaunchMessage, layout: RecordLayout, supervisor: int, status: ExitStatus
) -> int:
    plan = message.plan
    began = time.monotonic()
    tree = RunTree(plan.run_id, os.getpid())
    started = read_json(layout.started) or {}
    pid, ticks = started.get("pid"), started.get("start_ticks")
    if isinstance(pid, int) and isinstance(ticks, int):
        tree.set_runner(pid, ticks)
    left = end_tree(tree, _GRACE_S, _KILL_S, between=_collect)
    _collect()
    if os.path.exists(layout.ended):  # it died behind its last words, perhaps in the finalizer
        run_finalizer(plan.finalizer, layout.supervisor_log)
        return EXIT_ENDED
    text = f"the supervisor (process {supervisor}) {status}; the guard ended the run"
    if not started:
        text += "; whether the runner had been started is not known"
    _record_loss(message, layout, text, left, began)
    run_finalizer(plan.finalizer, layout.supervisor_log)
    return EXIT_LOST


def _collect() -> None:
    collect_dead()


def _record_loss(
    message: LaunchMessage, layout: RecordLayout, text: str, left: tuple[int, ...], began: float
) -> None:
    begun = (read_json(layout.started) or {}).get("mono")
    since: Optional[float] = begun if isinstance(begun, float) else None
    ended = Ended(
        reason="supervisor_lost",
        t=utc_now(),
        seconds=round(time.monotonic() - (began if since is None else since), 3),
        forced=True,
        message=text,
        left_running=left,
    )
    value = redactor_of(message).value(ended.to_json())
    try:
        os.makedirs(os.path.dirname(layout.guard_events), exist_ok=True)
        events = EventFile(layout.guard_events)
        events.append("run.state", {"state": "supervisor_lost", "message": text}, time.monotonic())
        events.close()
    except OSError as error:
        sys.stderr.write(f"seatrial guard: {error.strerror}: {layout.guard_events}\n")
    try:
        create_json(layout.ended, value)
    except OSError as error:
        sys.stderr.write(f"seatrial guard: {error.strerror}: {layout.ended}\n")
