"""Ctrl-C while a run goes on: ask, then force, then leave."""

from __future__ import annotations

import signal
from types import FrameType

from seatrial.cli.output import say
from seatrial.core.record_layout import RecordLayout


class Interrupts:
    """Counts Ctrl-C and acts at a moment when nothing is half done.

    Before the launch an interrupt ends the command. After it the first one asks the run to stop
    cleanly, the second ends it at once.
    """

    def __init__(self) -> None:
        self._count = 0
        self._handled = 0
        self._layout: RecordLayout | None = None

    def install(self) -> None:
        """Take over SIGINT for the rest of this process."""
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._count += 1

    def is_asked(self) -> bool:
        """Whether Ctrl-C was typed: ends what is checked before the launch."""
        return self._count > 0

    def check_before_launch(self) -> None:
        """Leave while nothing was started.

        Raises:
            KeyboardInterrupt: Ctrl-C was typed.
        """
        if self._count:
            raise KeyboardInterrupt

    def watch(self, layout: RecordLayout) -> None:
        """From now on an interrupt is for this run."""
        self._layout = layout

    def act(self) -> None:
        """Pass on what was typed since the last call."""
        if self._count == self._handled or self._layout is None:
            return
        from seatrial.workflows.run import ask_to_stop

        self._handled = self._count
        if self._count == 1:
            say("seatrial: stopping the run cleanly; Ctrl-C again ends it at once")
            ask_to_stop(self._layout, "interrupt", force=False)
        else:
            say("seatrial: ending the run at once")
            ask_to_stop(self._layout, "interrupt", force=True)
