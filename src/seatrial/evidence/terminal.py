"""The first and the last words of a run in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from seatrial.core.finding import NO_SUCH_CHECK, Finding
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.verdict import FAIL, PASS
from seatrial.evidence import words
from seatrial.evidence.bounds_view import STOPS, WARNS, bound_rows, gate_rows
from seatrial.evidence.finding_tree import Node, evidence_pairs, finding_tree, place_text
from seatrial.evidence.plain_text import any_value, number, one_line, size
from seatrial.evidence.shell_words import command_line

_MAX_FINDINGS = 8
_MAX_LINES = 12
_TEXT = 600
_NARROWEST, _WIDEST = 40, 100
_COLOURS = {PASS: "32", FAIL: "31", "error": "31", "warning": "33", "note": "36"}
_OTHER = "33"
_BOUND_GATES = {"gate.step_cap", "gate.wall", "gate.memory", "gate.money"}  # said already


def verdict_block(
    result: RunResult,
    not_tested: Sequence[str],
    next_command: str,
    *,
    colour: bool,
    width: int,
    hypothesis: str = "",
    heldout: Sequence[str] = (),
) -> str:
    """What the terminal prints at the end: verdict, reasons, what was not tested, what to type.

    Args:
        result: the run's result.
        not_tested: plain sentences.
        next_command: the next command to type; empty when there is none.
        colour: whether the terminal shows colours; nothing is said by colour alone.
        width: columns of the terminal.
        hypothesis: what the trial set out to disprove; empty when it states none.
        heldout: lines on the held-out cases (``heldout_view.heldout_lines``).

    Returns:
        Lines without a line feed at the end. Texts of the run cannot steer the terminal.
    """
    block = _Block(max(_NARROWEST, min(width, _WIDEST)), colour)
    word = block.coloured(words.verdict_word(result), _COLOURS.get(result.verdict, _OTHER))
    block.line(f"{word}: {words.verdict_meaning(result)} (exit {result.exit_code})")
    block.text(result.conclusion, "")
    block.line("")
    block.pair("outcome", words.outcome_text(result))
    block.pair("steps", words.steps_text(result))
    block.pair("time", words.time_text(result.seconds))
    block.pair("memory", f"peak {size(result.peak_memory_bytes)}")
    block.pair("cost", words.cost_text(result))
    block.pair("probe", words.probe_text(result))
    if hypothesis:
        block.pair("hypothesis", f"{words.hypothesis_state(result)}: {hypothesis}")
    if heldout:
        block.line("")
        block.text(heldout[0], "")
        for line in heldout[1 : 1 + _MAX_LINES]:
            block.line(f"  {line}")
        block.more(len(heldout) - 1 - _MAX_LINES)
    _findings(block, result)
    _not_judged(block, result)
    if not_tested:
        block.line("")
        block.line("Not tested")
        for text in not_tested[:_MAX_LINES]:
            block.text(text, "  - ")
        block.more(len(not_tested) - _MAX_LINES)
    block.line("")
    if result.report:
        block.pair("report", one_line(result.report, _TEXT), wrap=False)
    elif result.record:
        block.pair("record", one_line(result.record, _TEXT), wrap=False)
    if next_command:
        block.pair("next", one_line(next_command, _TEXT), wrap=False)
    return "\n".join(block.lines)


def bounds_block(plan: Plan) -> str:
    """What the terminal prints before the start: bounds with their sources, gates, command."""
    block = _Block(_WIDEST, False)
    # The run id is given with the record, after everything that can be refused was looked at.
    name = f" ({one_line(plan.run_id, 120)})" if plan.run_id else ""
    block.line(f"This run ends at the first of these bounds{name}:")
    for row in bound_rows(plan):
        block.pair(row.name, f"{row.value} ({row.source})")
    gates = gate_rows(plan)
    for title, action in (("Gates that stop it", STOPS), ("Gates that only warn", WARNS)):
        names = [
            row.title if row.code == "gate.project" else row.code.removeprefix("gate.")
            for row in gates
            if row.action == action and row.code not in _BOUND_GATES
        ]
        if names:
            block.text(f"{title}: {'; '.join(names)}", "", "  ")
    block.pair("command", command_line(plan.command), wrap=False)
    return "\n".join(block.lines)


class _Block:
    """Lines of a terminal, wrapped."""

    def __init__(self, width: int, colour: bool) -> None:
        self.width = width
        self.colour = colour
        self.lines: list[str] = []

    def coloured(self, text: str, code: str) -> str:
        return f"\x1b[1;{code}m{text}\x1b[0m" if self.colour else text

    def line(self, text: str) -> None:
        self.lines.append(text)

    def text(self, text: str, start: str, rest: str | None = None) -> None:
        """Wrapped text; ``start`` stands before its first line, blanks before the others."""
        self.lines.extend(
            textwrap.wrap(
                one_line(text, _TEXT),
                self.width,
                initial_indent=start,
                subsequent_indent=" " * len(start) if rest is None else rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
        )

    def pair(self, name: str, value: str, *, wrap: bool = True) -> None:
        """A name and its value; a path or a command is left on one line to be copied."""
        start = f"  {name:<9} "
        if wrap:
            self.text(value, start)
        else:
            self.line(start + value)

    def more(self, count: int) -> None:
        if count > 0:
            self.line(f"  and {number(count)} more in the report")


def _findings(block: _Block, result: RunResult) -> None:
    block.line("")
    block.line(f"Findings: {words.severity_counts(result.findings)}")
    nodes = finding_tree(result.findings)
    for node in nodes[:_MAX_FINDINGS]:
        _finding(block, node)
    block.more(len(nodes) - _MAX_FINDINGS)


def _finding(block: _Block, node: Node) -> None:
    finding = node.finding
    plain = f"  {finding.severity:<8} "
    block.text(f"{finding.message} [{one_line(finding.code, 80)}]", plain)
    if block.colour:
        shown = block.coloured(finding.severity, _COLOURS[finding.severity])
        at = next(i for i in reversed(range(len(block.lines))) if block.lines[i].startswith(plain))
        block.lines[at] = block.lines[at].replace(finding.severity, shown, 1)
    inner = " " * len(plain)
    facts = _facts(finding)
    if facts:
        block.text(facts, inner)
    if finding.remedy:
        block.text(f"remedy: {finding.remedy}", inner)
    follows = [one_line(code, 80) for code in finding.symptoms[:_MAX_LINES]]
    if follows:
        block.text(f"follows from it: {', '.join(follows)}", inner)


def _facts(finding: Finding) -> str:
    place = place_text(finding.place)
    facts = [f"where: {place}"] if place else []
    return "; ".join([*facts, *(f"{name} {value}" for name, value in evidence_pairs(finding))])


def _not_judged(block: _Block, result: RunResult) -> None:
    if not result.not_judged:
        return
    # Checks that nobody asked for and that this version lacks fill one line, not six.
    absent = [e for e in result.not_judged if not e.required and e.reason.startswith(NO_SUCH_CHECK)]
    entries = [entry for entry in result.not_judged if entry not in absent]
    entries.sort(key=lambda entry: not entry.required)
    block.line("")
    block.line("Not judged")
    if absent:
        names = ", ".join(any_value(entry.code, 80) for entry in absent)
        block.text(f"checks that this version does not make: {names}", "  - ")
    for entry in entries[:_MAX_LINES]:
        required = " (required)" if entry.required else ""
        block.text(f"{any_value(entry.code, 80)}{required}: {entry.reason}", "  - ")
    block.more(len(entries) - _MAX_LINES)
