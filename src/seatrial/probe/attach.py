"""The hand-shake: ``run/attach/<pid>.json``, rewritten whenever more is known.

Written by hand rather than with ``json``, which would cost every interpreter of the run several
milliseconds.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # typing itself would cost every interpreter of the run milliseconds
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence

try:
    from _json import encode_basestring_ascii as _quoted
except ImportError:  # another implementation of Python

    def _quoted(text: str, /) -> str:
        import json

        return json.dumps(text)


_RANK_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")


def _encoded(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(k)}:{_encoded(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_encoded(item) for item in value) + "]"
    return _quoted(str(value))


class Attachment:
    """What one interpreter says about itself.

    The command line holds only the program's name until torch was imported: only then are the
    secrets in it removed, which needs modules that not every interpreter should have to load.
    """

    def __init__(self, record: str) -> None:
        self._folder = os.path.join(record, "run", "attach")
        argv = getattr(sys, "argv", None) or [""]
        now = time.time()
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        self._data: Dict[str, Any] = {
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "t": f"{whole}.{int(now % 1 * 1e6):06d}Z",
            "mono": time.monotonic(),
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "executable": sys.executable or "",
            "argv": [os.path.basename(argv[0])] if argv[0][:1] != "-" else [argv[0]],
            "rank_env": {name: os.environ[name] for name in _RANK_NAMES if name in os.environ},
            "torch": None,
            "role": "interpreter",
            "error": None,
        }  # fmt: skip

    def update(
        self,
        torch: Optional[str] = None,
        role: Optional[str] = None,
        argv: Optional[Sequence[str]] = None,
        error: Optional[str] = None,
    ) -> None:
        """Take in what is newly known and write it down."""
        for key, value in (("torch", torch), ("role", role), ("error", error)):
            if value is not None:
                self._data[key] = value
        if argv is not None:
            self._data["argv"] = list(argv)
        self.write()

    def forked(self) -> None:
        """This is a forked child: what is said from now on is about itself."""
        self._data.update(
            pid=os.getpid(),
            ppid=os.getppid(),
            mono=time.monotonic(),
            role="interpreter",
            error=None,
        )

    def write(self) -> None:
        """Replace the file atomically. A record that is gone is no fault of the run."""
        path = os.path.join(self._folder, f"{self._data['pid']}.json")
        fresh = f"{path}.new"
        try:
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, (_encoded(self._data) + "\n").encode("ascii", "replace"))
            finally:
                os.close(fd)
            os.replace(fresh, path)
        except OSError:
            return
