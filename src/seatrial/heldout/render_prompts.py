"""Render held-out cases with a Jinja prompt contract: a program of its own, to be capped.

Run as a file by our interpreter. Standard input: one JSON object ``{"template": text, "cases":
[object, ...], "tokens": {name: text}}``. Standard output: one JSON object, ``{"texts": [...]}`` or
``{"error": text, "case": number or null}``. The template is sandboxed: it reaches no attribute of
Python's and changes nothing; time and memory are its caller's to cap.

Blocks, filters and functions are those of chat templates in transformers, so that one of those can
be the prompt file as it is; the date of today is not there, because a contract has none.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

_MAX_TEXT = 500


def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.exceptions import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    made = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    return made


def render(
    template: str, cases: list[dict[str, Any]], tokens: dict[str, str] | None = None
) -> dict[str, Any]:
    """Texts of all cases, or the first fault."""
    given = {"messages": None, "prompt": None, "tools": None, "documents": None, **(tokens or {})}
    try:
        compiled = _environment().from_string(template)
    except Exception as error:  # noqa: BLE001 - a syntax error, or nested too deep
        return {"error": _told(error), "case": None}
    texts = []
    for number, case in enumerate(cases):
        values = {**given, **case, "case": case, "add_generation_prompt": True}
        try:
            texts.append(compiled.render(values))
        except Exception as error:  # noqa: BLE001 - a template can raise anything
            return {"error": _told(error), "case": number}
    return {"texts": texts}


def _told(error: Exception) -> str:
    line = getattr(error, "lineno", None)
    where = f" (line {line})" if isinstance(line, int) else ""
    return " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_TEXT] + where


def main() -> int:
    """Answer the one question on standard input."""
    question = json.load(sys.stdin)
    # The caller looks at resident memory some times a second; a template can double it faster.
    room = int(question.get("memory_bytes") or 0)
    if room:
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    answer = render(question["template"], question["cases"], question.get("tokens"))
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
