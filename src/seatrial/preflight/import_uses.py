"""The imports of a module as its text has them, and under which conditions each of them runs."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
# Conditions on the machine, not on the run: what they guard is not meant to be everywhere.
_PLATFORM = (
    "sys.platform", "os.name", "platform.", "version_info", "is_available(", "find_spec(",
)  # fmt: skip
ALWAYS = ""


@dataclass(frozen=True)
class ImportUse:
    """One imported module.

    Attributes:
        module: dotted name; without the leading dots of a relative import.
        level: number of leading dots.
        names: what is taken out of it; empty for ``import a.b``.
        line: where it stands.
        condition: why it may not run or may fail unnoticed; empty when it always runs.
        caught: the script catches a failure itself, or imports it only on some machines.
    """

    module: str
    level: int
    names: tuple[str, ...]
    line: int
    condition: str = ALWAYS
    caught: bool = False


def import_uses(tree: ast.Module) -> tuple[ImportUse, ...]:
    """Every import but those for type checkers only, in the order of the text."""
    walker = _Walker(_always_called(tree))
    walker.body(tree.body, ALWAYS, caught=False)
    return tuple(sorted(walker.found, key=lambda use: use.line))


class _Walker:
    def __init__(self, called: frozenset[str]) -> None:
        self._called = called
        self.found: list[ImportUse] = []

    def body(self, nodes: list[ast.stmt], condition: str, *, caught: bool) -> None:
        for node in nodes:
            self._statement(node, condition, caught)

    def _statement(self, node: ast.stmt, condition: str, caught: bool) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.found.append(ImportUse(alias.name, 0, (), node.lineno, condition, caught))
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            self.found.append(
                ImportUse(node.module or "", node.level, names, node.lineno, condition, caught)
            )
        elif isinstance(node, (ast.Try, ast.TryStar)):
            self._try(node, condition, caught)
        elif isinstance(node, ast.If):
            self._if(node, condition, caught)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            always = node.name in self._called
            inside = condition if always else condition or f"only when {node.name}() is called"
            self.body(node.body, inside, caught=caught)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                self.body(case.body, condition or "only in one case of a match", caught=caught)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            self.body(node.body, condition or "only inside a loop", caught=caught)
            self.body(node.orelse, condition or "only inside a loop", caught=caught)
        elif isinstance(node, ast.ClassDef):
            self.body(node.body, condition, caught=caught)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            held = any("suppress" in ast.unparse(item.context_expr) for item in node.items)
            self.body(node.body, condition, caught=caught or held)

    def _try(self, node: ast.Try | ast.TryStar, condition: str, caught: bool) -> None:
        held = any(_catches_imports(handler) for handler in node.handlers)
        self.body(node.body, condition, caught=caught or held)
        for handler in node.handlers:
            # What stands in for an import that is there never runs: `import tomli as tomllib`.
            self.body(handler.body, condition or "only when what is tried fails", caught=True)
        self.body(node.orelse, condition, caught=caught)
        self.body(node.finalbody, condition, caught=caught)

    def _if(self, node: ast.If, condition: str, caught: bool) -> None:
        text = ast.unparse(node.test)
        if "TYPE_CHECKING" in text:
            if not text.startswith("not"):
                self.body(node.orelse, condition, caught=caught)
            return
        if "__name__" in text and "__main__" in text:
            self.body(node.body, condition, caught=caught)
            return
        inside = condition or f"only if {text[:60]}"
        caught = caught or any(word in text for word in _PLATFORM)
        self.body(node.body, inside, caught=caught)
        self.body(node.orelse, inside, caught=caught)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind).rpartition(".")[2] in _IMPORT_ERRORS for kind in kinds)


def _always_called(tree: ast.Module) -> frozenset[str]:
    """Functions that a plain statement of the module, or of one of them, calls."""
    functions = {
        node.name: node
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    found: set[str] = set()
    todo = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If):
            if "__name__" in ast.unparse(node.test):
                todo += node.body
            continue
        if not isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.Return)):
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                name = call.func.id
                if name in functions and name not in found:
                    found.add(name)
                    todo += functions[name].body
    return frozenset(found)


def absolute(use: ImportUse, package: str) -> ImportUse | None:
    """A relative import as the module that it means; None when it leads out of the package.

    Args:
        use: the import.
        package: dotted name of the package that holds the importing module; empty for a script.
    """
    if use.level == 0:
        return use
    parts = package.split(".") if package else []
    keep = len(parts) - use.level + 1
    if keep < 1:
        return None
    module = ".".join([*parts[:keep], *filter(None, [use.module])])
    return replace(use, module=module, level=0)
