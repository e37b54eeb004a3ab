"""Who binds which name where in a script. Nothing is executed and nothing recurses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Nodes that say how and hold nothing.
_WORDS = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)
_BINDING = (
    ast.stmt, ast.NamedExpr, ast.comprehension, ast.withitem, ast.ExceptHandler, ast.pattern,
)  # fmt: skip
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
# Methods that change the object that they are called on.
_MUTATORS = frozenset(
    {
        "append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault", "popitem",
        "sort", "reverse", "add", "discard", "__setitem__",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Binding:
    """One place that gives a name its value.

    ``kind``: ``value`` (``node`` is the expression, ``item`` the place in a tuple that is
    unpacked), ``import`` (``dotted``), ``function``, ``class``, ``param`` or ``opaque`` (a loop
    variable, an exception, ...: only a run knows).
    """

    kind: str
    node: ast.AST | None = None
    dotted: str = ""
    item: int | None = None


@dataclass
class Scope:
    """A module, function, class or comprehension with the names it binds."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, bool] = field(default_factory=dict)  # global: True, nonlocal: False

    def bind(self, name: str, binding: Binding) -> None:
        """Add one binding of a name, where ``global`` and ``nonlocal`` say."""
        scope: Scope = self
        if name in self.elsewhere:
            scope = self.root if self.elsewhere[name] else (self.parent or self)
        scope.bindings.setdefault(name, []).append(binding)

    @property
    def root(self) -> Scope:
        """The module."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name for code in this one, with the bindings; None: builtin."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            # Names of a class body are not seen from the functions inside it.
            if name in scope.bindings and (first or not isinstance(scope.node, ast.ClassDef)):
                return scope, scope.bindings[name]
            scope, first = scope.parent, False
        return None


@dataclass
class Index:
    """Everything that one walk over the tree collects."""

    root: Scope
    scope_of: dict[int, Scope] = field(default_factory=dict)
    parent_of: dict[int, ast.AST] = field(default_factory=dict)
    calls: list[ast.Call] = field(default_factory=list)
    nodes: list[ast.AST] = field(default_factory=list)
    mutated_names: set[str] = field(default_factory=set)
    assigned_attributes: dict[str, list[ast.Attribute]] = field(default_factory=dict)
    star_imports: list[str] = field(default_factory=list)

    def parents(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, innermost first."""
        above = self.parent_of.get(id(node))
        while above is not None:
            yield above
            above = self.parent_of.get(id(above))

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function that a node stands in."""
        return next((up for up in self.parents(node) if isinstance(up, _FUNCTIONS)), None)

    def is_conditional(self, node: ast.AST) -> bool:
        """Whether it may run never or several times, as far as its own function goes."""
        for up in self.parents(node):
            if isinstance(up, (*_FUNCTIONS, ast.ClassDef)):
                return False
            if isinstance(up, ast.If) and _is_main_guard(up):
                continue
            if isinstance(up, (ast.If, ast.IfExp, ast.Try, ast.Match, *_LOOPS, *_COMPREHENSIONS)):
                return True
        return False


def _is_main_guard(node: ast.If) -> bool:
    test = node.test
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
    )


def index_of(tree: ast.Module) -> Index:
    """Walk a tree once."""
    index = Index(Scope(tree, None))
    todo: list[tuple[ast.AST, Scope]] = [(tree, index.root)]
    while todo:
        node, scope = todo.pop()
        index.scope_of[id(node)] = scope
        index.nodes.append(node)
        inner = _enter(node, scope, index)
        children = [one for one in ast.iter_child_nodes(node) if not isinstance(one, _WORDS)]
        for child in children:
            index.parent_of[id(child)] = node
        if inner is scope:
            todo.extend((child, scope) for child in reversed(children))
        else:
            todo.extend(
                (child, _scope_for(node, child, scope, inner)) for child in reversed(children)
            )
    return index


def _scope_for(node: ast.AST, child: ast.AST, outer: Scope, inner: Scope) -> Scope:
    """Decorators, defaults and base classes belong to the scope around a definition."""
    if inner is outer or isinstance(node, (ast.Module, *_COMPREHENSIONS)):
        return inner
    if isinstance(node, ast.ClassDef):
        return inner if child in node.body else outer
    if isinstance(node, ast.Lambda):
        return inner if child is node.body else outer
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return inner if child in node.body else outer
    return inner


def _enter(node: ast.AST, scope: Scope, index: Index) -> Scope:
    """Note what a node binds or changes; the scope of what stands inside it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        scope.bind(node.name, Binding(kind, node))
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef, *_COMPREHENSIONS)):
        inner = Scope(node, scope)
        if isinstance(node, _FUNCTIONS):
            _bind_parameters(node, inner)
            inner.elsewhere = dict(_declared(node))
        return inner
    if isinstance(node, _BINDING):
        _bind_statement(node, scope, index)
    elif isinstance(node, ast.Call):
        index.calls.append(node)
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _MUTATORS:
            _note_mutated(func.value, index)
    return scope


def _declared(node: FunctionNode) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.Lambda):
        return
    for statement in ast.walk(node):
        if isinstance(statement, (ast.Global, ast.Nonlocal)):
            for name in statement.names:
                yield name, isinstance(statement, ast.Global)


def _bind_parameters(node: FunctionNode, scope: Scope) -> None:
    args = node.args
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        scope.bind(arg.arg, Binding("param", arg))
    for rest in (args.vararg, args.kwarg):
        if rest is not None:
            scope.bind(rest.arg, Binding("opaque", rest))


def _bind_statement(node: ast.AST, scope: Scope, index: Index) -> None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _bind_target(target, node.value, scope, index)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        _bind_target(node.target, node.value, scope, index)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        _bind_imports(node, scope, index)
    elif isinstance(node, (ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension)):
        _bind_target(node.target, None, scope, index)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        _bind_target(node.optional_vars, None, scope, index)
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            _bind_target(target, None, scope, index)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        scope.bind(node.name, Binding("opaque", node))
    elif isinstance(node, ast.MatchMapping) and node.rest:
        scope.bind(node.rest, Binding("opaque", node))


def _bind_imports(node: ast.Import | ast.ImportFrom, scope: Scope, index: Index) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name if alias.asname else alias.name.partition(".")[0]
            scope.bind(alias.asname or top, Binding("import", node, top))
        return
    base = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            index.star_imports.append(base)
        else:
            dotted = f"{base}.{alias.name}" if node.module else base + alias.name
            scope.bind(alias.asname or alias.name, Binding("import", node, dotted))


def _bind_target(
    target: ast.AST, value: ast.expr | None, scope: Scope, index: Index, item: int | None = None
) -> None:
    todo: list[tuple[ast.AST, ast.expr | None, int | None]] = [(target, value, item)]
    while todo:
        one, given, at = todo.pop()
        if isinstance(one, ast.Name):
            kind = "opaque" if given is None else "value"
            scope.bind(one.id, Binding(kind, one if given is None else given, item=at))
        elif isinstance(one, (ast.Tuple, ast.List)):
            starred = any(isinstance(part, ast.Starred) for part in one.elts)
            plain = given if at is None and not starred else None
            if isinstance(plain, (ast.Tuple, ast.List)) and len(plain.elts) == len(one.elts):
                todo += [(part, each, None) for part, each in zip(one.elts, plain.elts)]
            else:
                todo += [(part, plain, place) for place, part in enumerate(one.elts)]
        elif isinstance(one, ast.Starred):
            todo.append((one.value, None, None))
        elif isinstance(one, ast.Attribute):
            index.assigned_attributes.setdefault(one.attr, []).append(one)
        elif isinstance(one, ast.Subscript):
            _note_mutated(one.value, index)


def _note_mutated(node: ast.AST, index: Index) -> None:
    """The object behind ``x[...] = ``, ``x.append()`` is no longer what was assigned."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        if isinstance(node, ast.Attribute):
            index.mutated_names.add("." + node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        index.mutated_names.add(node.id)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars":
        for arg in node.args:
            _note_mutated(arg, index)
