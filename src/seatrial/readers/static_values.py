"""Values that a script's text already tells: constants, paths made of them, defaults of options.

Nothing is executed. What depends on anything that only a run knows is ``UNKNOWN``.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping
from typing import Any

MAX_DEPTH = 40
MAX_TEXT = 10_000


class _Unknown:
    """The one value of what the text does not tell."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()
_PATHS = ("Path", "pathlib.Path", "PurePath", "pathlib.PurePath")
_SAME_PATH = ("resolve", "absolute", "expanduser", "as_posix", "lower", "strip")
_SAME_TEXT = ("str", "os.fspath", "os.path.abspath", "os.path.realpath", "os.path.normpath")


class StaticValues:
    """Evaluates expressions of one module.

    Args:
        tree: the module.
        script: path of the file, the value of ``__file__``.
    """

    def __init__(self, tree: ast.Module, script: str) -> None:
        self._names: dict[str, ast.expr | None] = {"__file__": ast.Constant(script)}
        self.attributes: dict[tuple[str, str], Any] = {}
        for node in ast.walk(tree):
            for name, value in _bound(node):
                # Bound twice, or by a loop or a call: the text does not say which value holds.
                self._names[name] = None if name in self._names else value

    def give(self, owner: str, options: Mapping[str, Any]) -> None:
        """Let ``owner.name`` have these values, as a parsed command line does."""
        for name, value in options.items():
            self.attributes[(owner, name)] = value

    def of(self, node: ast.expr | None, depth: int = 0) -> Any:
        """The value of an expression, or ``UNKNOWN``."""
        if node is None or depth > MAX_DEPTH:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.of(self._names.get(node.id), depth + 1)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.of(item, depth + 1) for item in node.elts]
            return UNKNOWN if any(item is UNKNOWN for item in items) else items
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self.of(node.operand, depth + 1)
            return -value if _is_number(value) else UNKNOWN
        if isinstance(node, ast.BinOp):
            return self._binary(node, depth)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        return UNKNOWN

    def _attribute(self, node: ast.Attribute, depth: int) -> Any:
        if isinstance(node.value, ast.Name):
            known = self.attributes.get((node.value.id, node.attr), UNKNOWN)
            if known is not UNKNOWN:
                return known
        if node.attr == "parent":
            base = self.of(node.value, depth + 1)
            return (os.path.dirname(base) or ".") if isinstance(base, str) else UNKNOWN
        return UNKNOWN

    def _binary(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.of(node.left, depth + 1), self.of(node.right, depth + 1)
        if isinstance(left, str) and isinstance(right, str):
            if isinstance(node.op, ast.Add) and len(left) + len(right) < MAX_TEXT:
                return left + right
            return os.path.join(left, right) if isinstance(node.op, ast.Div) else UNKNOWN
        if _is_number(left) and _is_number(right) and abs(left) + abs(right) < 10**12:
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left - right
            if isinstance(node.op, ast.Mult):
                return left * right
            if isinstance(node.op, ast.FloorDiv) and right:
                return left // right
        return UNKNOWN

    def _joined(self, node: ast.JoinedStr, depth: int) -> Any:
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            if isinstance(part, ast.FormattedValue) and part.format_spec is not None:
                return UNKNOWN
            value = self.of(inner, depth + 1)
            if not isinstance(value, (str, int)) or isinstance(value, bool):
                return UNKNOWN
            parts.append(str(value))
        text = "".join(parts)
        return text if len(text) < MAX_TEXT else UNKNOWN

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = dotted(node.func)
        values = [self.of(argument, depth + 1) for argument in node.args]
        texts = all(isinstance(value, str) for value in values)
        if name in (*_PATHS, "os.path.join") and values and texts:
            return os.path.join(*values)
        if name in _SAME_TEXT and len(values) == 1 and texts:
            return values[0]
        if name == "os.path.dirname" and len(values) == 1 and texts:
            return os.path.dirname(values[0]) or "."
        if isinstance(node.func, ast.Attribute):
            base = self.of(node.func.value, depth + 1)
            if isinstance(base, str):
                if node.func.attr in _SAME_PATH and not values:
                    return base
                if node.func.attr == "joinpath" and values and texts:
                    return os.path.join(base, *values)
        return UNKNOWN


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or attribute; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bound(node: ast.AST) -> list[tuple[str, ast.expr | None]]:
    """Names that a statement binds, each with the expression, or None where there is none."""
    if isinstance(node, ast.Assign):
        found: list[tuple[str, ast.expr | None]] = []
        for target in node.targets:
            if isinstance(target, ast.Name):
                found.append((target.id, node.value))
            else:
                found += _pairs(target, node.value)
        return found
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [(node.target.id, node.value)] if node.value is not None else []
    if isinstance(node, (ast.AugAssign, ast.For, ast.comprehension, ast.NamedExpr)):
        return [(name.id, None) for name in ast.walk(node.target) if isinstance(name, ast.Name)]
    if isinstance(node, ast.arg):
        return [(node.arg, None)]
    if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
        return [(node.optional_vars.id, None)]
    return []


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr | None]]:
    """Names of ``a, b = x, y``."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        return []
    values: list[ast.expr | None] = [None] * len(target.elts)
    if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
        values = list(value.elts)
    return [
        (item.id, part)
        for item, part in zip(target.elts, values, strict=True)
        if isinstance(item, ast.Name)
    ]
