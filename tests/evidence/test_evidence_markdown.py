"""The summary: what it says, and that no text of a run becomes markup in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.core.finding import Evidence, Finding, Place
from seatrial.evidence.markdown import code, code_block, prose, table
from seatrial.evidence.report_input import ReportInput
from seatrial.evidence.summary import render_summary

markdown_it = pytest.importorskip(
    "markdown_it", reason="needs a Markdown reader (markdown-it-py) to read the summary back"
)
ATTACK = st.text(
    st.one_of(st.sampled_from("\\`*_[]<>()#|~&$!{}-+.=:1 \n\"'/@"), st.characters()), max_size=80
)


def tokens(text: str) -> list[object]:
    reader = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    found = []
    for token in reader.parse(text):
        found.append(token)
        found.extend(token.children or [])
    return found


def kinds(text: str) -> set[str]:
    return {token.type for token in tokens(text)}  # type: ignore[attr-defined]


TEXT_ONLY = {"paragraph_open", "paragraph_close", "inline", "text", "code_inline", "text_special"}


@settings(max_examples=300)
@given(ATTACK)
def test_prose_stays_prose(text: str) -> None:
    assert kinds("x " + prose(text)) <= TEXT_ONLY
    assert kinds(prose(text)) <= TEXT_ONLY


@settings(max_examples=300)
@given(ATTACK)
def test_code_stays_code_and_keeps_every_character(text: str) -> None:
    shown = code(text.replace("|", ""))
    assert kinds(f"x {shown} y") <= TEXT_ONLY
    assert kinds(f"x {code(text)} y") <= TEXT_ONLY


@settings(max_examples=300)
@given(ATTACK, ATTACK)
def test_no_cell_breaks_its_table(first: str, second: str) -> None:
    lines = table(("a", "b"), [(code(first), prose(second)), (prose(second), code(first))])
    found = [token.type for token in tokens("\n".join(lines))]  # type: ignore[attr-defined]
    assert found.count("td_open") == 4
    assert found.count("tr_open") == 3
    assert not {"html_inline", "link_open", "image", "em_open", "strong_open", "s_open"} & set(
        found
    )


@given(st.text(max_size=200))
def test_no_line_ends_a_code_block(text: str) -> None:
    text = text.replace("\r", "").replace("\x00", "")
    found = tokens(code_block(text))
    assert [token.type for token in found] == ["fence"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "word",
    ["https://evil.invalid/x", "www.evil.invalid", "@everyone", "a@b.invalid", "#12", "GH-3"],
)
def test_what_readers_link_without_markup_is_code(word: str) -> None:
    assert f"`{word}`" in prose(f"see {word} now")


def test_hostile_texts_make_no_markup_anywhere(reports: Mapping[str, ReportInput]) -> None:
    text = render_summary(reports["hostile"])
    found = kinds(text)
    assert not {"html_inline", "html_block", "link_open", "image", "blockquote_open"} & found
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    assert "https://" not in outside
    assert "@everyone" not in outside
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) == len([t for t in tokens(text) if t.type == "heading_open"])  # type: ignore[attr-defined]
    assert all(line == line.strip() for line in headings)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=ATTACK)
def test_a_finding_of_any_text_makes_no_markup(
    reports: Mapping[str, ReportInput], text: str
) -> None:
    base = reports["inconclusive"]
    finding = Finding("c", "labels", "error", text, Place(file=text), Evidence(text), text)
    report = replace(base, result=replace(base.result, findings=(finding,)))
    found = kinds(render_summary(report))
    assert not {"html_inline", "html_block", "link_open", "image"} & found


def test_the_summary_of_a_failure_leads_with_verdict_and_cause(
    reports: Mapping[str, ReportInput],
) -> None:
    text = render_summary(reports["fail"])
    assert text.startswith("# FAIL: legal-moves\n\n**Disproved.** The setup is disproved: ")
    order = [
        "# FAIL", "| Outcome |", "## What was tested", "## What was not tested", "## Findings",
        "(`schedule.no_warmup`)", "(`gate.non_finite_loss`)", "(`optimizer.not_clipped`)",
        "## Gates that tripped", "## Curves", "## Not judged", "## Evaluations", "## Environment",
        "## Bounds", "## Command", "Next command:", "A trial can disprove",
    ]  # fmt: skip
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "| `loss_raw` | rank 0 | 74 |" in text


def test_every_report_has_a_summary(any_report: ReportInput) -> None:
    text = render_summary(any_report)
    assert text.endswith("and never claims more than that.\n")
    assert len(text) < 120_000
