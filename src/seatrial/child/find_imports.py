"""Says which modules this interpreter would find, without importing any of them.

Run as a file. stdin: ``{"path0": folder or null, "modules": [dotted name], "names": {module:
[name]}}``. stdout: one line of JSON, ``{"python": version, "found": {name: {"state", "origin",
"namespace", "missing", "dynamic"}}, "submodules": {module: [name that is a module]}}``.
``state`` is ``found``, ``missing`` (``missing`` names the part that is not there) or ``error``.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, List, Optional

# A package that makes submodules while it runs has one of these in its source.
_DYNAMIC = (b"sys.modules", b"__path__", b"meta_path", b"_LazyModule", b"pkgutil", b"lazy_loader")
_SOURCE_BYTES = 1 << 20


def _ask_finders(name: str, path: Optional[List[str]]) -> Any:
    """The spec of a submodule, from every finder, as ``import`` asks them; nothing is imported."""
    for finder in sys.meta_path:
        ask = getattr(finder, "find_spec", None)
        spec = ask(name, path) if ask is not None else None
        if spec is not None:
            return spec
    return None


def _is_dynamic(spec: Any) -> bool:
    """Whether a package may hold modules that no finder knows."""
    origin = spec.origin
    if not origin or not origin.endswith(".py"):
        return True  # built in or compiled: nothing to look at
    try:
        with open(origin, "rb") as handle:
            source = handle.read(_SOURCE_BYTES)
    except OSError:
        return True
    return any(word in source for word in _DYNAMIC)


def _entry(
    state: str,
    origin: Optional[str] = None,
    namespace: bool = False,
    missing: Optional[str] = None,
    dynamic: bool = False,
) -> Dict[str, Any]:
    return {
        "state": state,
        "origin": origin,
        "namespace": namespace,
        "missing": missing,
        "dynamic": dynamic,
    }


def look_up(name: str) -> Dict[str, Any]:
    """Where one dotted name leads."""
    parts = name.split(".")
    if name in sys.builtin_module_names or (name in sys.modules and len(parts) > 1):
        return _entry("found")
    try:
        top = _ask_finders(parts[0], None)
        if top is None:
            in_memory = parts[0] in sys.modules and parts[0] != "__main__"
            return _entry("found" if in_memory else "missing", missing=parts[0])
        spec, at = top, parts[0]
        for part in parts[1:]:
            at += "." + part
            places = spec.submodule_search_locations
            below = _ask_finders(at, list(places)) if places is not None else None
            if below is None:
                if at in sys.modules:
                    return _entry("found")
                return _entry("missing", spec.origin, missing=at, dynamic=_is_dynamic(spec))
            spec = below
    except Exception as error:  # noqa: BLE001 - a finder of somebody's may raise anything
        return _entry("error", missing=type(error).__name__ + ": " + str(error)[:200])
    namespace = spec.submodule_search_locations is not None and spec.origin in (None, "namespace")
    return _entry("found", None if namespace else spec.origin, namespace)


def main() -> None:
    """Answer the one request on stdin."""
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        del sys.path[0]
    if request["path0"] is not None:
        sys.path.insert(0, request["path0"])
    found = {name: look_up(name) for name in request["modules"]}
    submodules = {
        module: [name for name in names if look_up(module + "." + name)["state"] == "found"]
        for module, names in request["names"].items()
    }
    answer = {"python": sys.version.split()[0], "found": found, "submodules": submodules}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
