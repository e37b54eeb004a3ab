"""The one message from the terminal to the supervisor, and how the supervisor is started.

The real command line and environment travel on standard input only: they never touch the disk.
"""

from __future__ import annotations

import json
import os.path
import sys
from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple

from seatrial.core.plan import Plan


@dataclass(frozen=True)
class LaunchMessage:
    """What the supervisor needs: plan, real command line, the runner's whole environment."""

    plan: Plan
    argv: Tuple[str, ...] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)

    def to_bytes(self) -> bytes:
        """The message as one JSON object. Bytes that are no text survive as lone surrogates."""
        value = {"plan": self.plan.to_json(), "argv": list(self.argv), "env": dict(self.env)}
        return json.dumps(value, ensure_ascii=True).encode("ascii")

    @classmethod
    def from_bytes(cls, raw: bytes) -> LaunchMessage:
        """Read the message.

        Raises:
            ValueError: not such an object; the text names the part, never a value.
        """
        try:
            value = json.loads(raw)
        except ValueError:
            raise ValueError(f"the launch message ({len(raw)} bytes) is not JSON") from None
        if not isinstance(value, dict):
            raise ValueError("the launch message is not a JSON object")
        argv, env = value.get("argv"), value.get("env")
        if not isinstance(argv, list) or not argv or not all(isinstance(a, str) for a in argv):
            raise ValueError("argv in the launch message is not a list of texts")
        if not isinstance(env, dict) or not all(isinstance(item, str) for item in env.values()):
            raise ValueError("env in the launch message is not an object of texts")
        try:
            plan = Plan.from_json(value["plan"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"plan in the launch message is incomplete: {error!r}") from None
        if not os.path.isabs(plan.record) or not plan.run_id:
            raise ValueError("the plan names no absolute record folder or no run id")
        return cls(plan=plan, argv=tuple(argv), env=env)


def entry_command(python: Optional[str] = None) -> Tuple[str, ...]:
    """The command that starts guard and supervisor; it reads a ``LaunchMessage`` on stdin.

    Start it with ``start_new_session=True``. Exit codes are in ``supervisor.guard``.

    Args:
        python: interpreter, 3.9 or newer; ours by default.
    """
    entry = os.path.join(os.path.dirname(os.path.abspath(__file__)), "entry.py")
    return (python or sys.executable, "-I", "-S", entry)
