"""The supervisor's door: ``python -I -S <absolute path>/entry.py`` with one message on stdin.

Nothing but built-in modules is imported before the path is cleaned: the user's ``PYTHONPATH`` may
hold a ``json`` or a ``signal`` of its own. The package is loaded from where this file lies, so that
whatever is installed beside it stays invisible.
"""

import sys


def _keep_standard_library_only(here: str) -> None:
    """Take this file's folder and the user's ``PYTHONPATH`` off the module path."""
    import posix

    raw = posix.environ.get(b"PYTHONPATH", b"")
    given = raw.decode(sys.getfilesystemencoding(), "surrogateescape").split(":")
    dropped = {"", here, *given}
    sys.path[:] = [entry for entry in sys.path if entry not in dropped]


def _load_package(package: str) -> None:
    """Make ``seatrial`` importable without putting the folder around it on the path."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(
        "seatrial", package + "/__init__.py", submodule_search_locations=[package]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load the package at {package}")
    module = module_from_spec(spec)
    sys.modules["seatrial"] = module
    spec.loader.exec_module(module)


def main() -> int:
    """Read the message, become the guard, return its exit code."""
    here = __file__.rpartition("/")[0]
    _keep_standard_library_only(here)
    _load_package(here.rpartition("/")[0])
    from seatrial.supervisor.guard import guard_from_stdin

    return guard_from_stdin()


if __name__ == "__main__":
    sys.exit(main())
