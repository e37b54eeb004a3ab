"""An adapter: what it stands on, and whether it learnt anything."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from seatrial.checkpoints.scan import TensorScan
from seatrial.core.finding import Evidence, Finding, Place

_HUB_ID = re.compile(r"^[\w.-]+(/[\w.-]+)?$")
_B = re.compile(r"\.lora_(B|embedding_B)(\.|$)")


def base_findings(config: Mapping[str, Any], file: str, cwd: str) -> list[Finding]:
    """Whether the base model can be found again.

    Args:
        config: of ``adapter_config.json``.
        file: its path.
        cwd: the runner's working directory; relative paths are looked for there.
    """
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    if not isinstance(base, str) or not base:
        return [
            _finding(
                "no_base",
                "note",
                file,
                "the adapter names no base model: only code that makes the same base can load it",
                "load the base with from_pretrained, so that its name is recorded",
            )
        ]
    path = os.path.join(cwd, os.path.expanduser(base))
    if os.path.exists(path):
        return []
    if os.path.isabs(base) or base.startswith(("./", "../", "~")):
        return [
            _finding(
                "base_missing",
                "error",
                file,
                f"the adapter stands on {base}, which does not exist here",
                "put the base model there, or correct base_model_name_or_path",
                base,
            )
        ]
    if revision is None and _HUB_ID.match(base):
        return [
            _finding(
                "revision_open",
                "warning",
                file,
                f"the adapter stands on {base} without a revision: when its branch moves, the "
                "adapter meets other weights",
                "load the base with revision= a 40-digit commit",
                base,
            )
        ]
    return []


def untrained_findings(
    config: Mapping[str, Any],
    file: str,
    tensors: Iterable[TensorScan],
    step: int | None,
) -> list[Finding]:
    """Whether every B matrix is still zero, so that the adapter changes nothing.

    However the matrices begin (LoRA's own way leaves B at zero, PiSSA and others do not), a B that
    took a step with a learning rate above zero is not zero in every element.

    Args:
        config: of ``adapter_config.json``.
        file: of the weights.
        tensors: as scanned.
        step: of the save, when a learning rate above zero was in force at or before it; else None.
    """
    if step is None or str(config.get("peft_type", "")).upper() != "LORA":
        return []
    seconds = [tensor for tensor in tensors if _B.search(tensor.name)]
    if not seconds or not all(tensor.zero for tensor in seconds):
        return []
    return [
        Finding(
            "adapter.untrained",
            "adapter",
            "error",
            f"{file}: all {len(seconds)} B matrices are zero after {step} steps: the adapter "
            "changes nothing",
            Place(file=file, step=step, parameter=seconds[0].name),
            Evidence(observed=0, expected="not zero"),
            "see that the adapter's parameters are in the optimizer and get gradients",
            "proven",
        )
    ]


def _finding(
    code: str, severity: str, file: str, message: str, remedy: str, observed: str | None = None
) -> Finding:
    return Finding(
        f"adapter.{code}",
        "adapter",
        severity,
        message,
        Place(file=file),
        Evidence(observed=observed),
        remedy,
        "proven",
    )
