"""An empty folder for a child to stand in, removed afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator


def scratch_folder() -> Iterator[str]:
    """Yields the path once; asked again, or closed, it removes the folder and what is in it."""
    folder = tempfile.mkdtemp(prefix="seatrial-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
