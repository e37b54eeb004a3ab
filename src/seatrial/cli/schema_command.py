"""``seatrial schema``: JSON Schemas of everything read or written."""

from __future__ import annotations

import argparse

from seatrial.cli.output import command_object, print_json, print_text


def schema_command(options: argparse.Namespace) -> int:
    """List the schemas, or print one."""
    from seatrial.schemas import SCHEMAS, load_schema

    if options.name is None:
        if options.json:
            print_json(command_object("schema", list(SCHEMAS)))
        else:
            print_text("\n".join(SCHEMAS))
        return 0
    print_json(load_schema(options.name))
    return 0
