"""Local modules that Python files import, found by the text of the imports. Nothing is run."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from seatrial.readers.json_file import NotRegularError, open_regular
from seatrial.readers.static_values import StaticValues, dotted

MAX_MODULES = 2000
MAX_SOURCE_BYTES = 4 * 2**20
_INSTALLED = ("site-packages", "dist-packages")
_PATH_CALLS = ("sys.path.insert", "sys.path.append")


@dataclass
class LocalModules:
    """Files that run with a script.

    Attributes:
        trees: each file, by its real path, in the order in which they were found; None where the
            text is no Python that can be parsed.
        sources: the text of each file that could be parsed.
        truncated: whether there were more than ``MAX_MODULES``.
    """

    trees: dict[str, ast.Module | None] = field(default_factory=dict)
    sources: dict[str, bytes] = field(default_factory=dict)
    truncated: bool = False


@dataclass(frozen=True)
class _File:
    path: str
    package: str


def local_modules(files: Iterable[str], roots: Sequence[str]) -> LocalModules:
    """The files given and every module below the roots that they import, directly or not.

    Args:
        files: absolute paths of Python files.
        roots: folders on ``sys.path``, first match counts; ``sys.path`` changes in the files
            themselves are followed as far as their text tells.
    """
    found = LocalModules()
    search = list(dict.fromkeys(map(os.path.realpath, roots)))
    waiting = [_File(os.path.realpath(path), _package_of(path)) for path in files]
    while waiting:
        file = waiting.pop(0)
        if file.path in found.trees:
            continue
        if len(found.trees) >= MAX_MODULES:
            found.truncated = True
            break
        source = _source(file.path)
        tree = found.trees[file.path] = _parsed(source)
        if tree is None:
            continue
        found.sources[file.path] = source
        if b"sys.path" in source:
            search += [path for path in _added_to_path(tree, file.path) if path not in search]
        waiting += _imported(tree, file, search)
    return found


def _source(path: str) -> bytes:
    """The text of a file; empty when it is missing or too large."""
    try:
        with open_regular(path) as handle:
            data = handle.read(MAX_SOURCE_BYTES + 1)
    except (OSError, NotRegularError):
        return b""
    return data if len(data) <= MAX_SOURCE_BYTES else b"("


def _parsed(source: bytes) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def module_file(name: str, roots: Iterable[str]) -> str | None:
    """The file that ``python -m name`` would run, looked for below the roots only."""
    for root in roots:
        base = os.path.join(root, *name.split("."))
        for path in (os.path.join(base, "__main__.py"), base + ".py"):
            if os.path.isfile(path) and _is_local(path):
                return path
    return None


def _package_of(path: str) -> str:
    """Dotted name of the package that a file is in, for its relative imports."""
    folder = os.path.dirname(os.path.realpath(path))
    parts: list[str] = []
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        parts.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    return ".".join(parts)


def _is_local(path: str) -> bool:
    parts = path.split(os.sep)
    if any(name in parts for name in _INSTALLED):
        return False
    return not any(
        path.startswith(prefix + os.sep)
        for prefix in {os.path.join(sys.base_prefix, "lib"), os.path.join(sys.prefix, "lib")}
    )


def _added_to_path(tree: ast.Module, path: str) -> Iterator[str]:
    """Folders that a file puts on ``sys.path`` by an expression whose value its text tells."""
    values: StaticValues | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) in _PATH_CALLS and node.args:
            values = values or StaticValues(tree, path)
            folder = values.of(node.args[-1])
            if isinstance(folder, str) and "\0" not in folder:
                full = os.path.realpath(os.path.join(os.path.dirname(path), folder))
                if os.path.isdir(full):
                    yield full


def _imported(tree: ast.Module, file: _File, roots: Sequence[str]) -> Iterator[_File]:
    for name in _names(tree, file.package):
        # A relative import starts at the file's own package, wherever that is.
        yield from _resolved(name, [*roots, *_package_root(file)])


def _package_root(file: _File) -> list[str]:
    if not file.package:
        return []
    folder = os.path.dirname(file.path)
    for _ in file.package.split("."):
        folder = os.path.dirname(folder)
    return [folder]


def _names(tree: ast.Module, package: str) -> Iterator[str]:
    """Dotted names that may be modules: ``from a import b`` gives ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".") if package else []
                kept = parts[: len(parts) - node.level + 1]
                if node.level > len(parts) + 1:
                    continue
                base = ".".join([*kept, *filter(None, [base])])
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
            if base:
                yield base
        elif isinstance(node, ast.Call) and node.args:
            called = dotted(node.func)
            first = node.args[0]
            if called in ("importlib.import_module", "import_module", "__import__") and isinstance(
                first, ast.Constant
            ):
                name = first.value
                if isinstance(name, str) and name and not name.startswith("."):
                    yield name


def _resolved(name: str, roots: Sequence[str]) -> list[_File]:
    """Files that ``import name`` runs: each package on the way, and the module."""
    parts = [part for part in name.split(".") if part and part != "*"]
    if not parts or any(not part.isidentifier() for part in parts):
        return []
    for root in roots:
        found = _below(root, parts)
        if found:
            return found
    return []


def _below(root: str, parts: Sequence[str]) -> list[_File]:
    found: list[_File] = []
    folder, package = root, ""
    for index, part in enumerate(parts):
        inside = os.path.join(folder, part)
        dotted_name = ".".join(parts[: index + 1])
        if os.path.isfile(os.path.join(inside, "__init__.py")):
            found.append(_File(os.path.realpath(os.path.join(inside, "__init__.py")), dotted_name))
        elif os.path.isfile(inside + ".py"):
            found.append(_File(os.path.realpath(inside + ".py"), package))
            break
        elif not os.path.isdir(inside):
            break
        folder, package = inside, dotted_name
    return [file for file in found if _is_local(file.path)]
