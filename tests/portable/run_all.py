"""Run every portable test with nothing but the standard library.

    python3.9 -I -S tests/portable/run_all.py [NAME...]

``core/``, ``supervisor/`` and ``probe/`` travel with a job to interpreters that have neither our
package nor pytest installed. This file is how their tests run there: it puts ``src`` on the path,
imports each ``test_*.py`` beside it and calls every ``test_*`` function. A NAME keeps only the
modules or functions that contain it. A test that cannot run here raises ``unittest.SkipTest``
with the reason, which pytest understands too. Exit code 0: all passed; 1: a failure, or nothing
was run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import traceback
import unittest
from types import ModuleType
from typing import Callable, Iterator, List, Optional, Tuple

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "src")
SLOW_S = 2.0


def load(path: str) -> ModuleType:
    """Import one test file under its own base name."""
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def tests_of(module: ModuleType) -> Iterator[Tuple[str, Callable[[], None]]]:
    """The module's own test functions, in the order in which they were written."""
    for name, value in list(vars(module).items()):
        if name.startswith("test_") and callable(value):
            yield name, value


def run_one(label: str, test: Callable[[], None]) -> Optional[bool]:
    """Call one test: True passed, False failed, None skipped; prints what is worth a line."""
    begin = time.monotonic()
    try:
        test()
    except BaseException as error:  # SystemExit of a test is a failure of that test, not our end
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, unittest.SkipTest):
            print(f"SKIP {label}: {error}")
            return None
        print(f"FAIL {label}\n{traceback.format_exc()}", flush=True)
        return False
    spent = time.monotonic() - begin
    if spent > SLOW_S:
        print(f"slow {label}: {spent:.1f}s")
    return True


def main(names: List[str]) -> int:
    """Run what the names select and print the closing line."""
    sys.path.insert(0, SOURCE)
    # A test may start a child of this interpreter; the child finds src by the same path.
    counts = {True: 0, False: 0, None: 0}
    for file in sorted(os.listdir(HERE)):
        if not (file.startswith("test_") and file.endswith(".py")):
            continue
        stem = file[: -len(".py")]
        try:
            module = load(os.path.join(HERE, file))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            print(f"FAIL {stem}: cannot be imported\n{traceback.format_exc()}", flush=True)
            counts[False] += 1
            continue
        for name, test in tests_of(module):
            label = f"{stem}.{name}"
            if not names or any(part in label for part in names):
                counts[run_one(label, test)] += 1
    skipped = f", {counts[None]} skipped" if counts[None] else ""
    version = ".".join(str(part) for part in sys.version_info[:3])
    print(f"Python {version}")
    print(f"{counts[True]} passed, {counts[False]} failed{skipped}")
    return 0 if counts[True] and not counts[False] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
