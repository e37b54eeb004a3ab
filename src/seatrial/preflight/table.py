"""Every rule, in the order in which they are asked.

A module of rules has a tuple ``RULES``; it is imported and unpacked here, a line each. A function
that already answers with findings and open points becomes a rule by yielding them:

    @rule("inputs.overlap", severity="error", ad_hoc="warning", detects="dry_run",
          title="...", needs_script=False)
    def overlap_rule(subject):  # with a docstring: it is the page of the rule
        findings, open_points = overlap(subject.trial)
        yield from (*findings, *open_points)
"""

from __future__ import annotations

from seatrial.preflight import (
    rules_argv,
    rules_best,
    rules_child,
    rules_heldout,
    rules_inputs,
    rules_judges,
    rules_output,
    rules_reporting,
    rules_resume,
    rules_schedule,
    rules_secrets,
)
from seatrial.preflight.rule import Rule

RULES: tuple[Rule, ...] = (
    *rules_argv.RULES,
    *rules_inputs.RULES,
    *rules_schedule.RULES,
    *rules_best.RULES,
    *rules_heldout.RULES,
    *rules_judges.RULES,
    *rules_output.RULES,
    *rules_reporting.RULES,
    *rules_resume.RULES,
    *rules_secrets.RULES,
    *rules_child.RULES,
)
