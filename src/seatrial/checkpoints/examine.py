"""Everything that is asked of one checkpoint on disk."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from seatrial.checkpoints.adapter import base_findings, untrained_findings
from seatrial.checkpoints.config_shapes import is_known, shape_faults
from seatrial.checkpoints.find import ADAPTER_CONFIG, Checkpoint
from seatrial.checkpoints.memory_match import match
from seatrial.checkpoints.open_file import UnreadableError, read_json_object
from seatrial.checkpoints.safetensors_header import BITS, HeaderError
from seatrial.checkpoints.scan import (
    FileScan,
    ScanStopped,
    TensorScan,
    scan_bytes,
    scan_safetensors,
)
from seatrial.checkpoints.torch_files import TorchFile
from seatrial.checkpoints.weight_faults import nonfinite_findings, size_findings
from seatrial.checkpoints.weight_index import index_findings, read_index
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.observation.values import SaveView

FAMILY = "checkpoint"


@dataclass(frozen=True)
class Surroundings:
    """What is known of the run that wrote the checkpoints.

    Attributes:
        saves: last saves by path (see ``memory_match.saves_by_path``).
        moved, still: names of tensors (see ``weight_faults.changing``).
        models: summaries of the models in memory.
        cwd: the runner's working directory.
        rated: whether a learning rate above zero was in force at a step, or before it in the same
            ``train()``; False too where no rate is known.
        cut_short: the process was ended from outside, so that a file without a finished save is
            no fault of the script.
        torch_files: what the child read, by path.
        stop: asked while files are read.
    """

    saves: Mapping[str, list[SaveView]]
    moved: frozenset[str]
    still: frozenset[str]
    models: tuple[Mapping[str, Any], ...]
    cwd: str
    rated: Callable[[int], bool]
    cut_short: bool
    torch_files: Mapping[str, TorchFile]
    stop: Callable[[], bool]


@dataclass
class Examined:
    """The answer for one checkpoint.

    Attributes:
        sha256: of its weight files by name.
        finite: whether all weights are finite; None when that is not known.
        compared: tensors that were compared with what was in memory.
        looked: every weight file was read to its end.
        elements: of all tensors that were read, together.
    """

    checkpoint: Checkpoint
    findings: list[Finding] = field(default_factory=list)
    not_judged: list[NotJudged] = field(default_factory=list)
    sha256: dict[str, str] = field(default_factory=dict)
    finite: bool | None = None
    compared: int = 0
    looked: bool = True
    elements: int = 0

    @property
    def fault(self) -> str:
        """Why it is of no use, in words; empty when nothing speaks against it."""
        if self.checkpoint.incomplete:
            return self.checkpoint.incomplete
        if not self.checkpoint.weights:
            return "it holds no weights"
        return next((f.message for f in self.findings if f.severity == "error"), "")


def examine(checkpoint: Checkpoint, around: Surroundings) -> Examined:
    """Read one checkpoint and say what is wrong with it.

    Args:
        checkpoint: as found.
        around: the run.
    """
    answer = Examined(checkpoint)
    _shape_of_folder(answer)
    tensors: dict[str, Mapping[str, TensorScan]] = {}
    for path in checkpoint.weights:
        scanned = _file(path, answer, around)
        if scanned is None:
            answer.looked = False
            continue
        tensors[path] = scanned
        answer.elements += sum(math.prod(tensor.shape) for tensor in scanned.values())
        saves = around.saves.get(path, [])
        if saves and scanned:
            told = match(path, saves, scanned, around.saves)
            answer.findings += told.findings
            answer.not_judged += told.not_judged
            answer.compared += told.compared
        step = next((save.step for save in saves), checkpoint.step)
        answer.findings += nonfinite_findings(
            path, step, scanned.values(), around.moved, around.still
        )
    _finite(answer, tensors)
    _index(answer, tensors)
    if answer.looked and tensors:
        every = {name: item for part in tensors.values() for name, item in part.items()}
        _shapes(answer, every)
        _adapter(answer, every, around)
        answer.findings += size_findings(
            checkpoint.path, checkpoint.kind, list(every.values()), around.models
        )
    _cut_short(answer, around)
    return answer


def _note(answer: Examined, code: str, reason: str) -> None:
    answer.not_judged.append(NotJudged(f"checkpoint.{code}", FAMILY, reason))


def _fault(
    answer: Examined,
    code: str,
    file: str,
    message: str,
    remedy: str,
    *,
    severity: str = "error",
    parameter: str | None = None,
    observed: Any = None,
    expected: Any = None,
) -> None:
    answer.findings.append(
        Finding(
            f"checkpoint.{code}",
            FAMILY,
            severity,
            message,
            Place(file=file, step=answer.checkpoint.step, parameter=parameter),
            Evidence(observed, expected),
            remedy,
            "proven",
        )
    )


def _shape_of_folder(answer: Examined) -> None:
    checkpoint = answer.checkpoint
    if checkpoint.incomplete:
        _fault(
            answer,
            "incomplete",
            checkpoint.path,
            f"{checkpoint.path} is unfinished: {checkpoint.incomplete}",
            "do not use it; the save was interrupted",
            severity="warning",
        )
    elif not checkpoint.weights:
        _fault(
            answer,
            "no_weights",
            checkpoint.path,
            f"{checkpoint.path} holds no weights that can be loaded",
            "of sharded training, save a full state dict, or gather the shards first",
            severity="warning",
        )
    for name in checkpoint.outside:
        _note(answer, "link", f"{checkpoint.path}/{name} is a link that leads out of the folder")


def _file(path: str, answer: Examined, around: Surroundings) -> Mapping[str, TensorScan] | None:
    """The tensors of one file (none where it cannot be read tensor by tensor); None if not read."""
    try:
        size = os.stat(path).st_size
    except OSError as error:
        _note(answer, "unreadable", f"{path}: {error.strerror}")
        return None
    if size == 0 and _is_anybodys(path, answer, around):
        _note(answer, "torch_file", f"{path} has no byte, and this run's saves do not name it")
        return None
    if size == 0:
        _fault(
            answer, "empty_file", path, f"{path} has no byte",
            "save it again; look at the disk's room", observed=0,
        )  # fmt: skip
        return None
    try:
        if path.endswith(".safetensors"):
            return _safetensors(path, answer, around)
        return _other(path, answer, around)
    except ScanStopped:
        _note(answer, "time", f"{path} was not read to its end: no time was left")
    except HeaderError as error:
        _fault(
            answer, "broken_file", path, f"{path}: {error}", "save it again; it cannot be loaded",
            parameter=error.tensor, observed=error.code,
        )  # fmt: skip
    except UnreadableError as error:
        _note(answer, "unreadable", f"{path}: {error}")
    return None


def _safetensors(path: str, answer: Examined, around: Surroundings) -> Mapping[str, TensorScan]:
    wanted = {name for save in around.saves.get(path, []) for name in save.digests}
    scan = scan_safetensors(path, digests_of=wanted, stop=around.stop)
    _keep_hash(answer, scan)
    unknown = sorted({t.dtype for t in scan.tensors if t.dtype not in BITS})
    if unknown:
        _note(answer, "dtype", f"{path}: elements of type {', '.join(unknown)} are not known here")
    return {tensor.name: tensor for tensor in scan.tensors}


def _other(path: str, answer: Examined, around: Surroundings) -> Mapping[str, TensorScan] | None:
    _keep_hash(answer, scan_bytes(path, stop=around.stop))
    if path.endswith(".distcp"):
        _note(answer, "dcp", f"{path}: shards of a distributed checkpoint are hashed, not opened")
        return {}
    told = around.torch_files.get(path)
    if told is None or told.refused:
        why = told.refused if told is not None else "the runner's interpreter is not known"
        _note(answer, "torch_file", f"{path} was not opened: {why}")
        return {}
    if told.broken and _is_anybodys(path, answer, around):
        _note(answer, "torch_file", f"{path} was not opened: {told.broken}")
        return {}
    if told.broken:
        _fault(
            answer, "broken_file", path, f"{path} cannot be loaded: {told.broken}", "save it again",
            observed=told.broken,
        )  # fmt: skip
        return None
    if told.changed:
        _note(answer, "unreadable", f"{path}: it was written to while it was read")
        return None
    return told.tensors


def _is_anybodys(path: str, answer: Examined, around: Surroundings) -> bool:
    """Whether a single file was never seen being saved: ``train.bin`` may be data."""
    return answer.checkpoint.kind == "pt" and path not in around.saves


def _keep_hash(answer: Examined, scan: FileScan) -> None:
    if scan.sha256 is not None:
        home = answer.checkpoint.home
        answer.sha256[os.path.relpath(scan.path, home)] = scan.sha256


def _finite(answer: Examined, tensors: Mapping[str, Mapping[str, TensorScan]]) -> None:
    if any(f.code == "checkpoint.not_finite" and f.severity == "error" for f in answer.findings):
        answer.finite = False
    elif answer.looked and tensors and all(tensors.values()):
        known = [t.nonfinite is not None for part in tensors.values() for t in part.values()]
        answer.finite = True if all(known) else None


def _index(answer: Examined, tensors: Mapping[str, Mapping[str, TensorScan]]) -> None:
    checkpoint = answer.checkpoint
    if checkpoint.index is None:
        return
    try:
        index = read_index(checkpoint.index)
    except UnreadableError as error:
        _fault(
            answer, "broken_index", checkpoint.index, f"{checkpoint.index}: {error}",
            "save it again; without its index the checkpoint cannot be loaded",
        )  # fmt: skip
        return
    names = {os.path.basename(path): frozenset(part) for path, part in tensors.items() if part}
    answer.findings += index_findings(index, checkpoint.weights, names)


def _leads_out(checkpoint: Checkpoint, file: str) -> bool:
    """Whether the file is a link out of the folder, which was said and is not followed."""
    return os.path.basename(file) in checkpoint.outside


def _shapes(answer: Examined, tensors: Mapping[str, TensorScan]) -> None:
    checkpoint = answer.checkpoint
    file = os.path.join(checkpoint.home, "config.json")
    if checkpoint.kind != "hf" or not os.path.lexists(file) or _leads_out(checkpoint, file):
        return
    if not all(path.endswith(".safetensors") for path in checkpoint.weights):
        return
    try:
        config = read_json_object(file)
    except UnreadableError as error:
        _fault(answer, "broken_config", file, f"{file}: {error}", "save the model again")
        return
    if not is_known(config):
        kind = str(config.get("model_type"))[:60]
        _note(answer, "shapes", f"shapes of the architecture {kind} are not known here")
        return
    faults = shape_faults(config, tensors)
    if faults:
        first = faults[0]
        more = f" ({len(faults)} such in all)" if len(faults) > 1 else ""
        _fault(
            answer, "shape", file, f"{checkpoint.path}: {first.message}{more}",
            "weights and config.json are of different models; save both together",
            parameter=first.tensor, observed=first.observed, expected=first.expected,
        )  # fmt: skip


def _adapter(answer: Examined, tensors: Mapping[str, TensorScan], around: Surroundings) -> None:
    checkpoint = answer.checkpoint
    if checkpoint.kind != "peft":
        return
    file = os.path.join(checkpoint.home, ADAPTER_CONFIG)
    if _leads_out(checkpoint, file):
        return
    try:
        config = read_json_object(file)
    except UnreadableError as error:
        _fault(
            answer, "broken_config", file, f"{file}: {error}",
            "save the adapter again; without it the adapter cannot be loaded",
        )  # fmt: skip
        return
    weights = checkpoint.weights[0]
    step = next((save.step for save in around.saves.get(weights, [])), checkpoint.step)
    rated = step is not None and around.rated(step)
    answer.findings += base_findings(config, file, around.cwd)
    answer.findings += untrained_findings(
        config, weights, tensors.values(), (checkpoint.step or step) if rated else None
    )
    if checkpoint.adapter:
        answer.findings.append(
            Finding(
                "adapter.named",
                "adapter",
                "note",
                f"{checkpoint.path}: the adapter is named {checkpoint.adapter!r} and lies in a "
                "folder of its own; a loader that looks for the default one finds none",
                Place(file=checkpoint.home),
                remedy=f"load it from {checkpoint.home}",
                confidence="proven",
            )
        )


def _cut_short(answer: Examined, around: Surroundings) -> None:
    """A save that our own end of the run interrupted is no fault of the script's."""
    if not around.cut_short:
        return
    for place, found in enumerate(answer.findings):
        unfinished = found.place.file not in around.saves
        if (
            found.severity == "error"
            and unfinished
            and found.code
            in (
                "checkpoint.broken_file",
                "checkpoint.empty_file",
                "checkpoint.missing_shard",
            )
        ):
            answer.findings[place] = Finding(
                **{
                    **vars(found),
                    "severity": "warning",
                    "message": f"{found.message}; the run was ended while it was saved",
                }
            )
