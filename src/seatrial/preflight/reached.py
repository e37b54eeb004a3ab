"""Whether a line of a script runs, as far as the conditions around it tell."""

from __future__ import annotations

import ast

from seatrial.preflight.script import Script
from seatrial.preflight.values import UNKNOWN

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def is_reached(node: ast.AST, script: Script) -> bool | None:
    """Whether a node runs when its function does: True, False, or None where only a run says.

    Only ``if`` is looked at: what a loop or a ``try`` holds counts as reached.
    """
    sure = True
    below: ast.AST = node
    for up in script.index.parents(node):
        if isinstance(up, _FUNCTIONS):
            break
        if isinstance(up, (ast.If, ast.IfExp)) and below is not up.test:
            held = _holds(up.test, script)
            if held is None:
                sure = False
            elif held is not _in_body(below, up):
                return False
        below = up
    return True if sure else None


def asks_for_a_terminal(node: ast.AST, script: Script) -> bool:
    """Whether a node stands under a condition with ``isatty()``."""
    return any(
        isinstance(up, (ast.If, ast.IfExp)) and "isatty" in ast.unparse(up.test)
        for up in script.index.parents(node)
    )


def _holds(test: ast.expr, script: Script) -> bool | None:
    text = ast.unparse(test)
    if "__name__" in text and "__main__" in text:
        return True
    found = script.evaluator.value(test)
    if found is UNKNOWN or not isinstance(found, (bool, int, float, str, type(None))):
        return None
    return bool(found)


def _in_body(below: ast.AST, up: ast.If | ast.IfExp) -> bool:
    if isinstance(up, ast.If):
        return below in up.body
    return below is up.body
