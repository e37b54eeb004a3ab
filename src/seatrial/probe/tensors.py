"""Reading tensors without changing them: values, digests, norms."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

DIGEST_BYTES = 1 << 30  # of one save; hashing more would be felt in the run's time
_MAX_TENSORS = 10_000
_MAX_DEPTH = 12


def is_integer(tensor: Any) -> bool:
    """Whether a tensor holds whole numbers or booleans."""
    return not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def local(tensor: Any) -> Any:
    """The part of a tensor that this rank holds; no collective is called."""
    to_local = getattr(tensor, "to_local", None)
    return tensor if to_local is None else to_local()


def raw_bytes(tensor: Any) -> bytes:
    """The tensor's elements in order, as they lie in memory (little endian everywhere we run)."""
    here = local(tensor).detach().to("cpu").contiguous()
    size = here.numel() * here.element_size()
    return ctypes.string_at(here.data_ptr(), size) if size else b""


def sha256(tensor: Any) -> str:
    """SHA-256 of the tensor's elements, without dtype and shape: what a checkpoint file holds."""
    return hashlib.sha256(raw_bytes(tensor)).hexdigest()


def inputs_digest(tensors: Dict[str, Any], limit: int) -> Optional[str]:
    """SHA-256 over name, dtype, shape and elements of the integer tensors, in order of name.

    None when there is none, or when they hold more than ``limit`` bytes.
    """
    chosen = [(name, t) for name, t in sorted(tensors.items()) if is_integer(t)]
    if not chosen or sum(t.numel() * t.element_size() for _, t in chosen) > limit:
        return None
    digest = hashlib.sha256()
    for name, tensor in chosen:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def named_tensors(torch: Any, value: Any) -> Iterator[Tuple[str, Any]]:
    """Every tensor inside nested dicts, lists and modules, with a dotted name."""
    return itertools.islice(_walk(torch, value, "", 0), _MAX_TENSORS)


def _walk(torch: Any, value: Any, name: str, depth: int) -> Iterator[Tuple[str, Any]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, torch.Tensor):
        yield name or "tensor", value
    elif isinstance(value, torch.nn.Module):
        for key, tensor in (*value.named_parameters(), *value.named_buffers()):
            yield f"{name}.{key}" if name else key, tensor
    elif isinstance(value, dict) or hasattr(value, "items"):
        for key, item in value.items():
            yield from _walk(torch, item, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _walk(torch, item, f"{name}.{index}" if name else str(index), depth + 1)


def digests(tensors: Iterable[Tuple[str, Any]]) -> Dict[str, Optional[str]]:
    """SHA-256 of each tensor by name; None for those without plain data or beyond 1 GiB."""
    found: Dict[str, Optional[str]] = {}
    room = DIGEST_BYTES
    for name, tensor in tensors:
        try:
            room -= tensor.numel() * tensor.element_size()
            found[name] = sha256(tensor) if room >= 0 else None
        except (RuntimeError, NotImplementedError, TypeError):  # noqa: PERF203 - sparse, meta, ...
            found[name] = None
    return found


def total_norm(torch: Any, grads: Sequence[Any]) -> Any:
    """The 2-norm over all gradients as a 0-d tensor on one device, or None without any.

    Handles mixed devices and dtypes, sparse gradients and sharded tensors (their local part).
    """
    groups: Dict[Tuple[Any, Any], List[Any]] = {}
    for grad in grads:
        here = local(grad).detach()
        if here.is_sparse:
            here = here.coalesce().values()
        if here.numel():
            groups.setdefault((here.device, here.dtype), []).append(here)
    if not groups:
        return None
    norms: List[Any] = []
    with torch.no_grad():
        for members in groups.values():
            try:
                norms.extend(torch._foreach_norm(members))  # noqa: SLF001 - what clipping itself uses
            except RuntimeError:  # noqa: PERF203 - a dtype or layout without a fused form
                norms.extend(torch.linalg.vector_norm(member.float()) for member in members)
        first = norms[0].device
        stacked = torch.stack([norm.to(first, torch.float32) for norm in norms])
        return torch.linalg.vector_norm(stacked)


def number(value: Any) -> Optional[float]:
    """A scalar as a float: of Python, or of a tensor (waits for its device)."""
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    return float(local(value).detach().item())


def root_sum_square(parts: Iterable[Optional[float]]) -> Optional[float]:
    """The norm of norms; None when every part is."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return (
        math.sqrt(math.fsum(part * part for part in known))
        if all(math.isfinite(part) for part in known)
        else sum(abs(part) for part in known)
    )
