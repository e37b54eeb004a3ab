"""Folders for tests of the readers."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534


@pytest.fixture
def as_user() -> Iterator[Path]:
    """A folder of an ordinary user, with this process acting as that user (root may do all)."""
    folder = Path(tempfile.mkdtemp(prefix="seatrial-tests-"))
    was_root = os.geteuid() == 0
    if was_root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if was_root:
            os.seteuid(0)
        for parent, folders, _files in os.walk(folder):
            for name in folders:
                os.chmod(os.path.join(parent, name), 0o700)
        shutil.rmtree(folder, ignore_errors=True)
