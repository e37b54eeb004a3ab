"""``seatrial init``."""

from __future__ import annotations

import argparse
import os
import shlex

from seatrial.cli.output import command_object, current_folder, print_json, print_text, redacted


def init_command(options: argparse.Namespace, command: list[str] | None) -> int:
    """Draft a trial from a script, without running it.

    Raises:
        UsageError: no Python script, or a file that is there already.
    """
    from seatrial.workflows.init import init

    drafted = init(
        options.runner,
        command or [],
        current_folder(),
        os.environ,
        options.out,
        force=options.force,
    )
    if options.json:
        result = {
            "path": drafted.path,
            "found": drafted.found,
            "not_found": [{"what": what, "why": why} for what, why in drafted.not_found],
        }
        print_json(command_object("init", result))
        return 0
    lines = [f"wrote {drafted.path}"]
    lines += [f"  not found: {what}: {why}" for what, why in drafted.not_found]
    shown = shlex.quote(os.path.relpath(drafted.path))
    lines.append(f"  next: read it, then seatrial freeze {shown}")
    print_text(redacted("\n".join(lines)))
    return 0
