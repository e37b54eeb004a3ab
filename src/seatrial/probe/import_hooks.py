"""Running an installer right after a module was imported, without touching how it is imported.

A finder in front of ``sys.meta_path`` looks only at the wanted names. It asks the other finders
for the real spec and gives that very spec on; only the loader instance, which belongs to this one
import, gets an ``exec_module`` of its own, and loses it again before the module's code runs. So
reload, ``python -m``, ``find_spec``, resources and pickling see the ordinary loader.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself would cost every interpreter of the run milliseconds
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

    Installer = Callable[[Any], None]


class AfterImport:
    """A meta path finder that calls installers after imports.

    Args:
        on_fault: told the module's name and the exception of an installer that failed.
    """

    def __init__(self, on_fault: Callable[[str, Exception], None]) -> None:
        self._installers: Dict[str, Installer] = {}
        self._finding: set[str] = set()
        self._on_fault = on_fault

    def add(self, name: str, installer: Installer) -> None:
        """Call ``installer(module)`` after ``name`` was imported (at once when it already is)."""
        self._installers[name] = installer
        module = sys.modules.get(name)
        if module is not None:
            self._run(name, module)

    def start(self) -> None:
        """Begin to watch imports."""
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The real spec of a wanted module, prepared; None for every other module."""
        if name not in self._installers or name in self._finding:
            return None
        self._finding.add(name)
        try:
            spec = self._real_spec(name, path, target)
        finally:
            self._finding.discard(name)
        if spec is not None and spec.loader is not None:
            self._prepare(name, spec.loader)
        return spec

    def _real_spec(self, name: str, path: Any, target: Any) -> Optional[Any]:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _prepare(self, name: str, loader: Any) -> None:
        original = getattr(loader, "exec_module", None)
        if original is None or "exec_module" in getattr(loader, "__dict__", {"exec_module": 0}):
            return

        def exec_module(module: Any) -> None:
            loader.__dict__.pop("exec_module", None)
            original(module)
            self._run(name, sys.modules.get(name, module))

        loader.exec_module = exec_module

    def _run(self, name: str, module: Any) -> None:
        try:
            self._installers[name](module)
        except Exception as error:  # noqa: BLE001 - reported; the import itself went well
            self._on_fault(name, error)
