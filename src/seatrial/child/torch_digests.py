"""Digests of the tensors in files of ``torch.save``, without unpickling anything but tensors.

Run as a file. stdin: ``{"files": [path]}``. stdout: one line of JSON for each file, in order:
``{"path", "tensors": {name: {"sha256", "nonfinite", "infinite", "first",
"word", "zero", "dtype", "shape"}},
"refused": null | text, "broken": null | text, "changed": bool}``. ``refused``: it needs more than
``weights_only=True`` allows, and was not loaded; ``broken``: it cannot be read.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
from typing import Any, Dict, Iterator, Optional, Tuple

_MAX_DEPTH = 12  # as the probe names tensors, so that names agree
_MAX_TENSORS = 10_000
_PIECE = 1 << 22  # elements


def named_tensors(torch: Any, value: Any, name: str = "", depth: int = 0) -> Iterator[Any]:
    """Every tensor in nested dicts and lists, with a dotted name."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, torch.Tensor):
        yield name or "tensor", value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from named_tensors(torch, item, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            at = f"{name}.{index}" if name else str(index)
            yield from named_tensors(torch, item, at, depth + 1)


def look(torch: Any, tensor: Any) -> Dict[str, Any]:
    """One tensor: digest of its elements in order, and what is not finite among them."""
    here = tensor.detach().to("cpu").contiguous().reshape(-1)
    digest, width = hashlib.sha256(), here.element_size()
    floats = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    found: Dict[str, Any] = {
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": list(tensor.shape),
        "nonfinite": 0,
        "infinite": 0,
        "first": None,
        "word": "",
    }
    zero = here.numel() > 0
    for begin in range(0, here.numel(), _PIECE):
        piece = here[begin : begin + _PIECE]
        raw = ctypes.string_at(piece.data_ptr(), piece.numel() * width)
        digest.update(raw)
        zero = zero and not raw.strip(b"\0")
        if floats:
            _count(torch, piece, begin, found)
    found["zero"] = zero
    found["sha256"] = digest.hexdigest()
    return found


def _count(torch: Any, piece: Any, begin: int, found: Dict[str, Any]) -> None:
    if piece.element_size() == 1:  # the float8 kinds have few functions of their own
        piece = piece.float()
    bad = ~torch.isfinite(piece)
    count = int(bad.sum())
    if not count:
        return
    found["nonfinite"] += count
    found["infinite"] += count - int(torch.isnan(piece).sum())
    if found["first"] is None:
        at = int(bad.to(torch.uint8).argmax())
        value = piece[at].item()
        found["first"] = begin + at
        if value != value or isinstance(value, complex):
            found["word"] = "NaN"
        else:
            found["word"] = "+Inf" if value > 0 else "-Inf"


def load(torch: Any, path: str) -> Any:
    """The content, as far as ``weights_only=True`` gives it; mapped into memory where possible."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, ValueError, TypeError):  # not a zip file, or an older torch
        return torch.load(path, map_location="cpu", weights_only=True)


def answer(torch: Any, path: str) -> Dict[str, Any]:
    """The line of one file."""
    said: Dict[str, Any] = {
        "path": path, "tensors": {}, "refused": None, "broken": None, "changed": False,
    }  # fmt: skip
    try:
        before = _identity(path)
        content = load(torch, path)
        for count, (name, tensor) in enumerate(named_tensors(torch, content)):
            if count >= _MAX_TENSORS:
                break
            try:
                said["tensors"][name] = look(torch, tensor)
            except (RuntimeError, NotImplementedError, TypeError) as error:  # sparse, meta, ...
                said["tensors"][name] = {"sha256": None, "why": _line(error)}
        said["changed"] = _identity(path) != before
    except Exception as error:  # noqa: BLE001 - a broken file may raise anything
        said["tensors"] = {}
        said["refused" if _is_refusal(error) else "broken"] = _line(error)
    return said


def _identity(path: str) -> Tuple[int, int, int]:
    stat = os.stat(path)
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _is_refusal(error: Exception) -> bool:
    text = str(error)
    return type(error).__name__ == "UnpicklingError" and (
        "weights_only" in text.lower() or "Unsupported" in text
    )


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    chosen: Optional[str] = next((line for line in lines if "Unsupported" in line), None)
    if chosen is not None:  # what torch advises then would load it all the same
        what = chosen.partition("Unsupported")[2].partition(" was not")[0]
        return (
            f"it needs more than tensors (unsupported{what[:200]}); save its state_dict() instead"
        )
    return f"{type(error).__name__}: {(lines or [''])[0][:300]}"


def main() -> None:
    """Answer the question on standard input."""
    question = json.loads(sys.stdin.read())
    out = sys.stdout
    sys.stdout = sys.stderr  # what a library prints must not mix with the answer
    import torch

    torch.set_num_threads(max(1, min(2, torch.get_num_threads())))
    for path in question["files"]:
        out.write(json.dumps(answer(torch, path)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
