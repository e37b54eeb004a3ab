"""``trial.toml``: read with every key checked, paths resolved, nothing guessed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from seatrial.core.errors import UsageError
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
from seatrial.core.units import parse_duration, parse_money, parse_size
from seatrial.readers.bounds import BoundFlags, DeclaredBounds, bounds_for
from seatrial.readers.json_file import NotRegularError, open_regular

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_BYTES = 2**20


def read_trial(path: str, flags: BoundFlags | None = None) -> Trial:
    """Read a trial file. Relative paths in it are seen from its folder.

    ``[bounds]`` must give ``max_steps`` and ``wall`` (or a flag does); memory is 80% of the machine
    and money nothing unless they say otherwise.

    Args:
        path: the file.
        flags: bounds typed on the command line; they go before those of the file.

    Raises:
        UsageError: anything about the file that is not right, with its line where one is found.
    """
    if path.endswith((".py", ".sh")):
        program = "python" if path.endswith(".py") else "bash"
        raise UsageError(
            f"{path!r} is a script, no trial file",
            remedy=f"seatrial run -- {program} {path}, or draft a trial: seatrial init {path}",
        )
    text = _read_text(path)
    table = _parse(path, text)
    declared_schema = table.get("schema")
    if type(declared_schema) is not int or declared_schema != 1:  # neither true nor 1.0
        raise UsageError(
            f"{path}: schema is {declared_schema!r}"
            if "schema" in table
            else f"{path}: schema is missing",
            remedy="write schema = 1 as the first line",
        )
    model = _validated(path, text, table)
    return _build(os.path.realpath(path), path, model, flags or BoundFlags())


def _read_text(path: str) -> str:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(
            f"there is no trial file {path!r}", remedy="seatrial run -- python train.py"
        ) from None
    except NotRegularError as error:
        inside = os.path.join(path, "trial.toml")
        raise UsageError(
            f"{path!r} cannot be a trial file: {error}",
            remedy=f"seatrial run {inside}" if "\0" not in path and os.path.isdir(path) else "",
        ) from error
    except OSError as error:
        raise UsageError(f"the trial file {path!r} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"the trial file {path!r} is larger than {MAX_BYTES} bytes")
    if b"\0" in data:
        raise UsageError(f"{path!r} is binary (a NUL byte at {data.index(0)}), no trial file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{path}:{line}: byte {data[error.start]:#04x} is not UTF-8", remedy="save it as UTF-8"
        ) from error


def _parse(path: str, text: str) -> dict[str, Any]:
    import tomllib

    from seatrial.readers.trial_faults import syntax_fault

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise syntax_fault(path, text, str(error)) from error
    except (RecursionError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {error}") from error


def _validated(path: str, text: str, table: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from seatrial.readers.trial_faults import model_fault
    from seatrial.readers.trial_model import trial_model

    model = trial_model()
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise model_fault(path, text, error, model) from error


def _build(real: str, path: str, model: Any, flags: BoundFlags) -> Trial:
    folder = os.path.dirname(real)

    def at(relative: str | None) -> str | None:
        return None if relative is None else os.path.normpath(os.path.join(folder, relative))

    _refuse_contradictions(path, model)
    runner = model.runner
    return Trial(
        name=model.name or _default_name(real),
        hypothesis=model.hypothesis,
        seed=model.seed,
        runner=RunnerSpec(
            command=tuple(runner.command),
            dry_run=tuple(runner.dry_run),
            env=dict(runner.env),
            secrets=tuple(runner.secrets),
            cwd=at(runner.cwd) or folder,
        ),
        bounds=_bounds(path, model.bounds, flags),
        inputs=tuple(
            InputSpec(
                id=entry.id,
                role=entry.role,
                path=at(entry.path),
                hub=entry.hub,
                revision=entry.revision,
                split=entry.split,
            )
            for entry in model.input
        ),
        output=OutputSpec(
            dir=at(model.output.dir), hub=model.output.hub, private=model.output.private
        ),
        gates=tuple(
            GateSpec(gate.metric, gate.op, float(gate.value), gate.from_step, gate.window)
            for gate in model.gate
        ),
        heldout=_heldout(model.heldout, folder),
        require=tuple(model.checks.require),
        disable=tuple(model.checks.disable),
        resume_command=tuple(model.resume.command),
        engine=model.engine.kind,
        rehearse=model.engine.rehearse,
        file=real,
    )


def _default_name(real: str) -> str:
    stem = os.path.splitext(os.path.basename(real))[0]
    return os.path.basename(os.path.dirname(real)) or stem if stem == "trial" else stem


def _bounds(path: str, table: Any, flags: BoundFlags) -> Bounds:
    declared = DeclaredBounds(
        max_steps=table.max_steps,
        wall_s=None if table.wall is None else parse_duration(table.wall),
        memory_bytes=None if table.memory is None else parse_size(table.memory),
        money=None if table.money is None else parse_money(table.money),
    )
    return bounds_for(flags, declared, trial_file=path)


def _heldout(table: BaseModel | None, folder: str) -> HeldoutSpec | None:
    if table is None:
        return None
    values: dict[str, Any] = dict(table)
    gates = values.pop("gate")
    for name in ("cases", "prompt", "validator", "normalize", "loader"):
        if values[name] is not None:
            values[name] = os.path.normpath(os.path.join(folder, values[name]))
    return HeldoutSpec(
        **values, gates=tuple(HeldoutGate(gate.field, gate.op, gate.value) for gate in gates)
    )


def _refuse_contradictions(path: str, model: Any) -> None:
    """What no single key shows."""
    if not model.runner.command[0].strip():
        raise UsageError(f"{path}: runner.command is empty: its first word is the program")
    seen: set[str] = set()
    for entry in model.input:
        if entry.id in seen:
            raise UsageError(f"{path}: two inputs have the id {entry.id!r}")
        seen.add(entry.id)
        if (entry.path is None) == (entry.hub is None):
            raise UsageError(f"{path}: input {entry.id!r} needs either path or hub")
        if entry.hub is None and entry.revision is not None:
            raise UsageError(f"{path}: input {entry.id!r} has a revision and no hub")
    both = sorted(set(model.runner.secrets) & set(model.runner.env))
    if both:
        raise UsageError(f"{path}: {both[0]} is under runner.env and runner.secrets")
    clash = sorted(set(model.checks.require) & set(model.checks.disable))
    if clash:
        raise UsageError(f"{path}: {clash[0]!r} is under checks.require and checks.disable")
