"""The tensors of a checkpoint's files, and whether they are what is in memory, byte for byte.

Beside ``generate.py``, in the interpreter that trained. Nothing but tensors is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

_MAX_HEADER = 100 << 20
_CHUNK = 8 << 20
_MAX_NAMES = 20
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


class Stored(NamedTuple):
    """A tensor of a file: hash of its bytes, and how to read it again in another precision.

    ``others`` are the hashes of tensors of that name in other parts of the file (an average beside
    the model, say): a loader may take those.
    """

    digest: str
    dtype: str = ""
    path: str = ""
    offset: int = 0
    size: int = 0
    others: Tuple[str, ...] = ()


def saved_tensors(path: str) -> Iterator[Tuple[str, Stored]]:
    """Name, hash and place of each tensor in a safetensors file.

    Raises:
        ValueError: it is no such file.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
        if length > min(size - 8, _MAX_HEADER):
            raise ValueError(f"{path}: its header claims {length} bytes")
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            start = 8 + length + begin
            file.seek(start)
            digest, left = hashlib.sha256(), end - begin
            while left > 0:
                chunk = file.read(min(left, _CHUNK))
                if not chunk:
                    raise ValueError(f"{path}: it ends before the bytes of {name}")
                digest.update(chunk)
                left -= len(chunk)
            yield name, Stored(digest.hexdigest(), entry["dtype"], path, start, end - begin)


def pickled_tensors(path: str) -> Iterator[Tuple[str, Stored]]:
    """The tensors of a state dict that ``torch.save`` wrote. Nothing but tensors is unpickled."""
    import torch

    content = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, dict):
        return
    parts = [part for part in content.values() if isinstance(part, dict)]
    main = next(
        (
            content[key]
            for key in ("model", "state_dict", "model_state_dict")
            if isinstance(content.get(key), dict)
        ),
        content,
    )
    for name, tensor in main.items():
        digest = tensor_digest(tensor) if hasattr(tensor, "detach") else None
        if digest is not None:
            same = (part[name] for part in parts if part is not main and name in part)
            others = (tensor_digest(one) for one in same if hasattr(one, "detach"))
            yield str(name), Stored(digest, others=tuple(one for one in others if one))


def tensor_digest(tensor: Any) -> Optional[str]:
    """Hash of a tensor's bytes in memory; None where there are none to hash."""
    import torch

    try:
        flat = tensor.detach().to("cpu").contiguous().reshape(-1).view(torch.uint8)
        return hashlib.sha256(memoryview(flat.numpy())).hexdigest()
    except (RuntimeError, TypeError, AttributeError, NotImplementedError):
        return None


def state_digest(tensors: Dict[str, Any]) -> str:
    """One hash over all tensors of floating point; another one later: a weight changed."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        if hasattr(tensor, "is_floating_point") and tensor.is_floating_point():
            digest.update(f"{name} {tensor_digest(tensor)}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def cast_digest(stored: Stored, tensor: Any) -> Optional[str]:
    """Hash of a stored tensor brought to the precision that it has in memory; None: the same."""
    import torch

    dtype = getattr(torch, _DTYPES.get(stored.dtype, ""), None)
    if dtype is None or dtype == tensor.dtype or not stored.size:
        return None
    with open(stored.path, "rb") as file:
        file.seek(stored.offset)
        data = bytearray(file.read(stored.size))
    return tensor_digest(torch.frombuffer(data, dtype=dtype).to(tensor.dtype))


def compare(loaded: Dict[str, Any], stored: Dict[str, Stored]) -> Dict[str, Any]:
    """How many of the stored tensors are in memory bit for bit, and which are not.

    A tensor that a library or a loader renamed is found by its bytes.
    """
    equal, cast = 0, 0
    different: List[str] = []
    absent: List[str] = []
    by_bytes: Optional[Set[Optional[str]]] = None
    for name, one in stored.items():
        tensor = loaded.get(name)
        digest = None if tensor is None else tensor_digest(tensor)
        if digest is None:
            if by_bytes is None:
                by_bytes = {tensor_digest(tensor) for tensor in loaded.values()}
            if one.digest in by_bytes:
                equal += 1
            else:
                absent.append(name)
        elif digest == one.digest or digest in one.others:
            equal += 1
        elif one.dtype and cast_digest(one, tensor) == digest:
            equal, cast = equal + 1, cast + 1
        else:
            different.append(name)
    return {
        "tensors_in_files": len(stored),
        "compared": equal + len(different),
        "equal": equal,
        "cast": cast,
        "different": different[:_MAX_NAMES],
        "not_in_memory": absent[:_MAX_NAMES],
    }
