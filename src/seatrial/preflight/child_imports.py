"""Imports of the script and its local modules, looked up by the runner's own interpreter."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.core.child import Ask
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.preflight.ask_child import Asked, ask_child
from seatrial.preflight.import_uses import ImportUse, absolute, import_uses

CODE = "environment.import_missing"
FAMILY = "environment"
MAX_MODULES = 300
MAX_ROUNDS = 8
MAX_SOURCE_BYTES = 4 * 2**20
TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Module:
    """One file whose imports are looked at.

    Attributes:
        file: its path.
        package: dotted name of the package that it is in; empty for a script.
        condition, caught: of the import that led to it.
    """

    file: str
    tree: ast.Module
    package: str = ""
    condition: str = ""
    caught: bool = False


@dataclass(frozen=True)
class _Wanted:
    file: str
    use: ImportUse


def missing_imports(
    start: Module, ask: Ask, how: Asked, path0: str, project: str
) -> tuple[list[Finding], list[NotJudged]]:
    """Findings for imports that the interpreter would not find.

    Args:
        start: the parsed script.
        ask: runs a capped child.
        how: interpreter, working directory and environment of the runner.
        path0: what Python puts first on its path for this script.
        project: modules below this folder are local: their imports are looked at, too.
    """
    walk = _Walk(ask, how, path0, os.path.realpath(project))
    reason = walk.run(start)
    findings = walk.findings()
    if reason:
        return findings, [NotJudged("environment.imports", FAMILY, reason)]
    return findings, []


class _Walk:
    def __init__(self, ask: Ask, how: Asked, path0: str, project: str) -> None:
        self._ask = ask
        self._how = how
        self._path0 = path0
        self._project = project
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._submodules: dict[str, list[str]] = {}
        self._python = ""
        self._wanted: list[_Wanted] = []
        self._escaped: list[_Wanted] = []

    def run(self, start: Module) -> str:
        """Follow imports through local modules; the reason why it could not, or nothing."""
        seen = {os.path.realpath(start.file)}
        level = [start]
        for _ in range(MAX_ROUNDS):
            uses = [wanted for module in level for wanted in self._uses(module)]
            self._wanted += uses
            reason = self._look_up(uses)
            if reason:
                return reason
            level = self._local(uses, seen)
            if not level:
                return ""
            if len(seen) > MAX_MODULES:
                return f"more than {MAX_MODULES} local modules are imported; the rest was not read"
        return f"local modules import each other more than {MAX_ROUNDS} levels deep"

    def _uses(self, module: Module) -> Iterable[_Wanted]:
        for use in import_uses(module.tree):
            held = ImportUse(
                use.module,
                use.level,
                use.names,
                use.line,
                use.condition or module.condition,
                use.caught or module.caught,
            )
            meant = absolute(held, module.package)
            if meant is None:
                self._escaped.append(_Wanted(module.file, held))
            elif meant.module and meant.module.split(".")[0] not in ("__main__", "__future__"):
                yield _Wanted(module.file, meant)

    def _look_up(self, uses: list[_Wanted]) -> str:
        modules = {wanted.use.module for wanted in uses} - set(self._answers)
        names: dict[str, list[str]] = {}
        for wanted in uses:
            if wanted.use.names and wanted.use.module not in self._submodules:
                names.setdefault(wanted.use.module, []).extend(wanted.use.names)
        if not modules and not names:
            return ""
        request = {"path0": self._path0, "modules": sorted(modules), "names": names}
        told = ask_child(self._ask, "find_imports.py", self._how, request)
        if told.value is None:
            return f"{self._how.interpreter} could not look the imports up: {told.reason}"
        found, submodules = told.value.get("found"), told.value.get("submodules")
        if not isinstance(found, dict) or not isinstance(submodules, dict):
            return "the answer about the imports cannot be read"
        self._answers.update(found)
        self._submodules.update(submodules)
        self._python = str(told.value.get("python", ""))
        return ""

    def _local(self, uses: list[_Wanted], seen: set[str]) -> list[Module]:
        """Modules of the project that were found and not read yet."""
        more = {
            f"{wanted.use.module}.{name}": wanted.use
            for wanted in uses
            for name in self._submodules.get(wanted.use.module, ())
            if name in wanted.use.names
        }
        names = {wanted.use.module: wanted.use for wanted in uses}
        for name in list(names):
            parts = name.split(".")
            for size in range(1, len(parts)):  # `import a.b` runs a/__init__.py as well
                names.setdefault(".".join(parts[:size]), names[name])
        unknown = [name for name in (*names, *more) if name not in self._answers]
        if unknown:
            self._look_up([_Wanted("", ImportUse(name, 0, (), 0)) for name in unknown])
        found = []
        for name, use in {**names, **more}.items():
            origin = self._answers.get(name, {}).get("origin")
            if not isinstance(origin, str) or not origin.endswith(".py"):
                continue
            real = os.path.realpath(origin)
            inside = real.startswith(self._project + os.sep) and "site-packages" not in real
            if not inside or real in seen:
                continue
            seen.add(real)
            tree = _parsed(real)
            if tree is not None:
                is_package = os.path.basename(real) == "__init__.py"
                package = name if is_package else name.rpartition(".")[0]
                found.append(Module(origin, tree, package, use.condition, use.caught))
        return found

    def findings(self) -> list[Finding]:
        """One finding for each module that is missing, at the first place that asks for it."""
        found: dict[str, Finding] = {}
        for wanted in self._escaped:
            finding = self._no_parent(wanted)
            found.setdefault(f"{wanted.file}:{wanted.use.line}", finding)
        for wanted in self._wanted:
            entry = self._answers.get(wanted.use.module, {})
            if entry.get("state") == "missing":
                finding = self._missing(wanted, entry)
            elif entry.get("namespace") is True and wanted.use.names:
                held = self._submodules.get(wanted.use.module, [])
                lost = [name for name in wanted.use.names if name not in held and name != "*"]
                if not lost:
                    continue
                finding = self._only_a_folder(wanted, lost[0])
            else:
                continue
            key = str(entry.get("missing") or wanted.use.module)
            if key not in found or _weight(finding) < _weight(found[key]):
                found[key] = finding
        return list(found.values())

    def _missing(self, wanted: _Wanted, entry: Mapping[str, Any]) -> Finding:
        name = str(entry.get("missing"))
        top = name.partition(".")[0]
        whole = name == top
        python = f"{self._how.interpreter} (Python {self._python})"
        if whole:
            text = f"{python} finds no module {name!r}"
            remedy = (
                f"{self._how.interpreter} -m pip install the package that provides {name!r}, or "
                "name the interpreter that has it in the command"
            )
        else:
            text = f"{python} finds {top!r}, and no {name!r} in it"
            remedy = f"look up where {name!r} went in the installed version of {top!r}"
        return self._finding(wanted, text, remedy, sure=whole or entry.get("dynamic") is False)

    def _only_a_folder(self, wanted: _Wanted, name: str) -> Finding:
        module = wanted.use.module
        text = (
            f"{self._how.interpreter} finds only a folder without __init__.py as {module!r}, "
            f"and no {name!r} in it"
        )
        remedy = f"install the package {module!r}, or rename the folder that stands in its place"
        return self._finding(wanted, text, remedy, sure=True)

    def _no_parent(self, wanted: _Wanted) -> Finding:
        shown = "." * wanted.use.level + wanted.use.module
        text = f"the relative import of {shown!r} has no package to start from in a script"
        return self._finding(
            wanted, text, "run it as a module (python -m package.script), or import by name", True
        )

    def _finding(self, wanted: _Wanted, text: str, remedy: str, sure: bool) -> Finding:
        use = wanted.use
        if use.caught:
            severity, tail = "note", "; the script is made to do without it"
        elif use.condition:
            severity, tail = "warning", f"; it is imported {use.condition}"
        else:
            severity, tail = ("error", "") if sure else ("warning", "; it may make it at run time")
        return Finding(
            CODE,
            FAMILY,
            severity,
            f"{text}{tail}",
            Place(file=wanted.file, line=use.line or None),
            Evidence(observed="not found", expected=use.module),
            remedy,
            "proven" if sure and not tail else "likely",
        )


def _weight(finding: Finding) -> int:
    return ("error", "warning", "note").index(finding.severity)


def _parsed(path: str) -> ast.Module | None:
    try:
        if not os.path.isfile(path):
            return None
        with open(path, "rb") as handle:
            data = handle.read(MAX_SOURCE_BYTES + 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a string is the module's business
            return ast.parse(data) if len(data) <= MAX_SOURCE_BYTES else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
