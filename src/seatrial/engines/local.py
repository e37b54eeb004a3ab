"""The local engine: a detached supervisor on this machine."""

from __future__ import annotations

import os
import sys
from decimal import Decimal

from seatrial.core.errors import CouldNotJudgeError
from seatrial.core.launch import Started
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.engines.engine import Handle, Launch, StartRefusedError
from seatrial.process import start_detached
from seatrial.readers.record import read_started
from seatrial.store.atomic import open_append
from seatrial.supervisor.message import LaunchMessage, entry_command


class LocalEngine:
    """Starts guard and supervisor; they take the claim and outlive us."""

    name = "local"
    needs_authorization = False
    claims_itself = True

    def price_per_hour(self, plan: Plan) -> Decimal:
        """Nothing."""
        del plan
        return Decimal(0)

    def start(self, launch: Launch) -> Handle:
        """Start the supervisor and hand it the message.

        Raises:
            StartRefusedError: it could not be started, or died before it took its message.
        """
        message = LaunchMessage(plan=launch.plan, argv=launch.argv, env=launch.env)
        try:
            with open_append(launch.layout.supervisor_log) as log:
                # It must not sit in a folder that the run, or its owner, may remove.
                pid, ticks = start_detached(
                    entry_command(sys.executable), message.to_bytes(), log, "/", dict(os.environ)
                )
        except CouldNotJudgeError as error:
            raise StartRefusedError(error.message) from error
        return Handle(pid=pid, start_ticks=ticks)

    def find(self, key: str, record: str) -> Handle | None:
        """The runner, as the record tells it."""
        del key
        started: Started | None = read_started(RecordLayout(record))
        if started is None:
            return None
        return Handle(pid=started.pid, start_ticks=started.start_ticks)
