"""The arguments of every command. Nothing heavy is imported: ``--help`` starts in a blink."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from seatrial import __version__
from seatrial.core.errors import UsageError

COMMANDS = (
    "run",
    "watch",
    "status",
    "list",
    "stop",
    "open",
    "clean",
    "init",
    "freeze",
    "preflight",
    "rules",
    "authorize",
    "schema",
)
# Commands that take words behind ``--``: the training command, or arguments of the runner.
TAKE_WORDS = ("run", "init", "preflight")
_RUN_HELP = """\
Run a training command under bounds and gates, watched from inside, and judge it.

  seatrial run -- python train.py --lr 3e-4     any command, safe defaults
  seatrial run trial.toml                       a trial with its own bounds and gates

Exit codes: 0 pass, 1 fail, 2 usage, 3 could not judge, 4 our bug, 130 interrupted.
A pass means that this run failed to disprove the setup; it never claims more."""


class _Parser(argparse.ArgumentParser):
    """Raises our own error instead of leaving the process, so that one place maps exit codes."""

    def error(self, message: str) -> None:  # type: ignore[override]  # argparse says NoReturn
        # The supervisor's own command is no choice of a person's.
        message = message.replace(", 'finalize'", "").replace(", finalize", "")
        raise UsageError(message, remedy=f"{self.prog} --help")


def _with_json(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object on stdout, prose on stderr"
    )
    return parser


def build_parser() -> argparse.ArgumentParser:
    """The whole command surface."""
    parser = _Parser(
        prog="seatrial",
        description="Proves a model-training setup before money is spent on it.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"seatrial {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    _add_run(commands)
    _add_run_views(commands)
    _add_before_a_run(commands)
    _add_authorize(commands)
    schema = commands.add_parser(
        "schema", help="JSON Schemas of everything read or written", allow_abbrev=False
    )
    schema.add_argument("name", nargs="?", help="name of a schema; without it the names are listed")
    _with_json(schema)
    finalize = commands.add_parser("finalize", allow_abbrev=False)  # called by the supervisor
    finalize.add_argument("record")
    finalize.add_argument("--legs", action="store_true")
    return parser


def _add_run(commands: argparse._SubParsersAction[_Parser]) -> None:
    run = commands.add_parser(
        "run",
        help="run a training command bounded, watched and judged",
        description=_RUN_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="seatrial run [options] TRIAL | -- CMD ...",
        allow_abbrev=False,
    )
    run.add_argument("trial", nargs="?", metavar="TRIAL", help="a trial.toml")
    run.add_argument("--out", metavar="DIR", help="also leave a copy of the record in DIR")
    run.add_argument("--max-steps", metavar="N", help="step cap (optimizer update rounds)")
    run.add_argument("--wall", metavar="TIME", help="time cap: 90s, 10m, 1h30m")
    run.add_argument("--memory", metavar="SIZE", help="memory cap of all processes: 4GiB, 500MB")
    run.add_argument(
        "--heldout-again",
        metavar="REASON",
        help="use held-out cases that were used before; the report shows the reason",
    )
    _with_json(run)


def _add_run_views(commands: argparse._SubParsersAction[_Parser]) -> None:
    run_help = "run id, a unique beginning of one, a record folder, or latest (default)"
    for name, text in (
        ("watch", "follow a run from any terminal; Ctrl-C leaves the run going"),
        ("status", "where a run stands"),
        ("stop", "ask a run to stop cleanly; --force ends it at once"),
        ("open", "open the report in a browser"),
    ):
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.add_argument("run", nargs="?", default="latest", metavar="RUN", help=run_help)
        _with_json(command)
        if name == "stop":
            command.add_argument("--force", action="store_true", help="end it at once")
    listing = commands.add_parser("list", help="runs of this folder", allow_abbrev=False)
    _with_json(listing)
    clean = commands.add_parser(
        "clean",
        help="remove records of ended runs",
        description="Removes records of ended runs, never a live one. Says which runs to remove: "
        "names, --older-than, --keep or --all.",
        allow_abbrev=False,
    )
    clean.add_argument("runs", nargs="*", metavar="RUN", help="run ids or unique beginnings")
    clean.add_argument("--older-than", metavar="TIME", help="runs that began before: 7d, 12h")
    clean.add_argument("--keep", metavar="N", help="all but the newest N")
    clean.add_argument("--all", action="store_true", help="every ended run")
    clean.add_argument("--dry-run", action="store_true", help="only list what would go")
    _with_json(clean)


def _add_before_a_run(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "draft a trial.toml from a training script, without running it"
    init = commands.add_parser(
        "init",
        help=text,
        description=text,
        usage="seatrial init [options] RUNNER [-- ARGS ...]",
        allow_abbrev=False,
    )
    init.add_argument("runner", metavar="RUNNER", help="the training script")
    init.add_argument("--out", metavar="FILE", help="where to write (trial.toml beside the script)")
    init.add_argument("--force", action="store_true", help="replace a file that is there")
    _with_json(init)
    text = "write trial.lock: every input, file and threshold of a trial by its content"
    freeze = commands.add_parser("freeze", help=text, description=text, allow_abbrev=False)
    freeze.add_argument("trial", nargs="?", default="trial.toml", metavar="TRIAL")
    freeze.add_argument("--check", action="store_true", help="write nothing; list every drift")
    _with_json(freeze)
    text = "check a runner or a trial before it is launched"
    preflight = commands.add_parser(
        "preflight",
        help=text,
        description=text + ". Nothing is executed without --dry-run.",
        usage="seatrial preflight [options] RUNNER|TRIAL [-- ARGS ...]",
        allow_abbrev=False,
    )
    preflight.add_argument("runner", metavar="RUNNER", help="a script, or a trial.toml")
    for flag, about in (("--require", "must be in the file"), ("--forbid", "must not be in it")):
        preflight.add_argument(
            flag, metavar="TEXT", action="append", default=[], help=f"literal text that {about}"
        )
    preflight.add_argument(
        "--dry-run", action="store_true", help="also execute: real parsing, the trial's dry run"
    )
    _with_json(preflight)
    text = "explain a rule, a gate or a check; without CODE list them"
    rules = commands.add_parser("rules", help=text, description=text, allow_abbrev=False)
    rules.add_argument("code", nargs="?", metavar="CODE")
    rules.add_argument("--markdown", action="store_true", help="all pages as one document")
    _with_json(rules)


def _add_authorize(commands: argparse._SubParsersAction[_Parser]) -> None:
    text = "record approval to spend or upload: single use, bound to the plan"
    authorize = commands.add_parser("authorize", help=text, description=text, allow_abbrev=False)
    authorize.add_argument("trial", nargs="?", metavar="TRIAL", help="a trial.toml")
    authorize.add_argument("--who", metavar="NAME", help="who approves")
    authorize.add_argument("--engine", metavar="ENGINE", help="the engine that may be used")
    authorize.add_argument("--money", metavar="MONEY", help="money cap: '2.00 USD'")
    authorize.add_argument("--upload", metavar="TARGET", help="private target that may be written")
    authorize.add_argument("--expires", metavar="TIME", default="24h", help="valid for (24h)")
    authorize.add_argument("--list", action="store_true", help="list authorizations")
    authorize.add_argument("--revoke", metavar="ID", help="withdraw an unused authorization")
    _with_json(authorize)


def split_command(argv: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Cut at the first ``--``: our own arguments, and the command behind it (None without one)."""
    if "--" not in argv:
        return _with_negative_values(argv), None
    at = list(argv).index("--")
    return _with_negative_values(argv[:at]), list(argv[at + 1 :])


def _with_negative_values(argv: Sequence[str]) -> list[str]:
    """Bind ``--wall -5s`` to one word, so that the message is about the value and not the flag."""
    bound: list[str] = []
    for word in argv:
        negative = word[:1] == "-" and word[1:2].isdigit()
        if negative and bound and bound[-1].startswith("--") and "=" not in bound[-1]:
            bound[-1] += "=" + word
        else:
            bound.append(word)
    return bound


def forgotten_dashes(own: Sequence[str]) -> str:
    """The command that was meant when ``--`` before the training command was left out."""
    words = list(own[1:])
    if list(own[:1]) != ["run"] or len(words) < 2 or words[0].startswith("-"):
        return ""
    return "" if words[0].endswith(".toml") else "seatrial run -- " + shlex.join(words)
