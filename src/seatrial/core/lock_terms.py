"""The terms of a trial: what a run must keep to and reach, as one table of plain values."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

from seatrial.core.lock_values import hash_of
from seatrial.core.trial import Trial

# Up to here the terms name each held-out case, so that a later lock can tell which are gone. They
# are kept for each of 50 ancestors, so longer lists are told by count and one hash.
MAX_NAMED_CASES = 500
_SHORT = 12


def terms_of(
    trial: Trial,
    placed: Callable[[str], str],
    cases: Optional[Sequence[str]],
    judges: Mapping[str, str],
) -> dict[str, Any]:
    """The terms of a trial.

    Args:
        trial: the trial.
        placed: writes a path as a lock does.
        cases: hash of each held-out case; None without ``[heldout]``.
        judges: hash of the prompt, validator, normalizer and loader with their modules.
    """
    bounds = trial.bounds
    heldout = trial.heldout
    return {
        "bounds": {
            "max_steps": bounds.max_steps,
            "wall_s": float(bounds.wall_s),
            # 80% of the machine is another number elsewhere, and the same term.
            "memory_bytes": None if bounds.is_default("memory_bytes") else bounds.memory_bytes,
            "money": str(bounds.money),
        },
        "gates": [dict(vars(gate)) for gate in trial.gates],
        "heldout_gates": [] if heldout is None else [dict(vars(gate)) for gate in heldout.gates],
        "heldout_cases": None if cases is None else _cases(cases),
        "heldout_files": dict(judges),
        "max_new_tokens": None if heldout is None else heldout.max_new_tokens,
        "checks": {"require": sorted(trial.require), "disable": sorted(trial.disable)},
        "seed": trial.seed,
        "hypothesis": trial.hypothesis,
        "output": {
            "dir": None if trial.output.dir is None else placed(trial.output.dir),
            "hub": trial.output.hub,
            "private": trial.output.private,
        },
        "legs": {
            "resume": bool(trial.resume_command),
            "dry_run": bool(trial.runner.dry_run),
            "rehearse": trial.rehearse,
            "engine": trial.engine,
        },
    }


def _cases(cases: Sequence[str]) -> dict[str, Any]:
    ordered = sorted(cases)
    return {
        "count": len(ordered),
        "sha256": hash_of(ordered),
        "named": [case[:_SHORT] for case in ordered] if len(ordered) <= MAX_NAMED_CASES else None,
    }
