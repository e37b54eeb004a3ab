"""JSON Schemas (2020-12) of what is read and written; output may carry more fields than these."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

SCHEMAS = ("run", "command", "watch", "plan", "event", "trial", "lock")


def load_schema(name: str) -> dict[str, Any]:
    """The schema of that name.

    ``run`` is what ``seatrial run --json`` prints, ``command`` what every other command prints,
    ``watch`` one line of ``seatrial watch --json``, ``plan`` the ``plan.json`` of a record,
    ``event`` one line of an event file, ``trial`` a ``trial.toml``, ``lock`` a ``trial.lock``.

    Raises:
        KeyError: there is no schema of that name.
    """
    if name not in SCHEMAS:
        raise KeyError(f"no schema {name!r}; there are: {', '.join(SCHEMAS)}")
    text = resources.files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    value: dict[str, Any] = json.loads(text)
    return value
