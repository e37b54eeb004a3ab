"""``watch``, ``status``, ``list``, ``stop``, ``open`` and ``clean``: runs, from any terminal."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping

from seatrial.cli.output import command_object, current_folder, print_json, print_text, say
from seatrial.core.record_layout import RecordLayout
from seatrial.store.state_folder import StateFolder, find_state_folder


def _state() -> StateFolder:
    return find_state_folder(current_folder(), os.environ)


def _record(options: argparse.Namespace) -> RecordLayout:
    from seatrial.store.records import find_record

    return find_record(_state(), options.run)


def watch_command(options: argparse.Namespace) -> int:
    """Follow a run; Ctrl-C leaves the view and the run goes on."""
    from seatrial.cli.run_command import say_verdict
    from seatrial.cli.view import JsonLinesView, TerminalView
    from seatrial.workflows.run import follow

    layout = _record(options)
    try:
        if options.json:
            view = JsonLinesView()
            result = follow(layout, view, lambda: None)
            view.result(result.to_json())
            return result.exit_code
        result = follow(layout, TerminalView(output_to_stderr=False), lambda: None)
    except KeyboardInterrupt:
        say(f"seatrial: left the view; the run goes on (seatrial stop {_name(layout)} ends it)")
        return 130
    say_verdict(layout.folder, to_stderr=False)
    return result.exit_code


def status_command(options: argparse.Namespace) -> int:
    """Where a run stands."""
    from seatrial.cli.tables import status_text
    from seatrial.workflows.records import status_of

    status = status_of(_record(options))
    if options.json:
        print_json(command_object("status", status))
    else:
        print_text(status_text(status))
    return 0


def list_command(options: argparse.Namespace) -> int:
    """All runs of this folder, newest last."""
    from seatrial.cli.tables import runs_table
    from seatrial.workflows.records import list_runs

    state = _state()
    runs = list_runs(state)
    if options.json:
        print_json(command_object("list", runs))
    elif not runs:
        print_text(f"no runs in {state.runs}")
    else:
        print_text(runs_table(runs))
    return 0


def stop_command(options: argparse.Namespace) -> int:
    """Ask a run to stop; ``--force`` ends it at once."""
    from seatrial.workflows.records import stop_run

    layout = _record(options)
    message = stop_run(layout, force=options.force)
    if options.json:
        print_json(command_object("stop", {"run_id": _name(layout), "message": message}))
    else:
        print_text(message)
    return 0


def open_command(options: argparse.Namespace) -> int:
    """Open the report in a browser, and print where it is."""
    from seatrial.workflows.records import report_of

    layout = _record(options)
    path = report_of(layout)
    opened = False
    if not options.json:
        import webbrowser

        opened = webbrowser.open("file://" + path)
    if options.json:
        print_json(command_object("open", {"run_id": _name(layout), "report": path}))
    else:
        print_text(path if opened else f"{path}\n(no browser could be started; open it yourself)")
    return 0


def clean_command(options: argparse.Namespace) -> int:
    """Remove records of ended runs."""
    from seatrial.workflows.records import CleanRequest, clean_runs

    removed, kept = clean_runs(
        _state(),
        CleanRequest(
            runs=tuple(options.runs),
            older_than=options.older_than,
            keep=options.keep,
            everything=options.all,
            dry_run=options.dry_run,
        ),
    )
    if options.json:
        result = {"removed": removed, "kept_live": kept, "dry_run": options.dry_run}
        print_json(command_object("clean", result))
        return 0
    word = "would remove" if options.dry_run else "removed"
    for name in removed:
        print_text(f"{word} {name}")
    for name in kept:
        print_text(f"kept {name}: it is running")
    if not removed and not kept:
        print_text("nothing to remove")
    return 0


def _name(layout: RecordLayout) -> str:
    return os.path.basename(layout.folder)


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "watch": watch_command,
    "status": status_command,
    "list": list_command,
    "stop": stop_command,
    "open": open_command,
    "clean": clean_command,
}
