"""Untrusted text: shown as it is, never obeyed, never hidden, never endless."""

from __future__ import annotations

import shlex
import subprocess
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.evidence.plain_text import any_value, block, number, one_line, output_end, size
from seatrial.evidence.shell_words import command_line

ANY_TEXT = st.text(st.characters(), max_size=200)
MILLION = "a" * 1_000_000
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


def is_safe(text: str) -> bool:
    text.encode("utf-8")  # no lone surrogate
    return not any(
        unicodedata.category(char) in ("Cc", "Cs") or char in BIDI + "\ufeff\u2028\u2029\u200b"
        for char in text
    )


@given(ANY_TEXT)
def test_a_line_has_no_character_that_hides_or_steers(text: str) -> None:
    assert is_safe(one_line(text))
    assert is_safe(block(text).replace("\n", "").replace("\t", ""))
    assert is_safe(output_end(text).replace("\n", "").replace("\t", ""))


@given(st.text(st.characters(categories=("L", "N", "P")), max_size=60))
def test_plain_text_of_any_script_is_left_alone(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\nb\r\n  c\t", "a b c"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("gpj\u202eexe", "gpj\\u202eexe"),
        ("null\x00byte", "null\\x00byte"),
        ("bytes \udcff", "bytes \\udcff"),
        ("\U000e0041tag", "\\U000e0041tag"),
        ("caf\u00e9 \u65e5\u672c \U0001f600", "caf\u00e9 \u65e5\u672c \U0001f600"),
        ("e" + "\u0301" * 50, "e" + "\u0301" * 4),
    ],
    ids=["lines", "escape", "bidi", "null", "surrogate", "tag", "scripts", "tower"],
)
def test_what_cannot_be_seen_is_written_out(raw: str, shown: str) -> None:
    assert one_line(raw) == shown


def test_a_megabyte_is_cut_and_says_so() -> None:
    assert one_line(MILLION).endswith("a ... [cut: 1,000,000 characters in all]")
    assert len(one_line(MILLION)) < 500
    assert "[cut: 1,000,000 characters in all]" in block(MILLION)
    assert len(block(MILLION)) < 21_000
    assert output_end(MILLION).startswith("[cut: the last part of 1,000,000 characters]")
    assert len(one_line("\x00" * 300)) < 500


def test_the_end_of_an_output_is_what_a_terminal_would_show() -> None:
    raw = "start\r\n\x1b[32mgreen\x1b[0m\n 10%|#  |\r 50%|## |\r100%|###|\n\x1b]0;title\x07end\n\n"
    assert output_end(raw) == "start\ngreen\n100%|###|\nend"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (200, "200"), (1_204_224, "1,204,224"), (2.302585, "2.3026"), (5e-5, "5e-05"),
        (float("nan"), "nan"), (float("-inf"), "-inf"), (True, "yes"), (None, "none"),
        (10**400, "huge"), (10**15, "1e+15"), ("nan", "nan"), ([1, 2.5, None], "1, 2.5, none"),
        ({"a": float("inf")}, '{"a":"inf"}'), (-0.0, "0"),
    ],
)  # fmt: skip
def test_values_are_short(value: object, shown: str) -> None:
    assert any_value(value) == shown


def test_sizes_keep_what_is_no_size() -> None:
    assert size(1536) == "1.5 KiB"
    assert size("unknown") == "unknown"
    assert size(2**90).endswith(" B")
    assert number(1e300) == "1e+300"


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_bottomless_value_does_not_break_the_page() -> None:
    assert any_value(nested(100_000)) == "<class 'dict'>"


WORDS = st.lists(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=20),
    min_size=1,
    max_size=4,
)


@given(WORDS)
def test_a_command_is_one_line_without_hidden_characters(words: list[str]) -> None:
    assert is_safe(command_line(words))


def test_a_command_can_be_typed_again() -> None:
    words = [
        "plain",
        "two words",
        "it's",
        'a "b"',
        "line\nbreak",
        "tab\t",
        "caf\u00e9",
        "\u202e",
        "",
    ]
    shown = command_line(["printf", "%s\\0", *words])
    done = subprocess.run(
        ["bash", "-c", f"LC_ALL=C.UTF-8; {shown}"], capture_output=True, check=True
    )
    assert done.stdout.decode("utf-8").split("\0")[:-1] == words
    assert command_line(["a", "b c"]) == shlex.join(["a", "b c"])
    assert command_line(["\udcff"]) == "$'\\xff'"
