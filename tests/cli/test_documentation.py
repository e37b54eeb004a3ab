"""What the documents promise is there: commands, flags, exit codes, outcomes, links."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from seatrial.cli.parser import COMMANDS, build_parser
from seatrial.core.verdict import OUTCOMES, PRECEDENCE

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def _subparsers() -> dict[str, argparse.ArgumentParser]:
    (action,) = (
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(action.choices)


def test_every_command_and_flag_is_documented() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    parsers = _subparsers()
    assert set(parsers) - {"finalize"} == set(COMMANDS)
    for name in COMMANDS:
        assert f"`seatrial {name}" in page
        assert parsers[name].description or name in ("list", "schema")
    for action in parsers["run"]._actions:
        for flag in action.option_strings:
            if flag not in ("-h", "--help"):
                assert f"`{flag}" in page, flag


def test_every_exit_code_and_outcome_is_documented() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for code in PRECEDENCE:
        assert f"| {code} |" in page
    for outcome in OUTCOMES:
        assert f"`{outcome}`" in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), target


def test_the_readme_is_short_enough() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 150
