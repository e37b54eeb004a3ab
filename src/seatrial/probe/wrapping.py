"""Putting a function of ours around one of a library's."""

from __future__ import annotations

import functools
from typing import Any, Callable, Sequence

_MARK = "_seatrial_wraps"


def wrap(owners: Sequence[Any], name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """Replace ``name`` in each owner by ``make(original)``, once.

    Name, module and signature stay those of the original, so pickling by reference and inspection
    go on working. Owners after the first are changed only where they hold the same function.
    """
    original = getattr(owners[0], name, None)
    if original is None or hasattr(original, _MARK):
        return
    wrapped = functools.wraps(original)(make(original))
    setattr(wrapped, _MARK, original)
    for owner in owners:
        if getattr(owner, name, None) is original:
            setattr(owner, name, wrapped)
