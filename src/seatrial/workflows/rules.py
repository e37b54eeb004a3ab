"""Rules and gates as pages: one set of metadata behind `seatrial rules` and `docs/rules.md`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from seatrial.core.errors import UsageError
from seatrial.core.gates import GATES
from seatrial.preflight.table import RULES

_DETECTS = {
    "static": "reads the script",
    "launch": "reads the script and the exact command",
    "dry_run": "asks the runner's interpreter; nothing of the script is executed",
    "runner": "executes the runner's dry run, only with --dry-run",
}
_INTRODUCTION = """\
# Rules and gates

Written by `seatrial rules --markdown`; a test keeps it current. `seatrial rules CODE` prints one
page.

A rule looks before a run, a gate while it goes. A rule that cannot look says "not judged", with its
reason; that is never a pass. Severities are those in a trial; without one an absence is at most a
warning. `seatrial preflight FILE` keeps an error where the fault is proven."""


@dataclass(frozen=True)
class Page:
    """What is known about one rule or gate."""

    code: str
    kind: str
    family: str
    title: str
    severity: str
    ad_hoc: str
    detects: str
    text: str

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return dict(vars(self))


def pages() -> tuple[Page, ...]:
    """Every rule in the order of the table, then every gate."""
    rules = [
        Page(
            one.code,
            "rule",
            one.family,
            one.title,
            one.severity,
            one.ad_hoc_severity,
            _DETECTS[one.detects],
            one.page,
        )
        for one in RULES
    ]
    gates = [
        Page(
            gate.info.code,
            "gate",
            gate.info.family,
            gate.info.title,
            "stops the run",
            "stops the run" if gate.info.stops_ad_hoc else "warns",
            "watches the run" + (" (a bound: always on)" if gate.info.bound else ""),
            gate.explanation(),
        )
        for gate in GATES
    ]
    return (*rules, *gates)


def page_named(code: str) -> Page:
    """The page of a code.

    Raises:
        UsageError: there is no such rule or gate.
    """
    known = {page.code: page for page in pages()}
    if code not in known:
        close = difflib.get_close_matches(code, known, n=1, cutoff=0.5)
        raise UsageError(
            f"there is no rule or gate {code!r}",
            remedy=f"seatrial rules {close[0]}" if close else "seatrial rules",
        )
    return known[code]


def page_text(page: Page) -> str:
    """One page as plain text."""
    return "\n".join(
        (
            f"{page.code}: {page.title}",
            "",
            f"  kind       {page.kind}, {page.detects}",
            f"  in a trial {page.severity}",
            f"  without    {page.ad_hoc}",
            "",
            page.text,
        )
    )


def listing(found: tuple[Page, ...]) -> str:
    """A line each."""
    width = max(len(page.code) for page in found)
    return "\n".join(
        f"{page.code.ljust(width)}  {page.kind:<5} {page.severity:<14} {page.title}"
        for page in found
    )


def markdown() -> str:
    """All pages as one document."""
    parts = [_INTRODUCTION]
    for kind, heading in (("rule", "## Rules"), ("gate", "## Gates")):
        parts.append(heading)
        parts += [
            f"### {page.code}\n\n{page.title[:1].upper()}{page.title[1:]}. In a trial: "
            f"{page.severity}; without: {page.ad_hoc}. It {page.detects}.\n\n{page.text}"
            for page in pages()
            if page.kind == kind
        ]
    return "\n\n".join(parts) + "\n"
