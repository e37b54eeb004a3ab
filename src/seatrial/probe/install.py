"""Start of the probe in one interpreter: cheap until torch is imported."""

from __future__ import annotations

import os
import sys

from seatrial.probe.attach import Attachment
from seatrial.probe.import_hooks import AfterImport
from seatrial.probe.settings import Settings

TYPE_CHECKING = False  # typing itself would cost every interpreter of the run milliseconds
if TYPE_CHECKING:
    from typing import Any, List

_started: List[Any] = []


def start(record: str) -> None:
    """Say that this interpreter is here and wait for torch. Called once, by the bootstrap."""
    if _started:
        return
    settings = Settings(os.path.abspath(record), os.environ)
    attachment = Attachment(settings.record)
    attachment.write()
    _started.append((settings, attachment))

    def on_fault(name: str, error: Exception) -> None:
        attachment.update(error=f"{name}: {type(error).__name__}")
        session = sys.modules.get("seatrial.probe.session")
        current = session.current() if session else None
        if current is not None:
            current.faults.note(f"install {name}", error)

    hooks = AfterImport(on_fault)

    def on_torch(torch: Any) -> None:
        if "seatrial.probe.session" in sys.modules:  # torch is being reloaded
            return
        from seatrial.probe.torch_install import install

        install(torch, settings, attachment, hooks)

    hooks.add("torch", on_torch)
    hooks.start()
