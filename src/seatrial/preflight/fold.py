"""Fold operators and a few harmless calls over known values, with limits; nothing is executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath, PurePosixPath
from typing import Any

from seatrial.preflight.values import UNKNOWN

_MAX_TEXT = 10_000
_MAX_NUMBER = 10**30
_BINARY: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_PATHS = frozenset({"pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"})
_TYPES: Mapping[str, Callable[[Any], Any]] = {
    "builtins.int": int,
    "builtins.float": float,
    "builtins.str": str,
    "builtins.bool": bool,
    "builtins.len": len,
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.abs": abs,
    "os.fspath": str,
    "os.path.abspath": str,
    "os.path.expanduser": str,
}
_METHODS = frozenset({"lower", "upper", "strip", "split", "as_posix", "format", "replace"})


def is_number(value: Any) -> bool:
    """An int or float that is no bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _small(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        return UNKNOWN
    if is_number(value) and abs(value) > _MAX_NUMBER:
        return UNKNOWN
    return value


def binary(op: ast.operator, left: Any, right: Any) -> Any:
    """``left op right`` for numbers, texts and paths; else unknown."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.Div) and isinstance(left, PurePath):
        return left / str(right) if isinstance(right, (str, PurePath)) else UNKNOWN
    texts = isinstance(left, str) and isinstance(right, str) and isinstance(op, ast.Add)
    lists = (
        isinstance(left, (list, tuple))
        and type(left) is type(right)
        and isinstance(op, ast.Add)
        and len(left) + len(right) < _MAX_TEXT
    )
    numbers = is_number(left) and is_number(right)
    if numbers and isinstance(op, ast.Pow) and (abs(left) > 10**6 or abs(right) > 32):
        return UNKNOWN
    if isinstance(op, ast.Mult) and isinstance(left, str) and isinstance(right, int):
        return left * right if 0 <= right * len(left) <= _MAX_TEXT else UNKNOWN
    if not (texts or lists or numbers) or type(op) not in _BINARY:
        return UNKNOWN
    try:
        return _small(_BINARY[type(op)](left, right))
    except (ArithmeticError, ValueError, TypeError):
        return UNKNOWN


def unary(op: ast.unaryop, value: Any) -> Any:
    """``-x``, ``+x``, ``not x``."""
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.Not):
        return not value
    if is_number(value) and isinstance(op, (ast.USub, ast.UAdd)):
        return -value if isinstance(op, ast.USub) else value
    return UNKNOWN


def compare(ops: Sequence[ast.cmpop], values: Sequence[Any]) -> Any:
    """A chain of comparisons; unknown as soon as one is."""
    for op, left, right in zip(ops, values, values[1:], strict=False):
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        try:
            held = _COMPARE[type(op)](left, right)
        except TypeError:
            return UNKNOWN
        if not held:
            return False
    return True


def known_call(dotted: str, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """The value of a call of something well known on known values; else unknown."""
    if any(value is UNKNOWN for value in (*args, *keywords.values())):
        return UNKNOWN
    if dotted in _PATHS and not keywords:
        return _path(args)
    if dotted == "os.path.join" and args and not keywords:
        joined = _path(args)
        return joined if joined is UNKNOWN else str(joined)
    if dotted == "os.path.dirname" and len(args) == 1:
        return str(PurePosixPath(str(args[0])).parent)
    if dotted in ("builtins.max", "builtins.min") and len(args) > 1 and all(map(is_number, args)):
        return max(args) if dotted.endswith("max") else min(args)
    if dotted == "builtins.dict" and not args:
        return dict(keywords)
    if dotted in _TYPES and len(args) == 1 and not keywords:
        try:
            return _small(_TYPES[dotted](args[0]))
        except (TypeError, ValueError, OverflowError):
            return UNKNOWN
    return UNKNOWN


def _path(args: Sequence[Any]) -> Any:
    if not all(isinstance(arg, (str, PurePath)) for arg in args):
        return UNKNOWN
    return PurePosixPath(*map(str, args))


def known_method(owner: Any, name: str, args: Sequence[Any]) -> Any:
    """A harmless method of a text or path; else unknown."""
    if owner is UNKNOWN or any(arg is UNKNOWN for arg in args):
        return UNKNOWN
    if isinstance(owner, dict) and name == "get" and args:
        try:
            return owner.get(*args[:2])
        except TypeError:
            return UNKNOWN
    if isinstance(owner, PurePath):
        if name in ("resolve", "absolute", "expanduser", "as_posix"):
            return owner if name != "as_posix" else owner.as_posix()
        if name == "joinpath":
            return _path((owner, *args))
        return UNKNOWN
    if isinstance(owner, str) and name in _METHODS and name not in ("as_posix", "format"):
        try:
            return _small(getattr(owner, name)(*args))
        except (TypeError, ValueError):
            return UNKNOWN
    return UNKNOWN


def path_attribute(owner: PurePath, name: str) -> Any:
    """``parent``, ``name``, ``stem``, ``suffix`` of a path."""
    if name in ("parent", "name", "stem", "suffix"):
        return getattr(owner, name)
    return UNKNOWN
