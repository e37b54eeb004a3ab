"""What a name, a call or a function of a script refers to, followed through the script itself."""

from __future__ import annotations

import ast
import builtins

from seatrial.preflight.scopes import Binding, FunctionNode, Index

MAX_DEPTH = 40
_BUILTINS = frozenset(dir(builtins))


class Names:
    """Resolves the names of one script."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._depth = 0
        self._dotted: dict[int, str] = {}
        self._used_as_values: set[str] | None = None
        self._calls_of: dict[str, list[ast.Call]] | None = None

    def binding(self, name: ast.Name) -> Binding | None:
        """The one binding of a name; None when there is none or several."""
        scope = self.index.scope_of.get(id(name))
        found = scope.lookup(name.id) if scope is not None else None
        if found is None or len(found[1]) != 1:
            return None
        return found[1][0]

    def is_bound(self, name: ast.Name) -> bool:
        """Whether the script itself binds the name."""
        scope = self.index.scope_of.get(id(name))
        return scope is not None and scope.lookup(name.id) is not None

    def dotted(self, node: ast.AST) -> str:
        """Where something comes from: ``transformers.Trainer``, ``transformers.Trainer().train``.

        A function or class of the script itself is ``__main__.name``; empty when it is unknown.
        """
        key = id(node)
        if key not in self._dotted:
            self._dotted[key] = ""  # a circle is unknown
            if self._depth > MAX_DEPTH:
                del self._dotted[key]
                return ""
            self._depth += 1
            try:
                self._dotted[key] = self._dotted_of(node)
            finally:
                self._depth -= 1
        return self._dotted[key]

    def _dotted_of(self, node: ast.AST) -> str:
        if isinstance(node, ast.Attribute):
            followed = self.self_attribute(node)
            if followed is not None:
                return self.dotted(followed)
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        if isinstance(node, ast.Call):
            returned = self.returned(node)
            if returned is not None:
                return self.dotted(returned)
            inner = self.dotted(node.func)
            return f"{inner}()" if inner else ""
        return self._dotted_name(node) if isinstance(node, ast.Name) else ""

    def _dotted_name(self, node: ast.Name) -> str:
        if not self.is_bound(node):
            if node.id in _BUILTINS:
                return f"builtins.{node.id}"
            stars = self.index.star_imports
            return f"{stars[0]}.{node.id}" if len(stars) == 1 else ""
        binding = self.binding(node)
        if binding is None:
            return self._same_import(node)
        if binding.kind == "import":
            return binding.dotted
        if binding.kind in ("function", "class"):
            return f"__main__.{node.id}"
        source = self.source_of(binding)
        return self.dotted(source) if source is not None and binding.item is None else ""

    def _same_import(self, node: ast.Name) -> str:
        """A name that several branches bind to things of one last name (``try: import``...)."""
        found = self.index.scope_of[id(node)].lookup(node.id)
        names = {self._origin(b) for b in found[1]} if found is not None else set()
        return names.pop() if len(names) == 1 else ""

    def _origin(self, binding: Binding) -> str:
        if binding.kind == "import":
            return binding.dotted
        source = self.source_of(binding) if binding.item is None else None
        return self.dotted(source) if source is not None else ""

    def source_of(self, binding: Binding) -> ast.expr | None:
        """The expression that a binding took its value from, followed into the one caller."""
        if binding.kind == "value" and isinstance(binding.node, ast.expr):
            return binding.node
        if binding.kind == "param" and isinstance(binding.node, ast.arg):
            return self._argument(binding.node)
        return None

    def self_attribute(self, node: ast.Attribute) -> ast.expr | None:
        """The one expression that a class assigns to ``self.x``."""
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return None
        places = self.index.assigned_attributes.get(node.attr, ())
        if len(places) != 1 or node in places:
            return None
        statement = self.index.parent_of.get(id(places[0]))
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            return statement.value
        return None

    # Functions of the script

    def local_function(self, node: ast.AST) -> FunctionNode | None:
        """The function of this script that a name means."""
        if isinstance(node, ast.Name):
            binding = self.binding(node)
            if binding is not None and binding.kind == "function":
                return binding.node  # type: ignore[return-value]  # kind says so
        return None

    def local_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of this script that a name means."""
        if isinstance(node, ast.Name):
            binding = self.binding(node)
            if binding is not None and isinstance(binding.node, ast.ClassDef):
                return binding.node
        return None

    def returned(self, call: ast.Call) -> ast.expr | None:
        """What a call of a function of this script returns, when it has one ``return``."""
        function = self.local_function(call.func)
        if not isinstance(function, ast.FunctionDef) or function.decorator_list:
            return None
        returns = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and self.index.function_of(node) is function
        ]
        return returns[0].value if len(returns) == 1 else None

    def callers(self, name: str) -> list[ast.Call] | None:
        """Every call of a function of this script; None when it is also handed around."""
        if self._calls_of is None:
            self._note_uses()
        assert self._calls_of is not None and self._used_as_values is not None
        return None if name in self._used_as_values else self._calls_of.get(name, [])

    def _note_uses(self) -> None:
        self._calls_of, self._used_as_values = {}, set()
        for node in self.index.nodes:
            if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
                continue
            parent = self.index.parent_of.get(id(node))
            if isinstance(parent, ast.Call) and parent.func is node:
                self._calls_of.setdefault(node.id, []).append(parent)
            else:
                self._used_as_values.add(node.id)

    def _argument(self, arg: ast.arg) -> ast.expr | None:
        """What the only caller hands in for a parameter, or its default."""
        function = self._function_with(arg)
        if not isinstance(function, ast.FunctionDef) or function.decorator_list:
            return None
        if isinstance(self.index.scope_of[id(function)].node, ast.ClassDef):
            return None
        calls = self.callers(function.name)
        if calls is None or len(calls) != 1:
            return None
        call, args = calls[0], function.args
        if any(isinstance(word, ast.Starred) for word in call.args) or any(
            keyword.arg is None for keyword in call.keywords
        ):
            return None
        for keyword in call.keywords:
            if keyword.arg == arg.arg:
                return keyword.value
        positional = [*args.posonlyargs, *args.args]
        if arg in positional:
            at = positional.index(arg)
            if at < len(call.args):
                return call.args[at]
            from_end = at - len(positional)
            return args.defaults[from_end] if -from_end <= len(args.defaults) else None
        return args.kw_defaults[args.kwonlyargs.index(arg)] if arg in args.kwonlyargs else None

    def _function_with(self, arg: ast.arg) -> ast.AST | None:
        arguments = self.index.parent_of.get(id(arg))
        return None if arguments is None else self.index.parent_of.get(id(arguments))

    def origin(self, node: ast.AST | None) -> ast.AST | None:
        """The expression behind names, parameters and returned values; None when unknown."""
        for _ in range(MAX_DEPTH):
            if isinstance(node, ast.Name):
                binding = self.binding(node)
                if binding is None or binding.item is not None:
                    return None
                node = self.source_of(binding)
            elif isinstance(node, ast.Attribute):
                followed = self.self_attribute(node)
                if followed is None:
                    return node
                node = followed
            elif isinstance(node, ast.Call):
                returned = self.returned(node)
                if returned is None:
                    return node
                node = returned
            else:
                return node
        return None
