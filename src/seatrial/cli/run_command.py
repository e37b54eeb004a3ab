"""``seatrial run``."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TextIO

from seatrial.cli.interrupts import Interrupts
from seatrial.cli.output import current_folder, print_run, redacted, say
from seatrial.core.errors import RefusedLaunchError, UsageError
from seatrial.core.run_result import RunResult


def run_command(options: argparse.Namespace, command: list[str] | None) -> int:
    """Prepare, launch once, follow, print the verdict; returns the run's exit code."""
    interrupts = Interrupts()
    interrupts.install()

    from seatrial.cli.view import TerminalView
    from seatrial.evidence.terminal import bounds_block
    from seatrial.readers.bounds import BoundFlags
    from seatrial.workflows.admit import admit, refused_result
    from seatrial.workflows.prepare import RunRequest, prepare
    from seatrial.workflows.run import follow, launch

    _refuse_confusion(options, command)
    _refuse_empty_reason(options)
    request = RunRequest(
        command=None if command is None else tuple(command),
        trial_file=options.trial,
        flags=BoundFlags(max_steps=options.max_steps, wall=options.wall, memory=options.memory),
        out=options.out,
    )
    prepared = prepare(request, current_folder(), dict(os.environ))
    try:
        admitted = admit(
            prepared,
            dict(os.environ),
            say,
            heldout_again=options.heldout_again,
            stop=interrupts.is_asked,
        )
    except RefusedLaunchError as error:
        interrupts.check_before_launch()
        return _say_refusal(refused_result(error, prepared), error.remedy, as_json=options.json)
    interrupts.check_before_launch()
    say(bounds_block(admitted.prepared.plan))
    launched = launch(admitted)
    interrupts.watch(launched.layout)
    say(f"seatrial: run {launched.run_id}, record {launched.layout.folder}")
    result = follow(launched.layout, TerminalView(output_to_stderr=options.json), interrupts.act)
    if options.json:
        print_run(result.to_json())
    if not os.path.exists(launched.layout.result):
        say(f"seatrial: {result.conclusion}")
        return result.exit_code
    say_verdict(launched.layout.folder, to_stderr=options.json)
    return result.exit_code


def _say_refusal(result: RunResult, remedy: str, *, as_json: bool) -> int:
    """Print why nothing was launched; returns the exit code."""
    from seatrial.core.redaction import from_environment
    from seatrial.evidence.terminal import verdict_block

    target = sys.stderr if as_json else sys.stdout
    text = verdict_block(
        result,
        ["Nothing was launched, so nothing was tested."],
        remedy,
        colour=target.isatty() and "NO_COLOR" not in os.environ,
        width=_width(),
    )
    _write(target, redacted(text))
    if as_json:
        print_run(from_environment(os.environ, (), sys.argv).value(result.to_json()))
    return result.exit_code


def _refuse_empty_reason(options: argparse.Namespace) -> None:
    if options.heldout_again is None:
        return
    if not options.heldout_again.strip():
        raise UsageError(
            "--heldout-again is empty", remedy="say why: --heldout-again 'a typo in case c7'"
        )
    if options.trial is None:
        raise UsageError(
            "--heldout-again is for a trial; a command behind -- has no held-out cases",
            remedy="seatrial init train.py",
        )


def _refuse_confusion(options: argparse.Namespace, command: list[str] | None) -> None:
    if command is None and options.trial is None:
        raise UsageError(
            "nothing to run: name a trial file, or put a command behind --",
            remedy="seatrial run -- python train.py",
        )
    if command is not None and options.trial is not None:
        raise UsageError(
            f"both a trial file ({options.trial}) and a command behind -- were given",
            remedy="seatrial run " + options.trial,
        )


def say_verdict(record: str, *, to_stderr: bool) -> None:
    """Print the final block of an ended run: verdict, reasons, what was not tested, next."""
    from seatrial.core.record_layout import RecordLayout
    from seatrial.evidence import words
    from seatrial.evidence.heldout_view import heldout_lines
    from seatrial.evidence.terminal import verdict_block
    from seatrial.readers.record import read_closing, read_plan, read_result
    from seatrial.workflows.checks import made_before

    layout = RecordLayout(record)
    result = read_result(layout)
    if result is None:
        say("seatrial: there is no report: the record is gone")
        return
    closing = read_closing(layout) or {}
    target = sys.stderr if to_stderr else sys.stdout
    text = verdict_block(
        result,
        [str(line) for line in closing.get("not_tested") or ()],
        str(closing.get("next_command") or ""),
        colour=target.isatty() and "NO_COLOR" not in os.environ,
        width=_width(),
        hypothesis=words.hypothesis_of(read_plan(layout)),
        heldout=heldout_lines(made_before(layout)),
    )
    _write(target, text)


def _write(target: TextIO, text: str) -> None:
    try:
        target.write("\n" + text.rstrip("\n") + "\n")
        target.flush()
    except UnicodeEncodeError:
        target.write(text.encode("ascii", "backslashreplace").decode("ascii") + "\n")
    except (OSError, ValueError):
        pass  # the terminal is gone; the record has it all


def _width() -> int:
    import shutil

    return min(max(shutil.get_terminal_size((100, 24)).columns, 40), 120)
