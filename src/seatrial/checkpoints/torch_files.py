"""Files of ``torch.save``, read in the runner's interpreter by a capped child."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.checkpoints.open_file import UnreadableError, parse_json
from seatrial.checkpoints.scan import TensorScan
from seatrial.core.child import EXITED, MEMORY, OUTPUT, TIMEOUT, Ask, ChildAnswer, ChildRequest

_PROGRAM = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "child", "torch_digests.py"
)
OUTPUT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Asker:
    """How the child is run: by whom, with which interpreter and which caps.

    Attributes:
        left: gives the seconds that are left.
    """

    ask: Ask
    interpreter: str
    env: Mapping[str, str]
    memory_bytes: int
    left: Callable[[], float]


@dataclass(frozen=True)
class TorchFile:
    """What one file holds; ``refused`` or ``broken`` say why nothing is known of it."""

    path: str
    tensors: Mapping[str, TensorScan] = field(default_factory=dict)
    refused: str = ""
    broken: str = ""
    changed: bool = False


def read_torch_files(asker: Asker, paths: Sequence[str]) -> dict[str, TorchFile]:
    """Tensors of each file by path. A file that the child did not get to is ``refused`` with why.

    Args:
        asker: runs the child.
        paths: files, most important first.
    """
    if not paths:
        return {}
    seconds = asker.left()
    if seconds < 1:
        return {path: TorchFile(path, refused="no time was left") for path in paths}
    answer = asker.ask(
        ChildRequest(
            argv=(asker.interpreter, _PROGRAM),
            timeout_s=seconds,
            env=asker.env,
            stdin=json.dumps({"files": list(paths)}).encode("ascii"),
            memory_bytes=asker.memory_bytes,
            output_bytes=OUTPUT_BYTES,
        )
    )
    found = {}
    for line in answer.stdout.splitlines():
        item = _file(line)
        if item is not None and item.path in paths:
            found[item.path] = item
    why = _why(answer, seconds)
    return {path: found.get(path) or TorchFile(path, refused=why) for path in paths}


def _why(answer: ChildAnswer, seconds: float) -> str:
    if answer.reason == TIMEOUT:
        return f"reading it took longer than the {seconds:.0f} seconds that were left"
    if answer.reason == MEMORY:
        return "reading it took more memory than the run's bound"
    if answer.reason == OUTPUT:
        return "it holds too many tensors"
    if answer.reason != EXITED:
        return f"the reading process was {answer.reason}: {answer.error}".rstrip(": ")
    lines = answer.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"the reading process left with exit code {answer.exit_code}" + (
        f": {lines[-1][:200]}" if lines else ""
    )


def _file(line: bytes) -> TorchFile | None:
    try:
        value = parse_json(line)
    except UnreadableError:
        return None
    if not isinstance(value, dict) or not isinstance(value.get("path"), str):
        return None
    tensors = value.get("tensors")
    return TorchFile(
        path=value["path"],
        tensors={
            str(name): _tensor(str(name), item)
            for name, item in (tensors.items() if isinstance(tensors, dict) else ())
            if isinstance(item, dict)
        },
        refused=str(value.get("refused") or ""),
        broken=str(value.get("broken") or ""),
        changed=value.get("changed") is True,
    )


def _tensor(name: str, item: Mapping[str, Any]) -> TensorScan:
    digest, bad, first = item.get("sha256"), item.get("nonfinite"), item.get("first")
    shape, infinite = item.get("shape"), item.get("infinite")
    return TensorScan(
        name=name,
        dtype=str(item.get("dtype") or ""),
        shape=tuple(size for size in shape if isinstance(size, int))
        if isinstance(shape, list)
        else (),
        nonfinite=bad if isinstance(bad, int) else None,
        infinite=infinite if isinstance(infinite, int) else 0,
        first=first if isinstance(first, int) else None,
        word=str(item.get("word") or ""),
        zero=item.get("zero") is True,
        sha256=digest if isinstance(digest, str) else None,
    )
