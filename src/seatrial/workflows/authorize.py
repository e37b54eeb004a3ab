"""Give, list and revoke authorizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from seatrial.core.authorization import Authorization
from seatrial.core.errors import UsageError
from seatrial.core.redaction import from_environment
from seatrial.core.units import parse_duration, parse_money
from seatrial.store.ledger import open_ledger
from seatrial.store.state_folder import create_state_folder, find_state_folder
from seatrial.workflows.admit import lock_of, with_lock
from seatrial.workflows.prepare import RunRequest, prepare


@dataclass(frozen=True)
class AuthorizeRequest:
    """What was typed, as text."""

    trial_file: str
    who: str
    engine: str
    money: str
    upload: str | None
    expires: str


def authorize(
    request: AuthorizeRequest, cwd: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> Authorization:
    """Record approval of one launch of the trial as it stands now, frozen by its lock.

    Raises:
        UsageError: the trial is refused, the engine is another one, or a value cannot be read.
    """
    prepared = prepare(RunRequest(trial_file=request.trial_file), cwd, environ)
    prepared = with_lock(prepared, lock_of(prepared, environ, say))
    if request.engine != prepared.trial.engine:
        raise UsageError(
            f"{request.trial_file} runs on engine {prepared.trial.engine}, not {request.engine}",
            remedy=f"--engine {prepared.trial.engine}",
        )
    try:
        money, valid_s = parse_money(request.money), parse_duration(request.expires)
    except ValueError as error:
        raise UsageError(str(error), remedy="seatrial authorize --help") from error
    for flag, value in (("--who", request.who), ("--upload", request.upload)):
        if value is not None and not value.isprintable():
            raise UsageError(
                f"{flag} {value!r} holds a character that cannot be shown",
                remedy="seatrial authorize --help",
            )
    redactor = from_environment(environ, prepared.trial.runner.secrets, prepared.argv)
    now = datetime.now(timezone.utc)
    create_state_folder(prepared.state)
    with open_ledger(prepared.state.ledger) as ledger:
        return ledger.authorize(
            who=redactor.text(request.who),
            engine=request.engine,
            money=money,
            plan_sha256=prepared.plan.sha256(),
            expires=now + timedelta(seconds=valid_s),
            now=now,
            upload=None if request.upload is None else redactor.text(request.upload),
        )


def list_authorizations(cwd: str, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every authorization of this state folder with its state, oldest first."""
    state = find_state_folder(cwd, environ)
    create_state_folder(state)
    now = datetime.now(timezone.utc)
    with open_ledger(state.ledger) as ledger:
        return [{**item.to_json(), "state": item.state(now)} for item in ledger.authorizations()]


def revoke(name: str, cwd: str, environ: Mapping[str, str]) -> Authorization:
    """Withdraw an authorization that was not used yet.

    Raises:
        UsageError: there is none of that name, or it was used.
    """
    state = find_state_folder(cwd, environ)
    create_state_folder(state)
    with open_ledger(state.ledger) as ledger:
        return ledger.revoke(name, datetime.now(timezone.utc))
