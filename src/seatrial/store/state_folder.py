"""Where ``.seatrial/`` is, and new records in it."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from seatrial.core import strict_json
from seatrial.core.errors import UsageError
from seatrial.core.record_layout import RecordLayout
from seatrial.store.atomic import create_exclusive, make_folder, sync_folder, writing
from seatrial.store.liveness import start_ticks

NAME = ".seatrial"
VARIABLE = "SEATRIAL_DIR"
_MAX_NAME = 40


@dataclass(frozen=True)
class StateFolder:
    """Paths of a state folder. Pure: nothing is opened or created."""

    path: str

    @property
    def runs(self) -> str:
        """Folder of the records, one folder a run."""
        return os.path.join(self.path, "runs")

    @property
    def ledger(self) -> str:
        """The SQLite file of authorizations and launches."""
        return os.path.join(self.path, "ledger.db")

    def record(self, run_id: str) -> RecordLayout:
        """The layout of a run's record, whether it exists or not."""
        return RecordLayout(os.path.join(self.runs, run_id))


def find_state_folder(cwd: str, env: Mapping[str, str]) -> StateFolder:
    """The state folder that belongs to a working directory; it need not exist yet.

    ``SEATRIAL_DIR`` if it is set, else ``.seatrial`` of the nearest parent that has one, else
    ``.seatrial`` of ``cwd``.
    """
    if env.get(VARIABLE):
        return StateFolder(os.path.abspath(os.path.join(cwd, env[VARIABLE])))
    start = folder = os.path.abspath(cwd)
    while True:
        if os.path.isdir(os.path.join(folder, NAME)):
            return StateFolder(os.path.join(folder, NAME))
        parent = os.path.dirname(folder)
        if parent == folder:
            return StateFolder(os.path.join(start, NAME))
        folder = parent


def create_state_folder(state: StateFolder) -> None:
    """Create the folder if it is missing, with a ``.gitignore`` that keeps it out of commits.

    A new one is its owner's alone, whatever the umask: outputs of a run are nobody else's business.

    Raises:
        UsageError: the place may not be written, or a file has the name.
        CouldNotJudgeError: the disk is full.
    """
    if os.path.lexists(state.path) and not os.path.isdir(state.path):
        raise UsageError(
            f"{state.path} is in the way: it is there and is no folder",
            remedy=f"move it away, or name another place: export {VARIABLE}=...",
        )
    is_new = not os.path.lexists(state.path)
    make_folder(state.runs)
    if is_new:
        with writing(state.path):
            os.chmod(state.path, 0o700)
    if not os.path.lexists(os.path.join(state.path, ".gitignore")):
        create_exclusive(os.path.join(state.path, ".gitignore"), b"*\n")


def new_run_id(now: datetime, name: str) -> str:
    """A name that sorts by time and says what ran: ``20261130-223319-legal-moves-3f9a``.

    Args:
        now: the moment of the launch, in UTC.
        name: of the trial or script; letters and digits of it are kept.
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii").lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:_MAX_NAME].strip("-") or "run"
    return f"{now:%Y%m%d-%H%M%S}-{slug}-{secrets.token_hex(2)}"


def create_record(state: StateFolder, run_id: str) -> RecordLayout:
    """Create the empty record of a run, with its sub folders.

    ``launch/intent.json`` says which process is about to start it, so that a record whose starter
    died is told from one that is just beginning.

    Raises:
        UsageError: the run is there already, or the place may not be written.
        CouldNotJudgeError: the disk is full.
    """
    create_state_folder(state)
    layout = state.record(run_id)
    try:
        make_folder(layout.folder, must_be_new=True)
    except FileExistsError:
        raise UsageError(
            f"the run {run_id} is there already ({layout.folder})", remedy="run it again"
        ) from None
    for folder in (layout.attach, *map(os.path.dirname, (layout.stop_request, layout.claim))):
        make_folder(folder)
    starter = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
    create_exclusive(layout.intent, strict_json.dumps(starter).encode())
    sync_folder(state.runs)
    return layout


def new_record(state: StateFolder, now: datetime, name: str) -> tuple[str, RecordLayout]:
    """A fresh run id and its record; two runs that begin in one second never share one.

    Raises:
        UsageError, CouldNotJudgeError: see ``create_record``.
    """
    for _ in range(100):
        run_id = new_run_id(now, name)
        if not os.path.lexists(state.record(run_id).folder):
            return run_id, create_record(state, run_id)
    raise UsageError(f"{state.runs} holds every name for a run of this second")
