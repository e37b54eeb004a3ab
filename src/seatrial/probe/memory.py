"""Memory of this process and of its device."""

from __future__ import annotations

import os
from typing import Any, Optional

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def rss_bytes() -> Optional[int]:
    """Resident bytes now (on macOS: the highest so far), None where neither can be read."""
    try:
        fd = os.open("/proc/self/statm", os.O_RDONLY)
        try:
            return int(os.read(fd, 128).split()[1]) * _PAGE
        finally:
            os.close(fd)
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:
        return None
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def device_bytes(torch: Any) -> Optional[int]:
    """Bytes that torch has allocated on the current CUDA device; None while CUDA is not in use."""
    cuda = torch.cuda
    return int(cuda.memory_allocated()) if cuda.is_initialized() else None
