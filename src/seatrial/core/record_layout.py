"""The names inside a record, in one place. Supervisor, probe and terminal meet only here."""

from __future__ import annotations

import os.path


class RecordLayout:
    """Paths of one record (the folder of one run). Pure: nothing is opened or created."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def _at(self, *parts: str) -> str:
        return os.path.join(self.folder, *parts)

    @property
    def plan(self) -> str:
        """The plan as it was given to the supervisor (``core.plan.Plan``, redacted)."""
        return self._at("plan.json")

    @property
    def run(self) -> str:
        """Folder of everything that is written while the run goes."""
        return self._at("run")

    @property
    def attach(self) -> str:
        """Folder of hand-shakes: ``<pid>.json`` of every interpreter that loaded the bootstrap."""
        return self._at("run", "attach")

    def events(self, rank: int) -> str:
        """Append-only events of one rank."""
        return self._at("run", f"events.rank{rank}.jsonl")

    @property
    def supervisor_events(self) -> str:
        """Append-only ``run.state`` and ``gate`` events of the supervisor (rank null)."""
        return self._at("run", "events.supervisor.jsonl")

    @property
    def guard_events(self) -> str:
        """``run.state`` events of the guard, written only when the supervisor died."""
        return self._at("run", "events.guard.jsonl")

    @property
    def leg_events(self) -> str:
        """``run.state`` events of the finalizer while it makes the checks behind the run."""
        return self._at("run", "events.legs.jsonl")

    @property
    def resources(self) -> str:
        """Samples of the process tree, one ``core.trip.Sample`` a line."""
        return self._at("run", "resources.jsonl")

    @property
    def stdout(self) -> str:
        """The runner's standard output, secrets removed."""
        return self._at("run", "stdout.log")

    @property
    def stderr(self) -> str:
        """The runner's standard error, secrets removed."""
        return self._at("run", "stderr.log")

    @property
    def stop_request(self) -> str:
        """A request to stop cleanly (``core.stop.StopRequest``); its presence is the request."""
        return self._at("control", "stop.json")

    @property
    def kill_request(self) -> str:
        """A request to stop at once, without waiting for a clean stop."""
        return self._at("control", "kill.json")

    @property
    def intent(self) -> str:
        """The process that is about to start the run: ``{"pid", "start_ticks"}``."""
        return self._at("launch", "intent.json")

    @property
    def claim(self) -> str:
        """Created exclusively by the one process that may start the runner."""
        return self._at("launch", "claim.json")

    @property
    def started(self) -> str:
        """``core.launch.Started``: process id and start of the runner."""
        return self._at("launch", "started.json")

    @property
    def ended(self) -> str:
        """``core.launch.Ended``: how the process ended."""
        return self._at("launch", "ended.json")

    @property
    def heartbeat(self) -> str:
        """Rewritten atomically every second by the supervisor (``core.launch.Heartbeat``)."""
        return self._at("run", "heartbeat.json")

    @property
    def supervisor_log(self) -> str:
        """Anything the supervisor or the guard print: for our own bugs."""
        return self._at("supervisor.log")

    @property
    def result(self) -> str:
        """The ``seatrial.run/1`` object, written once at the end."""
        return self._at("result.json")

    @property
    def closing(self) -> str:
        """What the terminal says beside the result: what was not tested, the next command."""
        return self._at("closing.json")

    def check(self, name: str) -> str:
        """The ``core.check_report.CheckReport`` of one check, for example ``inputs``."""
        return self._at("checks", f"{name}.json")

    @property
    def lock(self) -> str:
        """The lock that the run was launched under; missing for an ad-hoc run."""
        return self._at("trial.lock")

    @property
    def heldout(self) -> str:
        """Folder of the held-out evaluation: one file of answers a model role."""
        return self._at("heldout")

    @property
    def finalize_lock(self) -> str:
        """Held by whoever writes result and report, so that they are written once."""
        return self._at("finalize.lock")

    @property
    def report(self) -> str:
        """The page for people."""
        return self._at("report.html")

    @property
    def summary(self) -> str:
        """The page in Markdown."""
        return self._at("summary.md")
