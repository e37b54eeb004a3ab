"""``HfArgumentParser`` and ``TrlParser`` over dataclasses, as far as the script declares them."""

from __future__ import annotations

import ast
from typing import Any

from seatrial.preflight.evaluate import Evaluator
from seatrial.preflight.parser_model import DATACLASSES, Option, ParserModel
from seatrial.preflight.values import UNKNOWN

_PLAIN = {"int": "int", "float": "float", "str": "str", "bool": "bool_text"}
_LISTS = ("list", "List", "Sequence", "tuple", "Tuple")


def dataclass_model(made: ast.Call, evaluator: Evaluator) -> ParserModel:
    """The parser that these dataclasses make; those from elsewhere are named as foreign."""
    node = made.args[0] if made.args else None
    for keyword in made.keywords:
        if keyword.arg == "dataclass_types":
            node = keyword.value
    followed = evaluator.origin(node) if isinstance(node, ast.Name) else node
    if evaluator.local_class(node) is not None if node is not None else False:
        followed = node
    parts = list(followed.elts) if isinstance(followed, (ast.Tuple, ast.List)) else [followed]
    options: list[Option] = []
    foreign: list[str] = []
    classes: list[str] = []
    incomplete = ""
    for part in parts:
        local = evaluator.local_class(part) if part is not None else None
        dotted = evaluator.dotted(part) if part is not None else ""
        if local is not None:
            above = _take_fields(local, evaluator, options, foreign)
            classes.append(above or dotted)
        elif dotted:
            foreign.append(dotted)
            classes.append(dotted)
        else:
            incomplete = f"line {made.lineno} makes a parser of classes that cannot be followed"
            classes.append("")
    return ParserModel(
        kind=DATACLASSES,
        options=tuple(options),
        incomplete=incomplete,
        foreign=tuple(foreign),
        allow_abbrev=not foreign,
        classes=tuple(classes),
    )


def _take_fields(
    local: ast.ClassDef, evaluator: Evaluator, options: list[Option], foreign: list[str]
) -> str:
    """Fields of a dataclass of this script, its bases first; the foreign class it is built on."""
    above = ""
    for base in local.bases:
        inner = evaluator.local_class(base)
        if inner is not None and inner is not local:
            above = _take_fields(inner, evaluator, options, foreign) or above
        elif inner is None:
            above = evaluator.dotted(base)
            if above not in ("", "builtins.object", "abc.ABC"):
                foreign.append(above)
            else:
                above = ""
    for statement in local.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            options[:] = [o for o in options if o.dest != statement.target.id]
            options.extend(_field_options(statement.target.id, statement, evaluator))
    return above


def _field_options(name: str, statement: ast.AnnAssign, evaluator: Evaluator) -> list[Option]:
    default, required, metadata = _default(statement.value, evaluator)
    type_name, many, choices = _type(statement.annotation, evaluator)
    if "ClassVar" in ast.unparse(statement.annotation)[:40]:
        return []
    if isinstance(metadata, dict) and metadata.get("choices") is not None:
        choices = metadata["choices"]
    flags = ["--" + name]
    if "_" in name:
        flags.append("--" + name.replace("_", "-"))
    aliases = metadata.get("aliases") if isinstance(metadata, dict) else None
    if isinstance(aliases, (list, tuple)):
        flags += [alias for alias in aliases if isinstance(alias, str)]
    elif isinstance(aliases, str):
        flags.append(aliases)
    is_bool = type_name == "bool_text"
    option = Option(
        flags=tuple(flags),
        dest=name,
        type_name=type_name,
        nargs="?" if is_bool else ("+" if many else None),
        default=False if is_bool and required else default,
        const=True if is_bool else None,
        choices=choices,
        required=required and not is_bool,
        line=statement.lineno,
    )
    if not (is_bool and default is True):
        return [option]
    off = tuple({f"--no_{name}": 0, "--no-" + name.replace("_", "-"): 0})
    return [option, Option(off, name, "flag", "store_false", default=True, line=statement.lineno)]


def _default(node: ast.expr | None, evaluator: Evaluator) -> tuple[Any, bool, Any]:
    """Default, whether it must be given, and the metadata of a field."""
    if node is None:
        return None, True, None
    if not (
        isinstance(node, ast.Call)
        and evaluator.dotted(node.func).endswith(("dataclasses.field", ".HfArg"))
    ):
        return evaluator.value(node), False, None
    words = {word.arg: word.value for word in node.keywords}
    metadata = evaluator.value(words["metadata"]) if "metadata" in words else None
    if "default" in words:
        return evaluator.value(words["default"]), False, metadata
    if "default_factory" in words:
        factory = words["default_factory"]
        made = evaluator.value(factory.body) if isinstance(factory, ast.Lambda) else UNKNOWN
        if evaluator.dotted(factory) == "builtins.list":
            made = []
        return made, False, metadata
    return None, True, metadata


def _type(node: ast.expr, evaluator: Evaluator) -> tuple[str, bool, Any]:
    """Name of the type, whether several values are taken, and the choices of a ``Literal``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "other", False, None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [side for side in (node.left, node.right) if not _is_none(side)]
        return _type(sides[0], evaluator) if len(sides) == 1 else ("other", False, None)
    if isinstance(node, ast.Name):
        return _PLAIN.get(node.id, "other"), False, None
    if isinstance(node, ast.Subscript):
        name = node.value.attr if isinstance(node.value, ast.Attribute) else ""
        name = node.value.id if isinstance(node.value, ast.Name) else name
        if name == "Optional":
            return _type(node.slice, evaluator)
        if name == "Literal":
            choices = evaluator.value(node.slice)
            listed = list(choices) if isinstance(choices, tuple) else [choices]
            return ("str", False, listed) if UNKNOWN not in listed else ("other", False, None)
        if name in _LISTS:
            inner = _type(node.slice, evaluator)
            return inner[0], True, inner[2]
    return "other", False, None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
