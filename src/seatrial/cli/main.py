"""Entry of the command line, and the one place that maps errors to exit codes.

Our own modules are imported inside ``main``: a Ctrl-C that comes while they load is answered, too.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself would be one more import before ``main``
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from seatrial.workflows.checks import Legs


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (contract: 0, 1, 2, 3, 4, 130)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _prepare_streams()
        return _answer(arguments)
    except KeyboardInterrupt:
        _ignore_interrupts()
        from seatrial.core.verdict import EXIT_INTERRUPTED

        return _report(arguments, EXIT_INTERRUPTED, "interrupted; nothing was started", "")


def _answer(arguments: list[str]) -> int:
    from seatrial.cli.output import discard_stdout
    from seatrial.core.errors import SeatrialError
    from seatrial.core.verdict import EXIT_COULD_NOT_JUDGE, EXIT_OUR_BUG

    try:
        return _dispatch(arguments)
    except BrokenPipeError:
        # The reader of our output left (`seatrial list | head`): not an error worth a message.
        discard_stdout()
        return 0
    except SeatrialError as error:
        return _report(arguments, error.exit_code, error.message, error.remedy)
    except MemoryError:
        return _report(
            arguments,
            EXIT_COULD_NOT_JUDGE,
            "there is not enough memory for seatrial itself",
            "raise the limit of this shell (ulimit -v unlimited), or end other programs",
        )
    except Exception as error:  # noqa: BLE001 - the one place that turns our bugs into exit 4
        from seatrial.cli.bug_report import write_bug_report

        message, remedy = write_bug_report(error, arguments)
        return _report(arguments, EXIT_OUR_BUG, message, remedy)


def _prepare_streams() -> None:
    """Make stdout and stderr take whatever we say.

    A shell may start us with one of them closed; what we say then goes nowhere. A name that their
    encoding does not know is written with escapes.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for good
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _ignore_interrupts() -> None:
    """The answer to the first Ctrl-C is not cut short by a second one."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _report(arguments: Sequence[str], exit_code: int, message: str, remedy: str) -> int:
    from seatrial.cli.output import report_error

    report_error(arguments, exit_code, message, remedy)
    return exit_code


def _parsed(own: list[str]) -> argparse.Namespace:
    from seatrial.cli.parser import build_parser, forgotten_dashes
    from seatrial.core.errors import UsageError

    try:
        return build_parser().parse_args(own)
    except UsageError as error:
        hint = forgotten_dashes(own)
        raise UsageError(error.message, remedy=hint or error.remedy) from error


def _dispatch(arguments: list[str]) -> int:
    from seatrial.cli.parser import TAKE_WORDS, build_parser, split_command
    from seatrial.core.errors import UsageError

    own, command = split_command(arguments)
    options = _parsed(own)
    name = options.command
    if command is not None and name not in TAKE_WORDS:
        raise UsageError(
            f"only `seatrial run` takes a command behind --, not {name or 'seatrial alone'}",
            remedy="seatrial run -- " + " ".join(command[:3]),
        )
    if name is None:
        build_parser().print_help()
        return 2
    if name == "run":
        from seatrial.cli.run_command import run_command

        return run_command(options, command)
    if name in ("init", "freeze", "preflight", "rules"):
        return _before_a_run(name, options, command)
    if name == "authorize":
        from seatrial.cli.authorize_command import authorize_command

        return authorize_command(options)
    if name == "schema":
        from seatrial.cli.schema_command import schema_command

        return schema_command(options)
    if name == "finalize":
        from seatrial.workflows.finalize import finalize

        finalize(options.record, _legs_from_stdin() if options.legs else None)
        return 0
    from seatrial.cli import record_commands

    return record_commands.COMMANDS[name](options)


def _legs_from_stdin() -> Legs | None:
    """What the supervisor hands its finalizer; None when it is no launch message."""
    from seatrial.supervisor.message import LaunchMessage
    from seatrial.workflows.checks import Legs

    try:
        message = LaunchMessage.from_bytes(sys.stdin.buffer.read())
    except ValueError as error:
        sys.stderr.write(f"seatrial: {error}\n")
        return None
    return Legs(message.argv, message.env)


def _before_a_run(name: str, options: argparse.Namespace, command: list[str] | None) -> int:
    if name == "init":
        from seatrial.cli.init_command import init_command

        return init_command(options, command)
    if name == "freeze":
        from seatrial.cli.freeze_command import freeze_command

        return freeze_command(options)
    if name == "preflight":
        from seatrial.cli.preflight_command import preflight_command

        return preflight_command(options, command)
    from seatrial.cli.rules_command import rules_command

    return rules_command(options)
