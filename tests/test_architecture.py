"""The rules of ``docs/architecture.md``, checked on the syntax tree; nothing is imported.

``violations(package)`` works on any folder, so that each rule is shown to trip on a planted fault.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "seatrial"
MAX_LINES = 450
MAX_FUNCTION_LINES = 60

# room -> rooms it may import from besides itself. Floors: 1 core; 2 the edges, which do not know
# each other; 3 engines; 4 workflows; 5 cli. The travellers know core alone.
_EDGES = {"core"}
_FLOOR_2 = {
    "core", "evidence", "readers", "store", "process", "hub", "preflight", "checkpoints", "heldout",
}  # fmt: skip
_TRAVELLERS = {"supervisor", "probe"}
ALLOWED = {
    "core": set[str](),
    "supervisor": {"core"},
    "probe": {"core"},
    "emit": {"core"},
    "process": _EDGES,
    "store": _EDGES,
    "readers": _EDGES,
    "evidence": _EDGES,
    "hub": _EDGES,
    "preflight": _EDGES,
    "checkpoints": _EDGES,
    "heldout": _EDGES,
    "child": set[str](),
    "engines": _FLOOR_2 | _TRAVELLERS,
    "workflows": _FLOOR_2 | _TRAVELLERS | {"engines"},
    "cli": _FLOOR_2 | _TRAVELLERS | {"engines", "workflows", "schemas"},
    "__main__": {"cli"},
    "__init__": set[str](),
    "schemas": set[str](),
}
PORTABLE = ("core", "supervisor", "probe", "emit", "child")
NEWER_THAN_39 = {"tomllib", "_colorize", "annotationlib", "compression"}
USER_LIBRARIES = {
    "torch", "transformers", "accelerate", "deepspeed", "peft", "safetensors", "trl", "datasets",
}  # fmt: skip
HEAVY = USER_LIBRARIES | {
    "pydantic",
    "jinja2",
    "sqlite3",
    "numpy",
    "yaml",
    "jsonschema",
    "huggingface_hub",
}
SPAWNS = re.compile(
    r"^os\.(fork|forkpty|posix_spawnp?|popen|system|spawn\w+|exec[lv]\w*)$|^pty\.\w+$"
)
WRITES = re.compile(
    r"^os\.(replace|rename|renames|remove|unlink|mkdir|makedirs|rmdir|removedirs|truncate|link|"
    r"symlink|mkfifo)$|^shutil\.(rmtree|move|copy\w*)$|^tempfile\.\w+$"
)
WRITE_METHODS = {"write_text", "write_bytes", "mkdir", "rmdir", "touch", "unlink", "symlink_to"}
BLIND = re.compile(r"^(c?pickle|_pickle|dill|marshal|shelve|joblib)\.(loads?|open|Unpickler)$")

# (file, rule) pairs that are right as they are; each says why.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("cli/bug_report.py", "write"): "the log of a fault of ours must not need the store to work",
    ("cli/main.py", "write"): "the null device stands in for a stream that the shell closed",
    ("readers/trial_model.py", "length"): "models of pydantic are declared where it is imported",
}


@dataclass(frozen=True)
class Source:
    """One module: its path inside the package, dotted name, room and tree."""

    path: str
    name: str
    room: str
    text: str
    tree: ast.Module


@dataclass(frozen=True)
class Import:
    """One imported module and where it stands."""

    target: str
    line: int
    at_start: bool


def sources(package: Path) -> list[Source]:
    found = []
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        dotted = ".".join(("seatrial", *parts)).removesuffix(".__init__")
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text, str(file))
        found.append(Source("/".join(parts) + ".py", dotted, parts[0], text, tree))
    return found


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imports(source: Source, known: set[str]) -> Iterator[Import]:
    """Every import; ``at_start`` tells those that run when the module is imported."""

    def visit(node: ast.AST, at_start: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if _is_type_checking(child):
                continue
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, at_start)
            elif isinstance(child, ast.ImportFrom):
                base = child.module or ""
                if child.level:  # ruff bans most of these; resolve what is left
                    parts = source.name.split(".")
                    keep = len(parts) - child.level + source.path.endswith("__init__.py")
                    base = ".".join([*parts[:keep], *filter(None, [child.module])])
                for alias in child.names:
                    longer = f"{base}.{alias.name}"
                    yield Import(longer if longer in known else base, child.lineno, at_start)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                yield from visit(child, False)
            else:
                yield from visit(child, at_start)

    return visit(source.tree, True)


def _room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def check_rooms(source: Source, known: set[str]) -> Iterator[tuple[int, str, str]]:
    if source.room not in ALLOWED:
        yield 1, "room", f"{source.room} is no room of docs/architecture.md"
        return
    for item in imports(source, known):
        top = item.target.split(".")[0]
        room = _room_of(item.target)
        if top == "seatrial":
            if room not in ALLOWED[source.room] | {source.room, "__init__"}:
                yield item.line, "room", f"{source.room} must not import {room} ({item.target})"
        elif source.room in PORTABLE and top not in sys.stdlib_module_names:
            if not (
                source.room in ("probe", "child") and top in USER_LIBRARIES and not item.at_start
            ):
                yield item.line, "stdlib", f"{source.room} imports {item.target}"
        elif source.room in PORTABLE and top in NEWER_THAN_39:
            yield item.line, "stdlib", f"{item.target} does not exist in Python 3.9"


def check_heavy(source: Source, known: set[str]) -> Iterator[tuple[int, str, str]]:
    for item in imports(source, known):
        if item.at_start and item.target.split(".")[0] in HEAVY:
            yield item.line, "heavy", f"{item.target} is imported at module level"


def check_spawns(source: Source, known: set[str]) -> Iterator[tuple[int, str, str]]:
    if source.room in ("process", "supervisor"):
        return
    for item in imports(source, known):
        if item.target.split(".")[0] in ("subprocess", "multiprocessing", "pty"):
            yield item.line, "spawn", f"{item.target} outside process.py and supervisor/"
    for call in _calls(source.tree):
        if SPAWNS.match(_called(call)):
            yield call.lineno, "spawn", f"{_called(call)} outside process.py and supervisor/"


def check_prints(source: Source, _known: set[str]) -> Iterator[tuple[int, str, str]]:
    if source.room != "cli":
        for call in _calls(source.tree):
            if _called(call) == "print":
                yield call.lineno, "print", "print outside cli/"


def _opens_for_writing(call: ast.Call) -> bool:
    """Whether an open call may write. A mode that is no literal counts as writing."""
    name = _called(call)
    if name == "os.open":
        text = ast.unparse(call)
        return "os.devnull" not in text and bool(re.search(r"O_(WRONLY|RDWR|CREAT|APPEND)", text))
    if name in ("open", "io.open", "os.fdopen"):
        position = 1
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "open":
        position = 0
    else:
        return False
    mode: ast.expr | None = call.args[position] if len(call.args) > position else None
    mode = next((word.value for word in call.keywords if word.arg == "mode"), mode)
    if mode is None:
        return False
    if isinstance(mode, ast.Constant):
        return isinstance(mode.value, str) and bool(set("wax+") & set(mode.value))
    return name in ("open", "io.open", "os.fdopen")


def check_writes(source: Source, known: set[str]) -> Iterator[tuple[int, str, str]]:
    if source.room in ("store", "supervisor", "probe"):
        return
    for item in imports(source, known):
        if item.target.split(".")[0] == "sqlite3":
            yield item.line, "write", "sqlite3 outside store/"
    for call in _calls(source.tree):
        name = _called(call)
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if WRITES.match(name) or method in WRITE_METHODS or _opens_for_writing(call):
            yield call.lineno, "write", f"{name} writes outside store/, supervisor/, probe/"


def check_blind(source: Source, _known: set[str]) -> Iterator[tuple[int, str, str]]:
    for call in _calls(source.tree):
        name = _called(call)
        words = {word.arg: ast.unparse(word.value) for word in call.keywords}
        if name in ("eval", "exec", "builtins.eval", "builtins.exec", "os.system", "os.popen"):
            yield call.lineno, "blind", f"{name} runs what nobody reviewed"
        elif BLIND.match(name) or (name == "torch.load" and words.get("weights_only") != "True"):
            yield call.lineno, "blind", f"{name} runs code from a data file"
        elif words.get("shell", "False") != "False":
            yield call.lineno, "blind", f"{name} goes through a shell"


def check_shape(source: Source, _known: set[str]) -> Iterator[tuple[int, str, str]]:
    lines = source.text.count("\n") + 1
    if lines > MAX_LINES:
        yield MAX_LINES, "length", f"{lines} lines; at most {MAX_LINES}"
    if not ast.get_docstring(source.tree):
        yield 1, "docstring", "the module says nothing about itself"
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno:
            length = node.end_lineno - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield node.lineno, "length", f"{node.name} has {length} lines"
    if source.room in PORTABLE:
        try:
            ast.parse(source.text, feature_version=(3, 9))
        except SyntaxError as error:
            yield error.lineno or 1, "python39", f"not Python 3.9: {error.msg}"


CHECKS: tuple[Callable[[Source, set[str]], Iterator[tuple[int, str, str]]], ...] = (
    check_rooms, check_heavy, check_spawns, check_prints, check_writes, check_blind, check_shape,
)  # fmt: skip


def cycles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Groups of modules that import each other in a circle."""
    reach: dict[str, set[str]] = {}
    for start, direct in graph.items():
        seen: set[str] = set()
        todo = list(direct)
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += graph.get(name, ())
        reach[start] = seen
    rings = {
        tuple(sorted(other for other in graph if other in reach[name] and name in reach[other]))
        for name in graph
        if name in reach[name]
    }
    return sorted(rings)


def violations(package: Path, exceptions: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Everything in a package folder that breaks a rule, as ``file:line rule: what``."""
    files = sources(package)
    known = {source.name for source in files}
    graph = {
        source.name: {item.target for item in imports(source, known)} & known - {source.name}
        for source in files
    }
    found = [
        f"{source.path}:{line} {rule}: {text}"
        for source in files
        for check in CHECKS
        for line, rule, text in check(source, known)
        if (source.path, rule) not in exceptions
    ]
    return found + [f"cycle: {' <-> '.join(ring)}" for ring in cycles(graph)]


def repeated_names(files: Iterable[Path]) -> list[str]:
    seen: dict[str, list[str]] = {}
    for file in files:
        seen.setdefault(file.name, []).append(str(file))
    return sorted(name for name, places in seen.items() if len(places) > 1)


def test_the_package_keeps_the_rules_of_its_architecture() -> None:
    assert violations(PACKAGE, EXCEPTIONS) == []


def test_every_exception_is_still_needed() -> None:
    found = violations(PACKAGE)
    for path, rule in EXCEPTIONS:
        used = any(line.startswith(f"{path}:") and f" {rule}: " in line for line in found)
        assert used, f"{path} keeps the rule {rule!r} now; take its exception out"


def test_the_table_is_the_one_of_the_documentation() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+) \| [\d-] \|", page, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)(?:/|\.py)`", row)}
    assert documented == set(ALLOWED) - {"__main__", "__init__", "schemas"}


def test_test_files_have_unique_names() -> None:
    tests = (ROOT / "tests").rglob("test_*.py")
    assert repeated_names(tests) == []
    assert repeated_names([Path("a/test_x.py"), Path("b/test_x.py")]) == ["test_x.py"]


PLANTED = [
    ("core/a.py", "from seatrial.store import files", "room: core must not import store"),
    ("store/a.py", "def f():\n    from seatrial.readers import b", "room: store must not import"),
    ("engines/a.py", "import seatrial.cli.main", "room: engines must not import cli"),
    ("attic/a.py", "x = 1", "room: attic is no room"),
    ("supervisor/a.py", "import seatrial.process", "room: supervisor must not import process"),
    ("core/a.py", "import yaml", "stdlib: core imports yaml"),
    ("probe/a.py", "import torch", "stdlib: probe imports torch"),
    ("supervisor/a.py", "def f():\n    import torch", "stdlib: supervisor imports torch"),
    ("core/a.py", "def f():\n    import tomllib", "stdlib: tomllib does not exist in Python 3.9"),
    ("readers/a.py", "try:\n    import pydantic\nexcept ImportError:\n    pass", "heavy: pydantic"),
    ("evidence/a.py", "from jinja2 import Environment", "heavy: jinja2"),
    ("store/a.py", "import sqlite3", "heavy: sqlite3"),
    ("workflows/a.py", "def f():\n    import subprocess", "spawn: subprocess"),
    ("engines/a.py", "import os\nos.fork()", "spawn: os.fork"),
    ("cli/a.py", "import os\nos.execvp('a', ['a'])", "spawn: os.execvp"),
    ("workflows/a.py", "print('x')", "print: print outside cli/"),
    ("readers/a.py", "open('x', 'w')", "write: open writes"),
    ("readers/a.py", "def f(m):\n    open('x', mode=m)", "write: open writes"),
    ("readers/a.py", "from pathlib import Path\nPath('x').open('ab')", "write:"),
    ("readers/a.py", "from pathlib import Path\nPath('x').write_text('y')", "write:"),
    ("cli/a.py", "import os\nos.open('x', os.O_WRONLY | os.O_CREAT)", "write: os.open"),
    ("workflows/a.py", "import os\nos.replace('a', 'b')", "write: os.replace"),
    ("readers/a.py", "def f():\n    import sqlite3", "write: sqlite3 outside store/"),
    ("core/a.py", "eval('1')", "blind: eval"),
    ("probe/a.py", "exec('1')", "blind: exec"),
    ("readers/a.py", "import pickle\npickle.load(1)", "blind: pickle.load"),
    ("readers/a.py", "def f(torch):\n    torch.load('x')", "blind: torch.load"),
    ("process.py", "import subprocess\nsubprocess.run('x', shell=True)", "blind: subprocess.run"),
    ("core/a.py", "x = 1\n" * MAX_LINES, "length: 453 lines"),
    ("core/a.py", "def f():\n" + "    x = 1\n" * 60, "length: f has 61 lines"),
    ("core/a.py", "match 1:\n    case 1:\n        pass", "python39:"),
]


@pytest.mark.parametrize(("path", "body", "expected"), PLANTED, ids=[row[2] for row in PLANTED])
def test_a_planted_violation_is_found(tmp_path: Path, path: str, body: str, expected: str) -> None:
    for planted, text in (
        (path, f'"""Planted."""\n{body}\n'),
        ("readers/b.py", '"""There to be imported."""\n'),
        ("store/files.py", '"""There to be imported."""\n'),
    ):
        (tmp_path / planted).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / planted).write_text(text)
    found = violations(tmp_path)
    assert any(f" {expected}" in line for line in found), found
    assert all(line.startswith(path) for line in found), found


def test_a_missing_docstring_and_a_cycle_are_found(tmp_path: Path) -> None:
    core = tmp_path / "core"
    core.mkdir()
    (core / "a.py").write_text('"""A."""\nfrom seatrial.core import b\n')
    (core / "b.py").write_text('"""B."""\ndef f():\n    import seatrial.core.a\n')
    (core / "c.py").write_text("from seatrial.core import a\n")
    assert violations(tmp_path) == [
        "core/c.py:1 docstring: the module says nothing about itself",
        "cycle: seatrial.core.a <-> seatrial.core.b",
    ]


HEALTHY = {
    "core/a.py": '"""A."""\nfrom __future__ import annotations\nimport math\nopen("x")\n',
    "probe/b.py": '"""B."""\nfrom seatrial.core import a\ndef f():\n    import torch\n'
    '    torch.load("x", weights_only=True)\nopen("x", "a")\n',
    "store/c.py": '"""C."""\nimport os\ndef f():\n    import sqlite3\nos.replace("a", "b")\n',
    "readers/d.py": '"""D."""\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n'
    '    import pydantic\nopen("x", "rb")\n"".replace("a", "b")\n[].remove(1)\n',
    "process.py": '"""P."""\nimport subprocess\nsubprocess.run(["x"], shell=False)\n',
    "cli/e.py": '"""E."""\nfrom seatrial.store import c\nfrom seatrial import process\nprint(1)\n',
}


def test_a_healthy_package_is_left_alone(tmp_path: Path) -> None:
    for path, text in HEALTHY.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert violations(tmp_path) == []
