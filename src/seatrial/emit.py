"""Metrics of a script's own, for gates and curves: ``from seatrial.emit import emit``.

Does nothing outside a run, so a script may keep the call. Inside a run ``seatrial`` can always be
imported, also where it is not installed.
"""

from __future__ import annotations

import sys
from typing import Any, Mapping, Optional


def emit(metrics: Mapping[str, float], step: Optional[int] = None) -> None:
    """Write metrics as an ``eval`` event of source ``emit``.

    Args:
        metrics: numbers by name, for example ``{"safety/refusal_rate": 0.98}``.
        step: step they belong to; the current update round when None.
    """
    module = sys.modules.get("seatrial.probe.session")
    session = module.current() if module is not None else None
    if session is None:
        return
    # A value that is no number is noted, not raised: outside a run it would not raise either.
    session.faults.guard("emit", _write)(session, metrics, step)


def _write(session: Any, metrics: Mapping[str, float], step: Optional[int]) -> None:
    session.write(
        "eval",
        {
            "step": session.rounds.step if step is None else int(step),
            "segment": session.rounds.segment,
            "metrics": {str(name): float(value) for name, value in metrics.items()},
            "source": "emit",
        },
    )
