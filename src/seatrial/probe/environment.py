"""The environment of a rank: versions, threads, devices, process group. No secret values."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any, Dict, Optional

_PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "deepspeed",
    "lightning",
    "safetensors",
    "tokenizers",
    "numpy",
)
_NAMES = frozenset(
    {
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "CUDA_VISIBLE_DEVICES",
        "CUBLAS_WORKSPACE_CONFIG",
        "PYTHONHASHSEED",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "TOKENIZERS_PARALLELISM",
        "HF_HUB_OFFLINE",
    }
)
_PREFIXES = ("TORCH_", "NCCL_", "GLOO_", "ACCELERATE_")


def summarize(torch: Any, argv: Any) -> Dict[str, Any]:
    """The data of an ``env`` event. ``argv`` must be free of secrets already."""
    cuda = torch.cuda.is_available()
    world, backend = process_group(torch)
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "torch": str(torch.__version__),
        "packages": _versions(),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "device_count": torch.cuda.device_count() if cuda else 0,
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "world_size": world,
        "local_rank": os.environ.get("LOCAL_RANK"),
        "backend": backend,
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "env": _chosen(),
        "argv": list(argv),
        "cwd": _cwd(),
    }


def process_group(torch: Any) -> Any:
    """World size and backend of the process group that is really there; (1, None) without one."""
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1, None
    return distributed.get_world_size(), str(distributed.get_backend())


def _versions() -> Dict[str, str]:
    """Versions of packages that this process has imported, not of all that are installed."""
    found: Dict[str, str] = {}
    for name in _PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


def _chosen() -> Dict[str, str]:
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name in _NAMES or name.startswith(_PREFIXES)
    }


def _cwd() -> Optional[str]:
    try:
        return os.getcwd()
    except OSError:
        return None
