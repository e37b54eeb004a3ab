"""Which library drives the training, read off the stack at the moment in which it trains.

That a package is imported proves nothing (transformers imports accelerate, accelerate imports
deepspeed's checks, and so on); that its frame called the optimizer does.
"""

from __future__ import annotations

import sys
from typing import Any, Optional

# Most specific first. A root of a module's name, and what it is called in events.
_DRIVERS = {
    "trl": "trl",
    "transformers": "transformers",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
}
_ORDER = ("trl", "transformers", "lightning", "accelerate", "deepspeed")
_MAX_FRAMES = 100


def current_driver(frame: Any = None) -> Optional[str]:
    """The most specific training library on the stack, None for a loop of the script's own.

    Args:
        frame: where to begin; the caller's when None.
    """
    frame = frame if frame is not None else sys._getframe(1)  # noqa: SLF001 - the way to the stack
    found = set()
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        name = frame.f_globals.get("__name__") or ""
        root = name.partition(".")[0]
        if root in _DRIVERS and _drives(name):
            found.add(_DRIVERS[root])
            if root == "transformers" and _is_trl(frame):
                found.add("trl")
        frame = frame.f_back
    return next((name for name in _ORDER if name in found), None)


def _drives(module: str) -> bool:
    """Of transformers only the Trainer drives; its models run in anybody's loop."""
    return not module.startswith("transformers.") or module.startswith("transformers.trainer")


def _is_trl(frame: Any) -> bool:
    """Whether the Trainer whose method this frame runs is one of TRL's, or made from one."""
    if frame.f_code.co_varnames[:1] != ("self",):
        return False
    owner = type(frame.f_locals.get("self"))
    return any(str(cls.__module__).partition(".")[0] == "trl" for cls in owner.__mro__)
