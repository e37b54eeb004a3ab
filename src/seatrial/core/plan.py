"""The plan: everything the supervisor needs, as one JSON object.

It travels to the supervisor on standard input, so secret values reach the child through the
process environment only. ``to_json`` is what lands in the record: the command in it is redacted
and the environment is a list of names.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Tuple

from seatrial.core import strict_json

SCHEMA = "seatrial.plan/1"


@dataclass(frozen=True)
class Plan:
    """One launch of one leg.

    Attributes:
        run_id: folder name of the record.
        record: absolute path of the record.
        leg: ``main`` and, later, resume, rerun, repeat, dry_run, reload, heldout.
        command: argv of the runner, secrets replaced (for reading only).
        cwd: absolute working directory of the runner.
        max_steps, wall_s, memory_bytes: bounds; ``sources`` as in ``core.trial.Bounds``.
        gates: settings of ``core.gates`` as JSON (see ``core.gates.settings``).
        env_policy: ``inherit`` (ad-hoc) or ``allowlist`` (a trial file).
        env_names: names of the variables that the runner sees; never values.
        env_left_out: names that the person's environment has and a trial does not pass on.
        secret_names: variables that the trial declares secret (others are found by their names).
        grace_s: seconds between asking, TERM and KILL.
        out: folder that receives a copy of the record at the end, or None.
        finalizer: command that turns the ended record into result and report; may be empty.
        legs: what executes the user's code besides ``main``, each ``{"name", "wall_s"}``; the
            finalizer makes them, once.
        lock_sha256: of the frozen inputs; None for an ad-hoc run.
        heldout_use: the number of this use of the held-out cases under the lock; 0 for none.
        heldout_again: why they are used again.
    """

    run_id: str
    record: str
    command: Tuple[str, ...]
    cwd: str
    max_steps: int
    wall_s: float
    memory_bytes: int
    ad_hoc: bool
    sources: Mapping[str, str] = field(default_factory=dict)
    leg: str = "main"
    name: str = ""
    gates: Mapping[str, Any] = field(default_factory=dict)
    env_policy: str = "inherit"
    env_names: Tuple[str, ...] = ()
    env_left_out: Tuple[str, ...] = ()
    secret_names: Tuple[str, ...] = ()
    grace_s: float = 10.0
    finalizer: Tuple[str, ...] = ()
    price_per_hour: str = "0"
    money: str = "0 USD"
    engine: str = "local"
    trial: Optional[Mapping[str, Any]] = None
    created: str = ""
    out: Optional[str] = None
    legs: Tuple[Mapping[str, Any], ...] = ()
    lock_sha256: Optional[str] = None
    heldout_use: int = 0
    heldout_again: Optional[str] = None
    schema: str = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in vars(self).items()
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Plan:
        """Read back; unknown keys are ignored.

        Raises:
            ValueError: another schema.
            TypeError: a required field is missing.
        """
        if value.get("schema") != SCHEMA:
            raise ValueError(f"not a {SCHEMA} object: schema is {value.get('schema')!r}")
        known: dict[str, Any] = {
            key: tuple(item) if isinstance(item, list) else item
            for key, item in value.items()
            if key in cls.__dataclass_fields__
        }
        return cls(**known)

    @property
    def legs_s(self) -> float:
        """Seconds that the legs behind the main one may take together."""
        return float(sum(leg.get("wall_s", 0.0) for leg in self.legs))

    def sha256(self) -> str:
        """Hash of what an authorization approves: everything but identity, place and time."""
        value = self.to_json()
        for key in (
            "run_id",
            "record",
            "created",
            "finalizer",
            "out",
            "env_names",
            "env_left_out",
            "heldout_use",
            "heldout_again",
        ):
            value.pop(key)
        text = strict_json.dumps(dict(sorted(value.items())))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()
