"""Whether a run that is over will leave: hung after success, and children that stay behind."""

from __future__ import annotations

from typing import Iterable, Mapping, Optional

from seatrial.supervisor.activity import Activity
from seatrial.supervisor.processes import Process
from seatrial.supervisor.progress import PROCESS, Progress

LINGER_S = 10.0  # unless the plan's gates say otherwise, as `linger_s`
_LINGER_FAILED_RANK_S = 30.0
_LINGER_TORCH_S = 60.0
_SPINNING_FACTOR = 4


class HangWatch:
    """Notices a runner that does nothing more after its training ended well.

    Args:
        hung_after_s: seconds without event, output, CPU or bytes moved. A process that has said
            goodbye and only burns CPU is given four times as long.
    """

    def __init__(self, hung_after_s: float) -> None:
        self._hung_after_s = hung_after_s
        self._since: Optional[float] = None

    def look(self, now: float, progress: Progress, activity: Activity) -> Optional[str]:
        """What to say about the hang, None when there is none."""
        scope = progress.finished()
        if scope is None:
            self._since = None
            return None
        if self._since is None:
            self._since = now
        waited = now - self._since
        limit = self._hung_after_s
        quiet = min(waited, activity.quiet_s)
        if quiet >= limit:
            return (
                f"training had ended well; for {quiet:.0f} s there was no event, no output and no"
                " work, and the process did not leave"
            )
        silent = min(waited, activity.silent_s)
        if scope == PROCESS and silent >= limit * _SPINNING_FACTOR:
            return (
                f"training had ended well and every rank had said so; for {silent:.0f} s the"
                " process used CPU without any event or output, and did not leave"
            )
        return None


def linger_limit_s(
    members: Iterable[Process],
    progress: Progress,
    torch: Mapping[int, str],
    failed: bool,
    linger_s: float,
) -> Optional[float]:
    """How long what is left may idle after the runner itself has left; None for no limit.

    A rank whose training goes on is the training: gates and the wall judge it, unless the runner
    has failed. An interpreter with torch may be loading something.

    Args:
        members: living processes of the run.
        progress: of the training.
        torch: role by pid of interpreters that have torch.
        failed: the runner left with an error.
        linger_s: for what is neither.
    """
    pids = {process.pid for process in members}
    if pids & progress.training_pids():
        return _LINGER_FAILED_RANK_S if failed else None
    if pids & set(torch) and not failed and not progress.pids:
        return _LINGER_TORCH_S
    return linger_s
