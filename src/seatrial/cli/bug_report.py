"""A log file to send when the fault is ours (exit 4): versions, command, traceback, no secrets."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence

from seatrial import __version__


def write_bug_report(error: BaseException, arguments: Sequence[str]) -> tuple[str, str]:
    """Write the log; return the message and what to do with it."""
    from seatrial.core.redaction import from_environment

    redactor = from_environment(os.environ, (), arguments)
    lines = [
        f"seatrial {__version__}, Python {platform.python_version()}, {platform.platform()}",
        "command: seatrial " + " ".join(redactor.argv(list(arguments))),
        "",
        redactor.text("".join(traceback.format_exception(error))),
    ]
    message = f"a fault of ours, not of your run: {type(error).__name__}: {error}"
    try:
        handle, path = tempfile.mkstemp(prefix="seatrial-bug-", suffix=".log")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as log:
            log.write("\n".join(lines))
    except OSError as failure:
        sys.stderr.write("\n".join(lines) + "\n")
        return message, f"send the text above (no log could be written: {failure})"
    return message, f"send the log {path} to the maintainers"
