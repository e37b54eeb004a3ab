"""Texts of a run inside Markdown, where they must stay text: no link, no markup, no mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from seatrial.evidence.plain_text import TEXT_LIMIT, one_line

_MARKUP = re.compile(r"([\\`*_\[\]<>#|~&$!{}])")
# Readers turn these into links, mentions or references although they carry no markup, and no
# escape stops all of them: such a word becomes code.
_LINKED = re.compile(r"://|@|^\W*www\.|mailto:|xmpp:|(?:^|\W)(?:#|GH-)\d", re.IGNORECASE)
_LIST_START = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")


def prose(value: object, limit: int = TEXT_LIMIT) -> str:
    """One line of running text."""
    words = one_line(value, limit).split(" ")
    text = " ".join(
        code(word) if _LINKED.search(word) else _MARKUP.sub(r"\\\1", word) for word in words
    )
    if text[:1] in ("+", "-", "="):
        return "\\" + text
    return _LIST_START.sub(r"\1\\\2", text)


def code(value: object, limit: int = TEXT_LIMIT) -> str:
    """One line as code, whatever backticks it holds.

    A bar would end a table's cell even inside a code span, and no escape in there is read alike
    everywhere; the text is therefore split at its bars, which stand between the spans.
    """
    text = one_line(value, limit)
    if not text:
        return "(empty)"
    return r"\|".join(_code_span(part) for part in text.split("|"))


def _code_span(text: str) -> str:
    if not text.strip():
        return text
    fence = "`" * (_longest_run(text) + 1)
    air = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{air}{text}{air}{fence}"


def code_block(text: str) -> str:
    """Lines as a fenced block that no line of them can end."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}text\n{text}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table; the cells are Markdown already."""
    lines = [_row(header), _row(["---"] * len(header))]
    lines.extend(_row(row) for row in rows)
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
