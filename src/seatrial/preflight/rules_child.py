"""The rules of ``child_rules`` as rules of the table: the same pages, findings and states."""

from __future__ import annotations

from collections.abc import Iterable

from seatrial.preflight.child_rules import CHILD_RULES, ChildRule, ChildSubject
from seatrial.preflight.rule import Answer, Open, Rule, RuleFunction, Subject

# What the script's own parser made of the command: the label rule reads settings from it.
_VALUES = "argument values"
_TITLES = {
    "environment.arguments": "the script's own parser refuses the command, or drops words of it",
    "environment.imports": "a module that the script imports is not there for its interpreter",
    "labels.completion_only": "labels are not where they are meant to be, or lack the end token",
    "inputs.heldout_in_train": "rows that are trained or selected on are held-out cases, too",
    "inputs.hub_revision": "an input of the Hub is not pinned to a commit",
    "secrets.hub_target": "the trial's Hub target is not private",
    "environment.dry_run_failed": "the trial's own dry run fails",
}


def _function(one: ChildRule) -> RuleFunction:
    def ask(subject: Subject) -> Iterable[Answer]:
        if subject.ask is None or subject.content is None:
            yield Open(subject.problem or "nothing may be asked of a child here")
            return
        child = ChildSubject(
            script=subject.content.path,
            source=subject.content.data,
            tree=subject.script.tree if subject.script is not None else None,
            command=subject.command,
            cwd=subject.cwd,
            env=subject.env,
            ask=subject.ask,
            trial=subject.trial,
            locked=subject.locked,
            values=subject.notes.get(_VALUES, {}),
        )
        findings, open_points = one.check(child)
        subject.notes[_VALUES] = child.values
        yield from findings
        yield from open_points

    ask.__doc__ = one.check.__doc__
    return ask


RULES: tuple[Rule, ...] = tuple(
    Rule(
        code=one.code,
        severity="error",
        ad_hoc_severity="warning",
        detects="runner" if one.executes else "dry_run",
        title=_TITLES[one.code],
        function=_function(one),
        needs_script=False,
    )
    for one in CHILD_RULES
)
