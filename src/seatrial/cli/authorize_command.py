"""``seatrial authorize``: approval to spend or upload, single use, bound to one plan."""

from __future__ import annotations

import argparse
import os

from seatrial.cli.output import command_object, current_folder, print_json, print_text, say
from seatrial.core.authorization import Authorization
from seatrial.core.errors import UsageError


def authorize_command(options: argparse.Namespace) -> int:
    """Give, list or revoke authorizations."""
    from seatrial.workflows import authorize as workflow

    cwd = current_folder()
    if options.list:
        listed = workflow.list_authorizations(cwd, dict(os.environ))
        if options.json:
            print_json(command_object("authorize", listed))
        else:
            print_text("\n".join(map(_line, listed)) or "no authorizations")
        return 0
    if options.revoke is not None:
        changed = workflow.revoke(options.revoke, cwd, dict(os.environ))
        return _answer(options, changed, f"revoked authorization {changed.id}")
    for flag in ("trial", "who", "engine", "money"):
        if getattr(options, flag) is None:
            raise UsageError(
                f"an authorization needs {'a trial file' if flag == 'trial' else '--' + flag}",
                remedy="seatrial authorize trial.toml --who NAME --engine NAME --money '2.00 USD'",
            )
    given = workflow.authorize(
        workflow.AuthorizeRequest(
            trial_file=options.trial,
            who=options.who,
            engine=options.engine,
            money=options.money,
            upload=options.upload,
            expires=options.expires,
        ),
        cwd,
        dict(os.environ),
        say,
    )
    text = (
        f"authorization {given.id}: {given.who} allows one launch of plan "
        f"{given.plan_sha256[:12]} on {given.engine}, up to {given.money}, uploads to "
        f"{given.upload or 'nowhere'}, until {given.expires.isoformat(timespec='seconds')}"
    )
    return _answer(options, given, text)


def _answer(options: argparse.Namespace, given: Authorization, text: str) -> int:
    if options.json:
        print_json(command_object("authorize", given.to_json()))
    else:
        print_text(text)
    return 0


def _line(value: dict[str, object]) -> str:
    return (
        f"{value['id']}  {value['state']:<8}  {value['engine']}  {value['money']}  "
        f"plan {str(value['plan_sha256'])[:12]}  by {value['who']}  until {value['expires']}"
    )
