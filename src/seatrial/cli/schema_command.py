"""``seatrial schema``: JSON Schemas of everything read or written."""

from __future__ import annotations

import argparse

from seatrial.cli.output import command_object, print_json, print_text
from seatrial.core.errors import UsageError


def schema_command(options: argparse.Namespace) -> int:
    """List the schemas, or print one."""
    from seatrial.schemas import SCHEMAS, load_schema

    if options.name is None:
        if options.json:
            print_json(command_object("schema", list(SCHEMAS)))
        else:
            print_text("\n".join(SCHEMAS))
        return 0
    if options.name not in SCHEMAS:
        raise UsageError(
            f"there is no schema {options.name!r}; there are: {', '.join(SCHEMAS)}",
            remedy="seatrial schema",
        )
    print_json(load_schema(options.name))
    return 0
