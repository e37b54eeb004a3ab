"""Rules on the held-out functions of a trial: are they there, do they know the fields?"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from seatrial.preflight.rule import SEEN, Answer, Hit, Open, Rule, Subject, rule

_MAX_SOURCE = 4 << 20
_NAMES = ("validator", "normalize", "loader")


@rule(
    "eval_mode.heldout_function_missing",
    severity="error",
    ad_hoc="note",
    title="a function that [heldout] names is not in its file",
    detects="launch",
    needs_script=False,
)
def heldout_function_missing(subject: Subject) -> Iterator[Answer]:
    """`validator`, `normalize` and `loader` are `file.py:function`; the file must define it.

    Why it costs: it is called behind the training, which was then paid for nothing.

    What it cannot see: a name that a computed statement defines; `from x import *` counts as there.

    Remedy: correct the name after the colon.

    Example: `validator = "validator.py:valid8"`, and the file has `validate`.
    """
    heldout = subject.trial.heldout if subject.trial is not None else None
    for name in _NAMES if heldout is not None else ():
        told = getattr(heldout, name)
        if told is None:
            continue
        path, _, function = told.rpartition(":")
        tree = _tree(path)
        if tree is None:
            yield Open(f"{path} cannot be parsed")
            continue
        defined = _defined(tree)
        if function in defined or "*" in defined:
            yield SEEN
        else:
            functions = sorted(one.name for one in tree.body if isinstance(one, ast.FunctionDef))
            yield Hit(
                f"[heldout] {name} names {function!r}, which {os.path.basename(path)} does not"
                f" define (it has: {', '.join(functions) or 'no function'})",
                observed=functions,
                expected=function,
                remedy=f"write the name of a function of {path} after the colon",
                file=path,
            )


@rule(
    "eval_mode.heldout_field_unknown",
    severity="warning",
    ad_hoc="note",
    title="a held-out threshold is on a field that the validator does not name",
    detects="launch",
    needs_script=False,
)
def heldout_field_unknown(subject: Subject) -> Iterator[Answer]:
    """A threshold's field must be one that the validator returns.

    Why it costs: a mistyped field is noticed when the cases are used up, and then not judged.

    What it cannot see: fields whose names are computed; the name need only stand somewhere in the
    validator's file or in a module beside it that it imports.

    Remedy: write the field as the validator returns it.

    Example: `field = "digits"`, and the validator returns `{"digit": ...}`.
    """
    heldout = subject.trial.heldout if subject.trial is not None else None
    if heldout is None or heldout.validator is None or not heldout.gates:
        return
    path = heldout.validator.rpartition(":")[0]
    words = _words(path, set())
    if words is None:
        yield Open(f"{path} cannot be parsed")
        return
    for gate in heldout.gates:
        if gate.field in words:
            yield SEEN
        else:
            yield Hit(
                f"the threshold on {gate.field!r} is on a field that {os.path.basename(path)} does"
                " not name",
                expected=gate.field,
                remedy="write the field as the validator returns it",
                confidence="likely",
                file=path,
            )


def _tree(path: str) -> ast.Module | None:
    try:
        if os.path.getsize(path) > _MAX_SOURCE:
            return None
        with open(path, "rb") as file:
            return ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _defined(tree: ast.Module) -> set[str]:
    """Names that a module binds at its top level, also below `if` and `try`."""
    found: set[str] = set()
    todo: list[ast.stmt] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                found.add(inner.id)
        for part in ("body", "orelse", "finalbody"):
            todo += getattr(node, part, [])
        for handler in getattr(node, "handlers", []):
            todo += handler.body
    return found


def _words(path: str, seen: set[str]) -> set[str] | None:
    """Texts and keyword names in a file and in the modules beside it that it imports."""
    tree = _tree(path)
    if tree is None:
        return None
    seen.add(path)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, (ast.AnnAssign, ast.Assign)):
            # Fields of a dataclass that `asdict` turns into keys.
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for one in targets if isinstance(one, ast.Name)}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.name for alias in node.names]
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in names:
                beside = os.path.join(os.path.dirname(path), name.partition(".")[0] + ".py")
                if os.path.isfile(beside) and beside not in seen:
                    found |= _words(beside, seen) or set()
    return found


RULES: tuple[Rule, ...] = (heldout_function_missing, heldout_field_unknown)
