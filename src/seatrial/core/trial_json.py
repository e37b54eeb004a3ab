"""A trial as JSON inside a plan, and back. What comes back has names of variables, not values."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from typing import Any, Mapping, Optional, Tuple

from seatrial.core.plan import Plan
from seatrial.core.trial import (
    Bounds,
    GateSpec,
    HeldoutGate,
    HeldoutSpec,
    InputSpec,
    OutputSpec,
    RunnerSpec,
    Trial,
)
from seatrial.core.units import Money


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """All fields as plain JSON values, but for the command, which the plan carries redacted."""
    value = asdict(trial)
    value["bounds"]["money"] = str(trial.bounds.money)
    value["runner"]["env"] = sorted(trial.runner.env)
    value["runner"].pop("command")
    plain: dict[str, Any] = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def trial_of_plan(plan: Plan) -> Trial:
    """The trial inside a plan; what an older plan does not say is left to its default.

    The command is the redacted one, ``runner.env`` has empty values.
    """
    told: Mapping[str, Any] = plan.trial or {}
    runner = _table(told, "runner")
    output = _table(told, "output")
    heldout = told.get("heldout")
    env = runner.get("env")
    return Trial(
        name=plan.name,
        runner=RunnerSpec(
            command=plan.command,
            dry_run=_texts(runner.get("dry_run")),
            env={str(name): "" for name in env} if isinstance(env, (list, dict)) else {},
            secrets=_texts(runner.get("secrets")),
            cwd=plan.cwd,
        ),
        bounds=Bounds(
            plan.max_steps, plan.wall_s, plan.memory_bytes, _money(plan.money), plan.sources
        ),
        hypothesis=str(told.get("hypothesis") or ""),
        seed=told.get("seed") if isinstance(told.get("seed"), int) else None,
        inputs=tuple(InputSpec(**_known(InputSpec, item)) for item in told.get("inputs") or ()),
        output=OutputSpec(**_known(OutputSpec, output)),
        gates=tuple(GateSpec(**_known(GateSpec, item)) for item in told.get("gates") or ()),
        heldout=_heldout(heldout) if isinstance(heldout, dict) else None,
        require=_texts(told.get("require")),
        disable=_texts(told.get("disable")),
        resume_command=_texts(told.get("resume_command")),
        engine=plan.engine,
        rehearse=told.get("rehearse") is True,
        ad_hoc=plan.ad_hoc,
        file=str(told["file"]) if told.get("file") else None,
    )


def _heldout(value: Mapping[str, Any]) -> HeldoutSpec:
    known = _known(HeldoutSpec, value)
    gates = known.pop("gates", None) or ()
    return HeldoutSpec(
        **known, gates=tuple(HeldoutGate(**_known(HeldoutGate, gate)) for gate in gates)
    )


def _known(kind: Any, value: Any) -> dict[str, Any]:
    fields = kind.__dataclass_fields__
    return {key: item for key, item in dict(value).items() if key in fields}


def _table(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Optional[Any] = value.get(name)
    return found if isinstance(found, dict) else {}


def _texts(value: Any) -> Tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, (list, tuple)) else ()


def _money(text: str) -> Money:
    amount, _, currency = text.partition(" ")
    try:
        return Money(Decimal(amount), currency or "USD")
    except InvalidOperation:
        return Money(Decimal(0))
