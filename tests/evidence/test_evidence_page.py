"""The page as text: order, policy, escaping, colours."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.core.curve import Curve
from seatrial.core.finding import Evidence, Finding, Place
from seatrial.evidence.page import render_page
from seatrial.evidence.report_input import ReportInput

VOID = {"meta", "link", "br", "hr", "img", "input"}
SVG = {"svg", "path", "circle", "g", "text", "title"}
KNOWN_TAGS = SVG | {
    "html", "head", "meta", "title", "link", "style", "body", "header", "main", "footer",
    "section", "article", "div", "h1", "h2", "h3", "h4", "p", "span", "small", "strong", "ul",
    "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "figure",
    "figcaption", "details", "summary", "pre", "code",
}  # fmt: skip
KNOWN_ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "rel", "href", "class", "id", "viewbox",
    "d", "cx", "cy", "r", "x", "y", "role", "tabindex", "scope", "fill", "stroke", "transform",
    "stroke-dasharray", "text-anchor", "preserveaspectratio", "aria-label", "aria-hidden",
    "aria-labelledby",
}  # fmt: skip


class Page(HTMLParser):
    """Tags, attributes, text and whether every element is closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.text: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if not (self.open and self.open[-1] == "style"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def assert_harmless(html: str) -> Page:
    page = Page(html)
    assert set(page.tags) <= KNOWN_TAGS
    assert {name for _tag, name, _value in page.attributes} <= KNOWN_ATTRIBUTES
    assert [(t, v) for t, n, v in page.attributes if n == "href"] == [("link", "data:,")]
    assert (page.unbalanced, page.open) == ([], [])
    assert html.count("<style>") == html.count("</style>") == 1
    html.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", html)
    return page


def test_every_report_is_one_harmless_well_formed_file(any_report: ReportInput) -> None:
    page = assert_harmless(render_page(any_report))
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    jumps = [b - a for a, b in zip(page.headings, page.headings[1:], strict=False)]
    assert max(jumps) <= 1
    assert len(set(page.ids)) == len(page.ids)
    assert ("html", "lang", "en") in page.attributes


def test_the_policy_forbids_every_request_and_allows_only_our_style(
    reports: Mapping[str, ReportInput],
) -> None:
    html = render_page(reports["pass"])
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert policy
    assert style
    digest = base64.b64encode(hashlib.sha256(style.group(1).encode()).digest()).decode()
    rules = policy.group(1).replace("&#39;", "'").split("; ")
    assert rules[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert {rule.split()[0] for rule in rules[2:]} == {"img-src", "base-uri", "form-action"}
    assert "url(" not in style.group(1)
    assert "@import" not in style.group(1)
    assert "://" not in html.replace(style.group(1), "")


def test_the_sections_come_in_the_agreed_order(reports: Mapping[str, ReportInput]) -> None:
    page = Page(render_page(reports["fail"]))
    assert page.ids == [
        "verdict", "facts", "tested", "not-tested", "findings", "curves", "not-judged", "results",
        "environment", "model", "bounds", "command",
    ]  # fmt: skip
    words = page.words
    order = [
        "FAIL", "The setup is disproved: from step 72", "Outcome gate: a gate stopped the run",
        "Exit code 1", "74 of 200 planned", "of at most 15m", "of at most 12 GiB",
        "attached, 1 rank",
        "What was tested", "What was not tested", "3 errors, 1 warning",
        "The learning rate is at its peak of 0.05", "train.py:38, step 1", "observed 0.05",
        "expected at most 0.0005", "Set warmup_ratio=0.1", "Follows from it",
        "The raw loss of step 72 is nan", "checkpoint.missing", "max_grad_norm is 0",
        "Gates that tripped", "Training loss", "no resume command was given",
        "No evaluation was seen",
        "LlamaForCausalLM", "trial file", "python train.py --out 'my model'",
        "Next command to type",
        "seatrial run --max-steps 80", "has failed to disprove the setup",
    ]  # fmt: skip
    at = 0
    for part in order:
        at = words.find(part, at)
        assert at >= 0, part


def test_a_symptom_is_shown_once_inside_its_cause(reports: Mapping[str, ReportInput]) -> None:
    html = render_page(reports["fail"])
    inside = html[html.index('<div class="follows">') : html.index("max_grad_norm is 0")]
    assert inside.count("gate.non_finite_loss</code>") == 1
    assert html.count('<article class="finding') == 4


def test_causes_in_a_circle_are_all_shown(reports: Mapping[str, ReportInput]) -> None:
    html = render_page(reports["odd"])
    assert html.count('<article class="finding') == 3


def test_hostile_texts_are_shown_as_text(reports: Mapping[str, ReportInput]) -> None:
    page = assert_harmless(render_page(reports["hostile"]))
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert "<script>document.title='owned'</script>" in page.words
    assert "{{ 7*7 }}" in page.words
    assert "gpj" not in page.words.replace("\\u202egpj", "")


TEXT = st.text(
    st.one_of(st.sampled_from("<>\"'&;/=!-{}%# \n\x00\u202e\ud800"), st.characters()), max_size=60
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=TEXT)
def test_no_text_of_a_run_becomes_markup(reports: Mapping[str, ReportInput], text: str) -> None:
    base = reports["inconclusive"]
    finding = Finding(text, "labels", "note", text, Place(text, module=text), Evidence(text), text)
    report = replace(
        base,
        result=replace(base.result, conclusion=text, findings=(finding,), heldout={text: [text]}),
        plan=replace(base.plan, name=text, command=(text,), cwd=text),
        curves=(Curve(text, text, ((1.0, 2.0),), text),),
        environment={text: {text: text}},
        evaluations=({"metrics": {text: text}},),
        not_tested=(text,),
        output_tail=text,
    )
    assert_harmless(render_page(report))


def test_a_megabyte_of_text_is_cut_with_a_note(reports: Mapping[str, ReportInput]) -> None:
    big = "<" * 1_000_000
    base = reports["pass"]
    report = replace(
        base,
        result=replace(base.result, conclusion=big),
        output_tail=big,
        tested=(big,),
        environment={"packages": {big: big}},
    )
    html = render_page(report)
    assert len(html) < 500_000
    assert html.count("[cut: 1,000,000 characters in all]") >= 3
    assert "[cut: the last part of 1,000,000 characters]" in html


def test_a_run_without_a_curve_says_so(reports: Mapping[str, ReportInput]) -> None:
    words = Page(render_page(reports["empty"])).words
    assert "No curve: the probe saw no optimizer step." in words
    assert "Nothing was tested." in words
    assert "without a step, nothing about the training was judged" in words
    assert "Unknown: the probe saw no model." in words


@pytest.mark.parametrize(
    ("name", "word", "shape"),
    [("pass", "PASS", "<circle"), ("fail", "FAIL", "M15.3 3"), ("empty", "INCONCLUSIVE", "M24 2l")],
)
def test_the_verdict_is_word_and_shape_and_colour(
    reports: Mapping[str, ReportInput], name: str, word: str, shape: str
) -> None:
    html = render_page(reports[name])
    badge = html[html.index('<section class="verdict') : html.index('id="facts"')]
    assert shape in badge
    assert f'<h1 id="verdict">{word} ' in badge
    assert f"<title>{word}: " in html


def test_a_typical_page_is_quick_and_small(reports: Mapping[str, ReportInput]) -> None:
    render_page(reports["pass"])
    started = time.perf_counter()
    html = render_page(reports["pass"])
    assert time.perf_counter() - started < 1.0
    assert len(html) < 300_000


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_meets_aa_in_light_dark_and_print(reports: Mapping[str, ReportInput]) -> None:
    html = render_page(reports["empty"])
    schemes = [
        dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", found))
        for found in re.findall(r":root \{(.*?)\}", html, re.DOTALL)
    ]
    assert len(schemes) == 3
    for scheme in schemes:
        pairs = [(ink, back) for ink in ("ink", "quiet") for back in ("page", "card")]
        pairs += [(name, f"{name}-soft") for name in ("pass", "fail", "inconclusive")]
        pairs += [(name, "card") for name in ("pass", "fail", "inconclusive", "accent")]
        pairs += [("ink", f"{name}-soft") for name in ("pass", "fail", "inconclusive")]
        pairs += [("ink", "soft"), ("accent", "soft"), ("sign", "fail"), ("sign", "inconclusive")]
        low = [(a, b) for a, b in pairs if contrast(scheme[a], scheme[b]) < 4.5]
        assert low == []
        lines = [f"c{index}" for index in range(8)]
        assert [name for name in lines if contrast(scheme[name], scheme["card"]) < 3] == []
