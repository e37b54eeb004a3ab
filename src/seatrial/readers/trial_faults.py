"""Faults of a trial file in words: file, line, key, value, and what would be right."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seatrial.core.errors import UsageError
from seatrial.readers.toml_lines import key_at, line_of

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_AT = re.compile(r"\(at line (\d+), column (\d+)\)")
_REPEATED = ("Cannot overwrite", "Cannot declare", "Duplicate inline table key", "already")
_WANTED = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list in square brackets",
    "dict_type": "a table",
    "model_type": "a table",
}


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def syntax_fault(file: str, text: str, detail: str) -> UsageError:
    """What ``tomllib`` refused."""
    match = _AT.search(detail)
    line = int(match[1]) if match else None
    if any(word in detail for word in _REPEATED):
        key = key_at(text, line) if line is not None else None
        return UsageError(
            f"{_place(file, line)}: {key or 'a key'} is given twice", remedy="keep one of them"
        )
    plain = _AT.sub("", detail).strip()
    where = f" (column {match[2]})" if match else ""
    return UsageError(
        f"{_place(file, line)}: this is not TOML: {plain}{where}",
        remedy=f"correct it, then: seatrial run {shlex.quote(file)}",
    )


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that was probably meant."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None


def model_fault(file: str, text: str, error: ValidationError, model: type[BaseModel]) -> UsageError:
    """The first fault that the model found, and how many more there are."""
    faults = error.errors(include_url=False)
    # An unknown key explains a missing one (a typo), so it is said first.
    first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
    path = _path(first["loc"])
    places = {_path(fault["loc"]) for fault in faults}
    more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
    message, remedy = _words(dict(first), path, model)
    remedy = remedy or "correct it; what each key takes: seatrial schema trial"
    return UsageError(f"{_place(file, line_of(text, path))}: {message}{more}", remedy=remedy)


def _path(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The key's path in the file; pydantic adds the names of the kinds that it tried."""
    return tuple(
        part for part in loc if isinstance(part, int) or re.fullmatch(r"[A-Za-z0-9_-]+", part)
    )


def dotted(path: Sequence[int | str]) -> str:
    """``gate[0].op``, as a person would say it."""
    return "".join(
        f"[{part}]" if isinstance(part, int) else (f".{part}" if index else part)
        for index, part in enumerate(path)
    )


def _words(
    fault: Mapping[str, Any], path: tuple[int | str, ...], model: type[BaseModel]
) -> tuple[str, str]:
    kind, value, context = fault["type"], fault.get("input"), fault.get("ctx") or {}
    key = dotted(path)
    if kind == "extra_forbidden":
        return _unknown_key(path, model)
    if kind == "missing":
        return f"{key} is missing", f"add {key}; seatrial schema trial lists every key"
    if kind == "literal_error":
        return _unknown_word(key, value, str(context.get("expected", "")))
    if kind in _WANTED:
        return f"{key} = {_shown(value)} must be {_WANTED[kind]}", ""
    if kind == "value_error":
        # Values are not repeated here: the text of the error says what it may.
        return f"{key}: {context.get('error', fault['msg'])}", ""
    if kind == "greater_than_equal":
        return f"{key} = {_shown(value)} must be at least {context['ge']}", ""
    if kind in ("less_than_equal", "less_than"):
        return f"{key} = {_shown(value)} must be at most {context.get('le', context.get('lt'))}", ""
    if kind in ("too_short", "string_too_short"):
        return f"{key} is empty", ""
    if kind == "string_pattern_mismatch":
        form = "file.py:function" if ".py:" in str(context.get("pattern")) else "a plain name"
        return f"{key} = {_shown(value)} must be written like {form}", ""
    return f"{key}: {fault['msg']}", ""


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else text[:57] + "..."


def _unknown_word(key: str, value: Any, expected: str) -> tuple[str, str]:
    known = re.findall(r"'([^']*)'", expected) or [expected]
    guess = nearest(value, known) if isinstance(value, str) else None
    message = f"{key} = {_shown(value)} is not known; it is one of {', '.join(known)}"
    return message, (f'write "{guess}"' if guess else "")


def keys_at(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """The keys that a table of the trial has."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})

    def resolved(node: dict[str, Any]) -> dict[str, Any]:
        for option in (node, *node.get("anyOf", ()), *node.get("allOf", ())):
            if "$ref" in option:
                target: dict[str, Any] = definitions[option["$ref"].rsplit("/", 1)[1]]
                return target
        return node

    node = schema
    for part in path:
        node = resolved(node)
        node = node.get("items", {}) if isinstance(part, int) else node["properties"].get(part, {})
    return list(resolved(node).get("properties", ()))


def _unknown_key(path: tuple[int | str, ...], model: type[BaseModel]) -> tuple[str, str]:
    known = keys_at(model, path[:-1])
    word = str(path[-1])
    table = dotted(path[:-1]) or "the trial"
    guess = nearest(word, known)
    message = f"unknown key {dotted(path)!r}; {table} has: {', '.join(known)}"
    return message, (f"did you mean {guess}?" if guess else "seatrial schema trial")
