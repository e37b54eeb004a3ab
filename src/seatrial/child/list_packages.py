"""Says which packages this interpreter has installed, without importing any of them.

Run as a file. stdout: one line of JSON, ``{"python": version, "executable": path, "packages":
{name: version}, "truncated": bool}``.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from typing import Dict

MAX_PACKAGES = 5000


def main() -> None:
    """Answer."""
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]
    packages: Dict[str, str] = {}
    truncated = False
    for distribution in importlib.metadata.distributions():
        if len(packages) >= MAX_PACKAGES:
            truncated = True
            break
        try:
            name, version = distribution.metadata["Name"], distribution.version
        except Exception:  # noqa: BLE001, S112 - a damaged package of somebody's has no name
            continue
        if name and version and name not in packages:  # the first on the path is the one imported
            packages[str(name)] = str(version)
    answer = {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "packages": packages,
        "truncated": truncated,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
