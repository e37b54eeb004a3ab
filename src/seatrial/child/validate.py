"""The user's validator and normalizer, one answer at a time. Run as a file; a JSON line a question.

First question: ``{"validator": [file, function] or null, "normalize": [file, function] or null,
"memory_bytes": number}``; answer ``{"ready": true}`` or ``{"error": text}``. Then ``{"case":
object, "raw": text}``; answer ``{"text": normalized, "result": object or null}`` or ``{"error":
text, "fresh": whether the next case needs another process}``.

Whatever the functions print goes to standard error, what they read is empty, and they cannot write
a file: the size of a file that this process writes is limited to nothing.
"""

from __future__ import annotations

import importlib.util
import math
import os
import resource
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

_IMPORT_BYTES = 1 << 20
_MAX_FIELDS = 1000
_MAX_VALUE = 1 << 20
_LARGEST_WHOLE = 2**1000  # beyond it there is no float that a mean could be made of


def beside(name: str) -> Any:
    """A module of this folder: the folder itself is no package where this file runs."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_seatrial_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from seatrial.child import answering
else:
    answering = beside("answering")


def limit(memory_bytes: int) -> None:
    """Files stay small, no core is dumped, and memory cannot run away between two looks at it."""
    # Libraries try, while they are imported, whether a temporary file can be written.
    resource.setrlimit(resource.RLIMIT_FSIZE, (_IMPORT_BYTES, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Address space, not resident memory, which is sampled from outside: room for mapped libraries.
    room = memory_bytes + (16 << 30)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    room = room if hard == resource.RLIM_INFINITY else min(room, hard)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))


def peak_bytes() -> int:
    """Most resident memory that this process had; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            lines = [line.split() for line in file if line.startswith("VmHWM:")]
        return int(lines[0][1]) * 1024
    except (OSError, ValueError, IndexError):
        return 0


def load(place: Optional[List[str]]) -> Optional[Callable[..., Any]]:
    """A function of a file; its folder is where its imports are looked for first."""
    if place is None:
        return None
    path, name = place
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = sys.modules.get("_seatrial_" + path)
    if module is None:
        spec = importlib.util.spec_from_file_location("_seatrial_" + path, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError(f"{os.path.basename(path)} has no function {name}")
    return function  # type: ignore[no-any-return]  # checked to be callable


def told(error: BaseException) -> str:
    """An error as one line: kind, text, and the line of the user's file."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            line = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    where = f" ({line})" if line else ""
    return str(answering.told(error)) + where


def plain_result(value: Any) -> Dict[str, Any]:
    """The fields of a result, each a bool, int, float or text.

    Raises:
        TypeError: it is no dict of such values.
        ValueError: it is too large to be kept.
    """
    if not isinstance(value, dict):
        raise TypeError(f"validate returned {type(value).__name__}, not a dict")
    if len(value) > _MAX_FIELDS:
        raise ValueError(f"validate returned {len(value)} fields; at most {_MAX_FIELDS}")
    plain: Dict[str, Any] = {}
    for name, given in value.items():
        # A scalar of numpy or torch is what comparing arrays gives.
        scalar = hasattr(given, "item") and getattr(given, "ndim", None) == 0
        item = given.item() if scalar else given
        if not isinstance(name, str) or not isinstance(item, (bool, int, float, str)):
            raise TypeError(f"field {name!r} is {type(item).__name__}, not bool, int, float or str")
        if isinstance(item, str) and len(item) > _MAX_VALUE:
            raise ValueError(f"field {name!r} has {len(item)} characters; at most {_MAX_VALUE}")
        if isinstance(item, int) and abs(item) > _LARGEST_WHOLE:
            raise ValueError(f"field {name!r} is a whole number beyond every float")
        if isinstance(item, float) and not math.isfinite(item):
            plain[name] = "nan" if item != item else "inf" if item > 0 else "-inf"
        elif isinstance(item, (bool, str)):
            plain[name] = item
        else:  # kinds of their own (an IntEnum, a numpy float) are told as plain numbers
            plain[name] = float(item) if isinstance(item, float) else int(item)
    return plain


class Judge:
    """The user's functions."""

    def __init__(self, begin: Dict[str, Any]) -> None:
        self._memory = int(begin["memory_bytes"])
        limit(self._memory)
        self._validator, self._normalize = load(begin["validator"]), load(begin["normalize"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    def judge(self, case: Any, raw: str) -> Dict[str, Any]:
        """The normalized text and what it is worth."""
        try:
            text = raw if self._normalize is None else self._normalize(raw)
            if not isinstance(text, str):
                raise TypeError(f"normalize returned {type(text).__name__}, not a text")
            result = None if self._validator is None else plain_result(self._validator(case, text))
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            return {"error": told(error), "fresh": isinstance(error, MemoryError)}
        except BaseException as error:  # noqa: BLE001 - sys.exit, KeyboardInterrupt
            return {"error": told(error), "fresh": True}
        used = peak_bytes()
        if used > self._memory:
            text = f"it used {used >> 20} MiB of the {self._memory >> 20} MiB it may"
            return {"error": text, "fresh": True}
        return {"text": text, "result": result}


def main() -> int:
    """Answer questions until there are no more."""
    judge: Optional[Judge] = None

    def answer(question: Dict[str, Any]) -> Tuple[Dict[str, Any], bool]:
        nonlocal judge
        if judge is not None:
            value = judge.judge(question["case"], question["raw"])
            return value, not value.get("fresh")
        try:
            judge = Judge(question)
        except BaseException as error:  # noqa: BLE001 - sys.exit at import is an answer, too
            return {"error": told(error)}, False
        return {"ready": True}, True

    answering.answer_all(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
