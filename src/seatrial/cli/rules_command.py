"""``seatrial rules``: what each rule and gate looks for."""

from __future__ import annotations

import argparse

from seatrial.cli.output import command_object, print_json, print_text
from seatrial.core.errors import UsageError


def rules_command(options: argparse.Namespace) -> int:
    """List every rule and gate, or print the page of one."""
    from seatrial.workflows import rules as workflow

    if options.markdown:
        if options.code is not None or options.json:
            raise UsageError("--markdown prints all pages", remedy="seatrial rules --markdown")
        print_text(workflow.markdown().rstrip("\n"))
        return 0
    found = workflow.pages() if options.code is None else (workflow.page_named(options.code),)
    if options.json:
        print_json(command_object("rules", [page.to_json() for page in found]))
    elif options.code is None:
        print_text(workflow.listing(found))
    else:
        print_text(workflow.page_text(found[0]))
    return 0
