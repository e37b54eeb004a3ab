"""Where a run happens: a Protocol and an explicit table."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from seatrial.core.errors import UsageError
from seatrial.engines.engine import Engine, Handle, Launch
from seatrial.engines.launch_once import launch_key, launch_once, recover
from seatrial.engines.local import LocalEngine

__all__ = [
    "ENGINES",
    "Engine",
    "Handle",
    "Launch",
    "engine_named",
    "launch_key",
    "launch_once",
    "recover",
]

ENGINES: Final = MappingProxyType[str, Engine]({"local": LocalEngine()})


def engine_named(name: str) -> Engine:
    """The engine of that name.

    Raises:
        UsageError: there is none; the message lists those there are.
    """
    if name not in ENGINES:
        raise UsageError(
            f"there is no engine {name!r}; there are: {', '.join(ENGINES)}",
            remedy=f'write kind = "{next(iter(ENGINES))}" under [engine]',
        )
    return ENGINES[name]
