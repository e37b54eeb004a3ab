"""Saves: what was in memory when a file was written, by digest."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Optional

from seatrial.probe import tensors
from seatrial.probe.session import Session
from seatrial.probe.tally import Tally
from seatrial.probe.wrapping import wrap


class SaveWatch:
    """Wraps the functions that write tensors. What they write, return and raise stays theirs."""

    def __init__(self, torch: Any, session: Session, tally: Tally) -> None:
        self._torch = torch
        self._session = session
        self._tally = tally
        self._depth = 0
        self._note_guarded = session.faults.guard("save", self._note)
        self._may_speak = session.faults.guard("save.begin", session.may_speak, False)

    def install_torch(self) -> None:
        """Watch ``torch.save``."""
        serialization = getattr(self._torch, "serialization", None)
        owners = [self._torch] + ([serialization] if serialization is not None else [])
        wrap(owners, "save", self._maker("torch.save", _first_two("obj", "f")))

    def install_safetensors(self, module: Any) -> None:
        """Watch ``safetensors.torch``; ``save_model`` goes through ``save_file``."""
        wrap([module], "save_file", self._maker("safetensors", _first_two("tensors", "filename")))

    def install_checkpoint(self, module: Any) -> None:
        """Watch ``torch.distributed.checkpoint.save``: the path only, shards are of many ranks."""

        def parts(args: Any, kwargs: Any) -> Any:
            return None, kwargs.get("checkpoint_id", args[1] if len(args) > 1 else None)

        saver = getattr(module, "state_dict_saver", None)
        wrap([module] + ([saver] if saver else []), "save", self._maker("dcp", parts))

    def _maker(self, kind: str, parts: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            def save(*args: Any, **kwargs: Any) -> Any:
                if self._depth or not self._may_speak():
                    return original(*args, **kwargs)
                began = time.monotonic()
                self._depth += 1
                error: Optional[str] = None
                try:
                    return original(*args, **kwargs)
                except BaseException as failure:
                    error = f"{type(failure).__name__}: {failure}"
                    raise
                finally:
                    self._depth -= 1
                    seconds = time.monotonic() - began
                    self._note_guarded(kind, parts, args, kwargs, seconds, error)

            return save

        return make

    def _note(
        self,
        kind: str,
        parts: Callable[[Any, Any], Any],
        args: Any,
        kwargs: Any,
        seconds: float,
        error: Optional[str],
    ) -> None:
        content, target = parts(args, kwargs)
        named = dict(tensors.named_tensors(self._torch, content))
        path = _path(target)
        data: Dict[str, Any] = {
            "step": self._session.rounds.step,
            "segment": self._session.rounds.segment,
            "path": path,
            "kind": kind,
            "tensors": len(named),
            "bytes": sum(t.numel() * t.element_size() for t in named.values()),
            "digests": tensors.digests(named.items()),
            "seconds": round(seconds, 6),
            "error": error,
        }
        self._session.write("save", data)
        self._tally.finished()


def _first_two(first: str, second: str) -> Callable[[Any, Any], Any]:
    def parts(args: Any, kwargs: Any) -> Any:
        given = list(args[:2])
        content = given[0] if given else kwargs.get(first)
        return content, given[1] if len(given) > 1 else kwargs.get(second)

    return parts


def _path(target: Any) -> Optional[str]:
    """Absolute path of a target that is a path or a named file, None for a buffer."""
    name = (
        target if isinstance(target, (str, bytes, os.PathLike)) else getattr(target, "name", None)
    )
    if not isinstance(name, (str, bytes, os.PathLike)):
        return None
    return os.path.abspath(os.fsdecode(name))
