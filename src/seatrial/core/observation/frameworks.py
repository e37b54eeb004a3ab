"""Which training library did the work."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Tuple

from seatrial.core.event_data import text
from seatrial.core.observation.values import ModelView

# Named most specific first; what comes first is "the" framework of the run.
_DRIVERS = ("trl", "transformers", "lightning", "accelerate", "deepspeed")
_ALIASES = {"trainer": "transformers"}


def frameworks_of(
    env: Mapping[str, Any], models: Iterable[ModelView], sources: Iterable[str]
) -> Tuple[str, ...]:
    """Libraries that took part, the one that drove the steps first; empty when nothing says so.

    A library counts as driver only when its steps were seen (``source``) or the probe named it;
    that a package is installed proves nothing. ``peft`` takes part when a model carries LoRA.

    Args:
        env: data of the lowest rank's ``env`` event.
        models: summaries of the models.
        sources: ``source`` of step and eval events.
    """
    used = {_ALIASES.get(source.lower(), source.lower()) for source in sources}
    found: List[str] = [text(env, "framework")] if text(env, "framework") else []
    found += [name for name in _DRIVERS if name in used]
    found = found or ["torch"]
    if any(model.data.get("lora") for model in models):
        found.append("peft")
    return tuple(dict.fromkeys(found))
