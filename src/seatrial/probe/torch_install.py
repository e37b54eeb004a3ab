"""Everything that is hooked once torch is there."""

from __future__ import annotations

import sys
from typing import Any, Optional

from seatrial.probe import backward, clipping, ending, environment, model_summary
from seatrial.probe.attach import Attachment
from seatrial.probe.import_hooks import AfterImport
from seatrial.probe.inputs import InputWatch
from seatrial.probe.optimizer_steps import StepWatch
from seatrial.probe.saves import SaveWatch
from seatrial.probe.session import Session
from seatrial.probe.settings import Settings
from seatrial.probe.tally import Tally
from seatrial.probe.trainer_callback import TrainerWatch, add_to_defaults

_MODELS_DESCRIBED = 4


def install(torch: Any, settings: Settings, attachment: Attachment, hooks: AfterImport) -> None:
    """Hook torch, and the libraries around it as soon as the script imports them."""
    attachment.update(torch=str(torch.__version__))
    session = Session(settings, attachment)
    session.is_data_worker = _is_data_worker
    session.distributed_rank = lambda: _group_value(torch, "get_rank")
    session.distributed_world = lambda: _group_value(torch, "get_world_size") or 1
    tally = Tally()
    scales = backward.Scales()
    inputs = InputWatch(torch, session, tally)
    models = ModelReports(torch, session, inputs)
    steps = StepWatch(torch, session, tally, scales, models.before_step)
    saves = SaveWatch(torch, session, tally)

    backward.install(torch, session, tally, scales, steps.after_backward)
    backward.install_scaler(torch, session, scales, steps.skipped)
    clipping.install(torch, session, tally, scales)
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
        self._described: list[int] = []
        self._group: Any = None
        session.env_summary = self._environment
        self._report = session.faults.guard("model", self._describe)

    def _environment(self) -> Any:
        self._group = environment.process_group(self._torch)
        argv = self._session.redactor().argv([str(word) for word in sys.argv])
        return environment.summarize(self._torch, argv)

    def before_step(self, optimizer: Any) -> None:
        """Describe the model before its first step event."""
        root = self._inputs.root
        module = root() if root is not None else None
        key = id(module) if module is not None else 0
        if key in self._described or len(self._described) >= _MODELS_DESCRIBED:
            return
        self._described.append(key)
        self._report(module, optimizer)

    def _describe(self, module: Any, optimizer: Any) -> None:
        session = self._session
        if session.writer.is_open and self._group != environment.process_group(self._torch):
            session.write("env", self._environment())  # a group was made since the first event
        session.write("model", model_summary.summarize(self._torch, module, optimizer))


def _is_data_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _group_value(torch: Any, name: str) -> Optional[int]:
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return int(getattr(distributed, name)())
