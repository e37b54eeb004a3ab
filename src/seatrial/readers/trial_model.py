"""The shape of ``trial.toml`` as pydantic models. Imported only when a trial is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seatrial.core.secret_shapes import looks_secret_name
from seatrial.core.trial import GATE_OPS, INPUT_ROLES
from seatrial.core.units import parse_duration, parse_money, parse_size

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_STEPS = 10**9
# What a trial may require. "probe.steps" is always required.
CHECKS = (
    "probe.steps",
    "checkpoint",
    "best_checkpoint",
    "resume",
    "heldout",
    "shadow",
    "inputs",
)
DURATION = r"^\s*(\d+(\.\d+)?[smhd])+\s*$"
SIZE = r"^\s*\d+(\.\d+)?\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)\s*$"
MONEY = r"^\s*\d+(\.\d{1,6})?\s+[A-Z]{3}\s*$"
NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
FUNCTION = r"^.+\.py:[A-Za-z_][A-Za-z0-9_]*$"


def gate_codes() -> tuple[str, ...]:
    """Gates that a trial may switch off: all but its bounds."""
    from seatrial.core.gates import GATES

    return tuple(gate.info.code for gate in GATES if not gate.info.bound)


def _parsed(parse: Callable[[str], Any]) -> Callable[[str], str]:
    def check(text: str) -> str:
        parse(text)
        return text

    return check


def _plain(text: str) -> str:
    if "\0" in text:
        raise ValueError("it holds a NUL byte")
    return text


def _given(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return _plain(text)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no threshold: nothing is ever compared with it")
    return value


def _env_names(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if looks_secret_name(name):
            raise ValueError(
                f"{name} looks like a secret, and a trial is a file that gets shared; "
                "put the name under secrets and export the value"
            )
    return value


def trial_model() -> type[BaseModel]:
    """The model of a whole trial file. Built at the first call: pydantic takes its time."""
    global _MODEL  # noqa: PLW0603 - a cache of one value that never changes
    if _MODEL is None:
        _MODEL = _build()
    return _MODEL


_MODEL: type[BaseModel] | None = None


def trial_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a trial file, as ``seatrial schema trial`` publishes it."""
    generated: dict[str, Any] = _without_titles(trial_model().model_json_schema(by_alias=True))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:seatrial:trial:1",
        "title": "trial.toml",
        "description": "A trial: the smallest experiment that can disprove a setup. [bounds] needs "
        "max_steps and wall, here or as flags. Relative paths are seen from the file's folder.",
        **generated,
    }


def _without_titles(node: Any) -> Any:
    """The titles that pydantic makes up say nothing and differ between its versions."""
    if isinstance(node, dict):
        return {
            key: {name: _without_titles(item) for name, item in value.items()}
            if key in ("properties", "$defs")
            else _without_titles(value)
            for key, value in node.items()
            if key != "title"
        }
    return [_without_titles(item) for item in node] if isinstance(node, list) else node


def _build() -> type[BaseModel]:
    from typing import Annotated, Literal, Optional, Union

    from pydantic import AfterValidator, ConfigDict, Field, create_model

    base: Any = create_model(
        "Table", __config__=ConfigDict(extra="forbid", strict=True, frozen=True)
    )
    text: Any = Annotated[str, AfterValidator(_plain)]
    given: Any = Annotated[str, Field(min_length=1), AfterValidator(_given)]
    function: Any = Annotated[str, Field(pattern=FUNCTION), AfterValidator(_plain)]
    number: Any = Annotated[float, AfterValidator(_finite)]
    operator: Any = Literal[GATE_OPS]
    variable: Any = Annotated[str, Field(pattern=NAME)]

    def unit(pattern: str, parse: Callable[[str], Any]) -> Any:
        schema: Any = {"pattern": pattern}
        return Annotated[str, Field(json_schema_extra=schema), AfterValidator(_parsed(parse))]

    def table(name: str, **columns: Any) -> Any:
        return create_model(name, __base__=base, **columns)

    def listed(kind: Any) -> tuple[Any, Any]:
        return (list[kind], Field(default_factory=list))

    bounds = table(
        "Bounds",
        max_steps=(Optional[Annotated[int, Field(ge=1, le=MAX_STEPS)]], None),
        wall=(Optional[unit(DURATION, parse_duration)], None),
        memory=(Optional[unit(SIZE, parse_size)], None),
        money=(Optional[unit(MONEY, parse_money)], None),
    )
    source = table(
        "Input",
        id=(given, ...),
        role=(Literal[INPUT_ROLES], ...),
        path=(Optional[given], None),
        hub=(Optional[given], None),
        revision=(Optional[given], None),
        split=(Optional[given], None),
    )
    runner = table(
        "Runner",
        command=(Annotated[list[text], Field(min_length=1)], ...),
        dry_run=listed(text),
        env=(
            Annotated[dict[variable, text], AfterValidator(_env_names)],
            Field(default_factory=dict),
        ),
        secrets=listed(variable),
        cwd=(Optional[given], None),
    )
    output = table(
        "Output", dir=(Optional[given], None), hub=(Optional[given], None), private=(bool, True)
    )
    gate = table(
        "Gate",
        metric=(given, ...),
        op=(operator, ...),
        value=(number, ...),
        from_step=(Annotated[int, Field(ge=0, le=MAX_STEPS)], 0),
        window=(Annotated[int, Field(ge=1, le=10**6)], 1),
    )
    heldout_gate = table(
        "HeldoutGate",
        field=(given, ...),
        op=(operator, ...),
        value=(Union[bool, number, text], ...),
    )
    heldout = table(
        "Heldout",
        cases=(given, ...),
        prompt=(Optional[given], None),
        validator=(Optional[function], None),
        normalize=(Optional[function], None),
        loader=(Optional[function], None),
        max_new_tokens=(Optional[Annotated[int, Field(ge=1, le=10**6)]], None),
        gate=listed(heldout_gate),
    )
    checks = table(
        "Checks",
        require=listed(Literal[CHECKS]),
        disable=listed(Literal[(*CHECKS[1:], *gate_codes())]),
    )
    resume = table("Resume", command=listed(text))
    engine = table("Engine", kind=(given, "local"), rehearse=(bool, False))
    return create_model(
        "Trial",
        __base__=base,
        schema_=(Literal[1], Field(alias="schema")),
        name=(text, ""),
        hypothesis=(text, ""),
        seed=(Annotated[int, Field(ge=0, lt=2**32)], 17),
        bounds=(bounds, Field(default_factory=bounds)),
        input=listed(source),
        runner=(runner, ...),
        output=(output, Field(default_factory=output)),
        gate=listed(gate),
        heldout=(Optional[heldout], None),
        checks=(checks, Field(default_factory=checks)),
        resume=(resume, Field(default_factory=resume)),
        engine=(engine, Field(default_factory=engine)),
    )
