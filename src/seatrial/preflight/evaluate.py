"""What a name, a call or an expression of a script stands for, as far as reading can tell."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from seatrial.preflight import fold
from seatrial.preflight.names import MAX_DEPTH, Names
from seatrial.preflight.scopes import Index
from seatrial.preflight.values import UNKNOWN

_PARSE = frozenset(
    {
        "parse_args",
        "parse_known_args",
        "parse_intermixed_args",
        "parse_known_intermixed_args",
        "parse_args_into_dataclasses",
        "parse_args_and_config",
        "parse_json_file",
        "parse_yaml_file",
        "parse_dict",
    }
)
# Enumerations of transformers whose members stand for their lower-case names.
_STRATEGIES = ("IntervalStrategy", "SaveStrategy", "EvaluationStrategy", "HubStrategy")
_PARSERS = ("ArgumentParser", "HfArgumentParser", "TrlParser")


@dataclass(frozen=True)
class Namespace:
    """The result of ``parse_args``; ``item`` is the place in what ``HfArgumentParser`` returns."""

    call: ast.Call
    item: int | None = None

    @property
    def method(self) -> str:
        """Name of the parsing method."""
        return self.call.func.attr if isinstance(self.call.func, ast.Attribute) else ""


class Evaluator(Names):
    """Resolves the nodes of one script. ``arguments`` gives a namespace's attribute (set later)."""

    def __init__(self, index: Index, path: str) -> None:
        super().__init__(index)
        self.path = path
        self.arguments: Callable[[Namespace, str], Any] = lambda _namespace, _name: UNKNOWN
        self._memo: dict[int, Any] = {}

    # Values

    def value(self, node: ast.AST | None) -> Any:
        """The value of an expression, or ``UNKNOWN``."""
        if node is None:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        key = id(node)
        if key not in self._memo:
            if self._depth > MAX_DEPTH:
                return UNKNOWN
            self._memo[key] = UNKNOWN
            self._depth += 1
            try:
                self._memo[key] = self._value_of(node)
            finally:
                self._depth -= 1
        return self._memo[key]

    def _value_of(self, node: ast.AST) -> Any:
        method = getattr(self, f"_value_{type(node).__name__}", None)
        return UNKNOWN if method is None else method(node)

    def _value_Name(self, node: ast.Name) -> Any:  # noqa: N802 - named after the node
        if node.id == "__file__" and not self.is_bound(node):
            return self.path
        binding = self.binding(node)
        if binding is None:
            return self._usual_namespace(node)
        source = self.source_of(binding)
        found = self.value(source)
        if binding.item is not None:
            found = _item(found, binding.item)
        if isinstance(found, (list, dict)) and node.id in self.index.mutated_names:
            return UNKNOWN
        return found

    def _usual_namespace(self, node: ast.Name) -> Any:
        """``if one JSON file is named: parse_json_file() else: parse_args_into_dataclasses()``."""
        scope = self.index.scope_of.get(id(node))
        found = scope.lookup(node.id) if scope is not None else None
        if found is None:
            return UNKNOWN
        values = [
            self.value(b.node) if b.item is None else _item(self.value(b.node), b.item)
            for b in found[1]
            if b.kind == "value"
        ]
        if len(values) != len(found[1]) or not all(isinstance(v, Namespace) for v in values):
            return UNKNOWN
        usual = [v for v in values if v.method == "parse_args_into_dataclasses"]
        return usual[0] if len(usual) == 1 else UNKNOWN

    def _value_Attribute(self, node: ast.Attribute) -> Any:  # noqa: N802
        followed = self.self_attribute(node)
        if followed is not None:
            return self.value(followed)
        if node.attr in self.index.assigned_attributes:
            return UNKNOWN
        class_name = self.dotted(node.value).rpartition(".")[2]
        if class_name in _STRATEGIES:
            return node.attr.lower()
        owner = self.value(node.value)
        if isinstance(owner, Namespace):
            return self.arguments(owner, node.attr)
        if isinstance(owner, PurePosixPath):
            return fold.path_attribute(owner, node.attr)
        return self._class_attribute(node)

    def _class_attribute(self, node: ast.Attribute) -> Any:
        """``Config.steps``, or ``config.steps`` of an object made by ``Config(...)``."""
        made: ast.AST | None = node.value
        if isinstance(made, ast.Name) and self.local_class(made) is None:
            binding = self.binding(made)
            made = None if binding is None or binding.item is not None else self.source_of(binding)
        if isinstance(made, ast.Call):
            if any(word.arg is None for word in made.keywords) or made.args:
                return UNKNOWN
            for keyword in made.keywords:
                if keyword.arg == node.attr:
                    return self.value(keyword.value)
            made = made.func
        local = self.local_class(made) if made is not None else None
        if local is None or any(
            isinstance(part, ast.FunctionDef) and part.name in ("__init__", "__post_init__")
            for part in local.body
        ):
            return UNKNOWN
        given = [
            part.value
            for part in local.body
            if isinstance(part, (ast.Assign, ast.AnnAssign)) and node.attr in _target_names(part)
        ]
        return self.value(given[0]) if len(given) == 1 else UNKNOWN

    def _value_Call(self, node: ast.Call) -> Any:  # noqa: N802
        if any(isinstance(word, ast.Starred) for word in node.args):
            return UNKNOWN
        returned = self.returned(node)
        if returned is not None:
            return self.value(returned)
        dotted = self.dotted(node.func)
        if isinstance(node.func, ast.Attribute) and _is_parse(dotted):
            return Namespace(node)
        if any(word.arg is None for word in node.keywords):
            return UNKNOWN
        args = [self.value(word) for word in node.args]
        keywords = {word.arg or "": self.value(word.value) for word in node.keywords}
        if dotted:
            found = fold.known_call(dotted, args, keywords)
            if found is not UNKNOWN:
                return found
        if isinstance(node.func, ast.Attribute) and not keywords:
            return fold.known_method(self.value(node.func.value), node.func.attr, args)
        return UNKNOWN

    def _value_BinOp(self, node: ast.BinOp) -> Any:  # noqa: N802
        return fold.binary(node.op, self.value(node.left), self.value(node.right))

    def _value_UnaryOp(self, node: ast.UnaryOp) -> Any:  # noqa: N802
        return fold.unary(node.op, self.value(node.operand))

    def _value_BoolOp(self, node: ast.BoolOp) -> Any:  # noqa: N802
        wanted = isinstance(node.op, ast.Or)
        found: Any = UNKNOWN
        for part in node.values:
            found = self.value(part)
            if found is UNKNOWN or bool(found) is wanted:
                return found
        return found

    def _value_Compare(self, node: ast.Compare) -> Any:  # noqa: N802
        return fold.compare(node.ops, [self.value(v) for v in (node.left, *node.comparators)])

    def _value_IfExp(self, node: ast.IfExp) -> Any:  # noqa: N802
        test = self.value(node.test)
        if test is UNKNOWN:
            both = self.value(node.body), self.value(node.orelse)
            same = UNKNOWN not in both and type(both[0]) is type(both[1]) and both[0] == both[1]
            return both[0] if same else UNKNOWN
        return self.value(node.body if test else node.orelse)

    def _value_JoinedStr(self, node: ast.JoinedStr) -> Any:  # noqa: N802
        pieces = []
        for part in node.values:
            plain = isinstance(part, ast.FormattedValue) and part.format_spec is None
            found = self.value(part.value) if isinstance(part, ast.FormattedValue) else part.value  # type: ignore[attr-defined]  # a Constant
            if found is UNKNOWN or (isinstance(part, ast.FormattedValue) and not plain):
                return UNKNOWN
            pieces.append(str(found))
        return "".join(pieces)

    def _value_List(self, node: ast.List) -> Any:  # noqa: N802
        values = self._items(node.elts)
        return UNKNOWN if values is None else values

    def _value_Tuple(self, node: ast.Tuple) -> Any:  # noqa: N802
        values = self._items(node.elts)
        return UNKNOWN if values is None else tuple(values)

    def _value_Set(self, node: ast.Set) -> Any:  # noqa: N802
        return self._value_List(ast.List(node.elts))

    def _items(self, nodes: list[ast.expr]) -> list[Any] | None:
        if any(isinstance(node, ast.Starred) for node in nodes):
            return None
        values = [self.value(node) for node in nodes]
        return None if UNKNOWN in values else values

    def _value_Dict(self, node: ast.Dict) -> Any:  # noqa: N802
        """A dict with known keys; a value in it may be ``UNKNOWN``."""
        made: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                inner = self.value(item)
                if not isinstance(inner, dict):
                    return UNKNOWN
                made.update(inner)
                continue
            name = self.value(key)
            if not isinstance(name, (str, int)):
                return UNKNOWN
            made[name] = self.value(item)
        return made

    def _value_Subscript(self, node: ast.Subscript) -> Any:  # noqa: N802
        owner, key = self.value(node.value), self.value(node.slice)
        if owner is UNKNOWN or key is UNKNOWN or not isinstance(owner, (dict, list, tuple)):
            return UNKNOWN
        try:
            return owner[key]
        except (LookupError, TypeError):
            return UNKNOWN


def _target_names(part: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = part.targets if isinstance(part, ast.Assign) else [part.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _is_parse(dotted: str) -> bool:
    """Whether a method is that of an argument parser that gives its values."""
    owner, _, method = dotted.rpartition(".")
    if not owner.endswith("()"):
        return False
    parser = owner[:-2].rpartition(".")[2]
    return parser in _PARSERS and method in _PARSE


def _item(found: Any, at: int) -> Any:
    """One of several names that are assigned together."""
    if isinstance(found, Namespace):
        if "known" in found.method:
            return found if at == 0 else UNKNOWN
        return Namespace(found.call, at)
    if isinstance(found, (tuple, list)) and at < len(found):
        return found[at]
    return UNKNOWN
