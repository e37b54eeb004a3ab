"""Everything that is hooked once torch is there."""

from __future__ import annotations

import sys
from typing import Any, List, Optional

from seatrial.probe import backward, driver, ending, environment, model_summary
from seatrial.probe.attach import Attachment
from seatrial.probe.clipping import ClipWatch
from seatrial.probe.import_hooks import AfterImport
from seatrial.probe.inputs import InputWatch
from seatrial.probe.optimizer_steps import StepWatch
from seatrial.probe.saves import SaveWatch
from seatrial.probe.session import Session
from seatrial.probe.settings import Settings
from seatrial.probe.tally import Tally
from seatrial.probe.trainer_callback import TrainerWatch, add_to_defaults


def install(torch: Any, settings: Settings, attachment: Attachment, hooks: AfterImport) -> None:
    """Hook torch, and the libraries around it as soon as the script imports them."""
    attachment.update(torch=str(torch.__version__))
    session = Session(settings, attachment)
    session.is_data_worker = _is_data_worker
    session.distributed_rank = lambda: _group_value(torch, "get_rank")
    session.leave_group = lambda: _leave_group(torch)
    session.distributed_world = lambda: _group_value(torch, "get_world_size") or 1
    tally = Tally()
    scales = backward.Scales()
    inputs = InputWatch(torch, session, tally)
    models = ModelReports(torch, session, inputs)
    steps = StepWatch(torch, session, tally, scales, models.before_step)
    saves = SaveWatch(torch, session, tally)

    backward.install(torch, session, tally, scales, inputs.backward_begins, steps.after_backward)
    backward.install_scaler(torch, session, scales, steps.skipped)
    ClipWatch(torch, session, tally, scales).install(hooks)
    inputs.install()
    steps.install()
    saves.install_torch()
    ending.install(session)

    watch = TrainerWatch(session, tally, steps.close_segment, inputs.remember)
    hooks.add("safetensors.torch", saves.install_safetensors)
    hooks.add("torch.distributed.checkpoint", saves.install_checkpoint)
    hooks.add("transformers.trainer", lambda module: add_to_defaults(module, watch, session))


class ModelReports:
    """Writes ``env`` and ``model`` when a rank begins to step, and again when that changed."""

    def __init__(self, torch: Any, session: Session, inputs: InputWatch) -> None:
        self._torch = torch
        self._session = session
        self._inputs = inputs
        self._described: List[Any] = []
        self._without_module = False
        self._group: Any = None
        self._driver: Optional[str] = None
        self._segment = -1
        session.env_summary = self._environment
        self._report = session.faults.guard("model", self._describe)
        self._refresh = session.faults.guard("env", self._repeat_environment)

    def _environment(self) -> Any:
        self._group = environment.process_group(self._torch)
        self._driver = driver.current_driver() or self._driver
        argv = self._session.redactor().argv([str(word) for word in sys.argv])
        return {**environment.summarize(self._torch, argv), "framework": self._driver}

    def before_step(self, optimizer: Any) -> None:
        """Describe what is new since the last step event: models, process group, driver."""
        rounds = self._session.rounds
        if rounds.segment != self._segment or rounds.begins_segment(id(optimizer)):
            self._segment = rounds.segment
            self._refresh()
        news = [known for known in self._inputs.roots if known not in self._described]
        if news or not (self._described or self._without_module):
            self._without_module = True
            self._described.extend(news)
            for module in [known() for known in news] or [None]:
                self._report(module, optimizer)

    def _repeat_environment(self) -> None:
        """Write ``env`` again when a group was made, or another library drives, since the last."""
        if self._session.writer.is_open and (
            self._group != environment.process_group(self._torch)
            or driver.current_driver() not in (None, self._driver)
        ):
            self._session.write("env", self._environment())

    def _describe(self, module: Any, optimizer: Any) -> None:
        self._session.write("model", model_summary.summarize(module, optimizer))


def _is_data_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _group_value(torch: Any, name: str) -> Optional[int]:
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(getattr(distributed, name)())


def _leave_group(torch: Any) -> None:
    """Close a gloo group that the script would have closed behind the loop that we ended.

    Left open, its threads now and then abort the interpreter on its way out.
    """
    distributed = torch.distributed
    if environment.process_group(torch)[1] == "gloo":
        distributed.destroy_process_group()
