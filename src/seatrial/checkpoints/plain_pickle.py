"""The plain values inside a pickle, read without running anything.

A pickle is a small program. This reader knows the instructions that build texts, numbers, lists and
dicts; whatever would import, call or build an object becomes an empty ``Thing`` that remembers only
its name and, if it is given one, its state. Nothing is imported and nothing is called.
"""

from __future__ import annotations

import io
import pickletools
import zipfile
from dataclasses import dataclass, field
from typing import Any

from seatrial.checkpoints.open_file import UnreadableError, read_limited

MAX_BYTES = 4 * 2**20
_MAX_OPERATIONS = 200_000
_MARK = object()


@dataclass
class Thing:
    """Something that would have been made by code: its name, and what it was built from."""

    name: str
    arguments: Any = None
    state: dict[Any, Any] = field(default_factory=dict)


def read_training_args(path: str) -> dict[str, Any]:
    """The fields of a ``training_args.bin``, as far as they are plain; enums by their value.

    Raises:
        UnreadableError: it is no such file, or larger than 4 MiB.
    """
    data = read_limited(path, MAX_BYTES)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [info for info in archive.infolist() if info.filename.endswith("data.pkl")]
            if len(names) != 1 or names[0].file_size > MAX_BYTES:
                raise UnreadableError("it is no file of torch.save")
            program = archive.read(names[0])
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"it is no file of torch.save: {str(error)[:80]}") from None
    value = plain_value(program)
    if not isinstance(value, Thing) or not value.state:
        raise UnreadableError("it holds no object with fields")
    return {str(key): _plain(item) for key, item in value.state.items()}


def _plain(value: Any) -> Any:
    """An enum member, which is a call of its class with its value, by that value."""
    if isinstance(value, Thing):
        given = value.arguments
        single = given[0] if isinstance(given, tuple) and len(given) == 1 else None
        return single if isinstance(single, (str, int, float)) else None
    return value


def plain_value(program: bytes) -> Any:
    """What a pickle's program leaves, made of plain values and ``Thing``.

    Raises:
        UnreadableError: an instruction is unknown, or the program is broken or very long.
    """
    machine = _Machine()
    try:
        for count, (operation, argument, _at) in enumerate(pickletools.genops(program)):
            if count > _MAX_OPERATIONS:
                raise UnreadableError("its pickle is very long")
            if operation.name == "STOP":
                return machine.stack[-1]
            machine.run(operation.name, argument)
    except UnreadableError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"its pickle is broken: {type(error).__name__}") from None
    raise UnreadableError("its pickle has no end")


_CONSTANTS = {
    "NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (),
}  # fmt: skip
_LITERALS = frozenset(
    {
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
        "STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
        "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
    }
)  # fmt: skip


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[Any, Any] = {}

    def run(self, name: str, argument: Any) -> None:
        """One instruction."""
        if name in _LITERALS:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in ("PROTO", "FRAME"):
            return
        else:
            act = getattr(self, f"_do_{name.lower()}", None)
            if act is None:
                raise UnreadableError(f"its pickle uses the instruction {name}")
            act(argument)

    def _to_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise UnreadableError("its pickle is broken: no mark")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def _do_mark(self, _argument: Any) -> None:
        self.stack.append(_MARK)

    def _do_pop(self, _argument: Any) -> None:
        self.stack.pop()

    def _do_pop_mark(self, _argument: Any) -> None:
        self._to_mark()

    def _do_dup(self, _argument: Any) -> None:
        self.stack.append(self.stack[-1])

    def _do_empty_dict(self, _argument: Any) -> None:
        self.stack.append({})

    def _do_empty_list(self, _argument: Any) -> None:
        self.stack.append([])

    def _do_empty_set(self, _argument: Any) -> None:
        self.stack.append([])

    def _do_list(self, _argument: Any) -> None:
        self.stack.append(self._to_mark())

    def _do_tuple(self, _argument: Any) -> None:
        self.stack.append(tuple(self._to_mark()))

    def _do_tuple1(self, _argument: Any) -> None:
        self.stack[-1:] = [tuple(self.stack[-1:])]

    def _do_tuple2(self, _argument: Any) -> None:
        self.stack[-2:] = [tuple(self.stack[-2:])]

    def _do_tuple3(self, _argument: Any) -> None:
        self.stack[-3:] = [tuple(self.stack[-3:])]

    def _do_dict(self, _argument: Any) -> None:
        items = self._to_mark()
        self.stack.append({})
        self._put(items)

    def _do_append(self, _argument: Any) -> None:
        item = self.stack.pop()
        self._extend([item])

    def _do_appends(self, _argument: Any) -> None:
        self._extend(self._to_mark())

    def _do_additems(self, _argument: Any) -> None:
        self._extend(self._to_mark())

    def _extend(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)

    def _do_setitem(self, _argument: Any) -> None:
        value = self.stack.pop()
        key = self.stack.pop()
        self._put([key, value])

    def _do_setitems(self, _argument: Any) -> None:
        self._put(self._to_mark())

    def _put(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Thing):  # an OrderedDict and its kin
            target = target.state
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(key, (str, int, float, bytes, bool)) or key is None:
                target[key] = value

    def _do_global(self, argument: Any) -> None:
        self.stack.append(Thing(str(argument)))

    def _do_stack_global(self, _argument: Any) -> None:
        name = self.stack.pop()
        module = self.stack.pop()
        self.stack.append(Thing(f"{module} {name}"))

    def _do_reduce(self, _argument: Any) -> None:
        arguments = self.stack.pop()
        made = self.stack.pop()
        name = made.name if isinstance(made, Thing) else ""
        self.stack.append(Thing(name, arguments))

    def _do_newobj(self, argument: Any) -> None:
        self._do_reduce(argument)

    def _do_newobj_ex(self, argument: Any) -> None:
        self.stack.pop()
        self._do_reduce(argument)

    def _do_build(self, _argument: Any) -> None:
        state = self.stack.pop()
        if isinstance(state, tuple) and state:
            state = state[0]
        target = self.stack[-1]
        if isinstance(target, Thing) and isinstance(state, dict):
            target.state.update(state)

    def _do_binpersid(self, _argument: Any) -> None:
        self.stack[-1] = Thing("persistent")

    def _do_memoize(self, _argument: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _do_binput(self, argument: Any) -> None:
        self.memo[argument] = self.stack[-1]

    _do_long_binput = _do_binput
    _do_put = _do_binput

    def _do_binget(self, argument: Any) -> None:
        self.stack.append(self.memo[argument])

    _do_long_binget = _do_binget
    _do_get = _do_binget
