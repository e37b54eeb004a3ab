"""From what was typed to a plan: everything that can be refused is refused here, before launch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from seatrial.core.errors import UsageError
from seatrial.core.gates.settings import settings_for
from seatrial.core.plan import Plan
from seatrial.core.redaction import Redactor, from_environment
from seatrial.core.runner_env import runner_environment
from seatrial.core.trial import RunnerSpec, Trial
from seatrial.core.trial_json import trial_to_json
from seatrial.engines import Engine, engine_named
from seatrial.readers.bounds import BoundFlags, bounds_for
from seatrial.readers.command import check_command
from seatrial.readers.machine import available_cores
from seatrial.store.export import check_apart, check_out_folder
from seatrial.store.state_folder import StateFolder, find_state_folder

AD_HOC_NAME = "ad-hoc"


@dataclass(frozen=True)
class RunRequest:
    """What was typed: a trial file or a command, and the flags as text."""

    command: tuple[str, ...] | None = None
    trial_file: str | None = None
    flags: BoundFlags = field(default_factory=BoundFlags)
    out: str | None = None


@dataclass(frozen=True)
class Prepared:
    """A launch that nothing speaks against so far. ``argv`` and ``env`` never touch the disk.

    The plan has no run id and no record yet: they are given when the record is made.
    """

    trial: Trial
    plan: Plan
    argv: tuple[str, ...]
    env: Mapping[str, str]
    engine: Engine
    state: StateFolder


def prepare(request: RunRequest, cwd: str, environ: Mapping[str, str]) -> Prepared:
    """Check everything that can be checked before anything is written or started.

    Args:
        request: what was typed.
        cwd: working directory of the person.
        environ: her environment.

    Raises:
        UsageError: a flag, the trial, the command or the output folder is refused.
    """
    trial = _trial_of(request, cwd)
    runner_cwd = trial.runner.cwd or cwd
    environment = runner_environment(environ, trial, available_cores())
    check_command(trial.runner.command, runner_cwd, environment)
    state = find_state_folder(cwd, environ)
    if request.out is not None:
        check_out_folder(request.out)
        check_apart(request.out, state.path)
    engine = _engine_of(trial)
    redactor = from_environment(
        {**environ, **environment}, trial.runner.secrets, trial.runner.command
    )
    return Prepared(
        trial=trial,
        plan=_plan_of(trial, engine, runner_cwd, environ, environment, redactor, request.out),
        argv=trial.runner.command,
        env=environment,
        engine=engine,
        state=state,
    )


def _engine_of(trial: Trial) -> Engine:
    try:
        return engine_named(trial.engine)
    except UsageError as error:
        raise UsageError(f"{trial.file}: {error.message}", remedy=error.remedy) from error


def _trial_of(request: RunRequest, cwd: str) -> Trial:
    if request.trial_file is not None:
        from seatrial.readers.trial_toml import read_trial

        return read_trial(request.trial_file, request.flags)
    command = request.command or ()
    if not command:
        raise UsageError("there is no command behind --", remedy="seatrial run -- python train.py")
    return Trial(
        name=AD_HOC_NAME,
        runner=RunnerSpec(command=command, cwd=cwd),
        bounds=bounds_for(request.flags),
        ad_hoc=True,
    )


def _plan_of(
    trial: Trial,
    engine: Engine,
    cwd: str,
    environ: Mapping[str, str],
    environment: Mapping[str, str],
    redactor: Redactor,
    out: str | None,
) -> Plan:
    bounds = trial.bounds
    plan = Plan(
        run_id="",
        record="",
        command=redactor.argv(trial.runner.command),
        cwd=cwd,
        max_steps=bounds.max_steps,
        wall_s=bounds.wall_s,
        memory_bytes=bounds.memory_bytes,
        ad_hoc=trial.ad_hoc,
        sources=dict(bounds.sources),
        name=trial.name,
        env_policy="inherit" if trial.ad_hoc else "allowlist",
        env_names=tuple(sorted(environment)),
        env_left_out=tuple(sorted(set(environ) - set(environment))),
        secret_names=trial.runner.secrets,
        finalizer=(sys.executable, "-P", "-m", "seatrial", "finalize"),
        money=str(bounds.money),
        engine=trial.engine,
        trial=redactor.value(trial_to_json(trial)),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        out=None if out is None else os.path.abspath(out),
    )
    price = engine.price_per_hour(plan)
    return replace(plan, price_per_hour=str(price), gates=settings_for(trial, price).to_json())
