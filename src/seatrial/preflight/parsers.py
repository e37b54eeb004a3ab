"""Rebuild the argument parsers of a script from its calls of ``add_argument``."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from seatrial.preflight.dataclass_parser import dataclass_model
from seatrial.preflight.evaluate import Evaluator, Namespace
from seatrial.preflight.parser_model import ARGPARSE, Option, ParserModel
from seatrial.preflight.values import UNKNOWN

_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_TYPE_NAMES = {
    "builtins.int": "int",
    "builtins.float": "float",
    "builtins.str": "str",
    "builtins.bool": "bool",
    "pathlib.Path": "path",
    "pathlib.PurePath": "path",
    "os.path.abspath": "path",
}
_TAKES_NO_VALUE = frozenset({"store_true", "store_false", "store_const", "append_const", "count"})
_ACTIONS = _TAKES_NO_VALUE | {"store", "append", "extend", "help", "version"}
_MAX_NARGS = 100


def parser_of(namespace: Namespace, evaluator: Evaluator) -> ParserModel | None:
    """The parser whose values a namespace holds; None when it cannot be followed."""
    call = namespace.call
    if not isinstance(call.func, ast.Attribute):
        return None
    made = evaluator.origin(call.func.value)
    if not isinstance(made, ast.Call):
        return None
    kind = evaluator.dotted(made.func).rpartition(".")[2]
    if kind == "ArgumentParser":
        model = _argparse_model(made, evaluator)
    elif kind in ("HfArgumentParser", "TrlParser"):
        model = dataclass_model(made, evaluator)
    else:
        return None
    return replace(
        model,
        method=namespace.method,
        given=_given_words(call, evaluator),
        rest_is_used=_rest_is_used(call, evaluator),
        lenient=_is_lenient(call, namespace.method, evaluator),
        line=call.lineno,
    )


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((word.value for word in call.keywords if word.arg == name), None)


def _given_words(call: ast.Call, evaluator: Evaluator) -> Any:
    """The words that the script hands over itself; None when it takes those of its command."""
    if any(word.arg is None for word in call.keywords):
        return UNKNOWN
    if isinstance(call.func, ast.Attribute) and call.func.attr in (
        "parse_json_file",
        "parse_yaml_file",
        "parse_dict",
    ):
        return UNKNOWN
    node = call.args[0] if call.args else _keyword(call, "args")
    if node is None:
        return None
    if "sys.argv[1:]" in ast.unparse(node)[:40]:
        return None
    words = evaluator.value(node)
    if words is None:
        return None
    if isinstance(words, (list, tuple)) and all(isinstance(word, str) for word in words):
        return tuple(words)
    return UNKNOWN


def _is_lenient(call: ast.Call, method: str, evaluator: Evaluator) -> bool:
    """Whether words that the parser does not know are let through."""
    if "known" in method:
        return True
    if evaluator.value(_keyword(call, "return_remaining_strings")) is True:
        return True
    return evaluator.value(_keyword(call, "fail_with_unknown_args")) is False


def _rest_is_used(call: ast.Call, evaluator: Evaluator) -> bool:
    """Whether the name of the unknown words is read again after they were told apart."""
    statement = evaluator.index.parent_of.get(id(call))
    if isinstance(statement, ast.Subscript):
        return False  # parser.parse_known_args()[0]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return True
    target = statement.targets[0]
    if not isinstance(target, (ast.Tuple, ast.List)) or not target.elts:
        return True
    last = target.elts[-1]
    if not isinstance(last, ast.Name):
        return True
    return any(
        isinstance(node, ast.Name) and node.id == last.id and isinstance(node.ctx, ast.Load)
        for node in evaluator.index.nodes
    )


def _argparse_model(made: ast.Call, evaluator: Evaluator) -> ParserModel:
    keywords = {word.arg: word.value for word in made.keywords}
    incomplete = ""
    for name in ("parents", "fromfile_prefix_chars", "prefix_chars", None):
        if name in keywords:
            incomplete = f"its parser is made with {name or '**'}"
    options: list[Option] = []
    groups: list[ast.Call] = []
    required_groups: list[int] = []
    defaults: dict[str, Any] = {}
    for call in evaluator.index.calls:
        reason = ""
        if isinstance(call.func, ast.Attribute) and call.func.attr in (
            "add_argument",
            "set_defaults",
            "add_subparsers",
        ):
            owner, group = _owner(call.func.value, evaluator)
            if owner is None:
                reason = f"line {call.lineno} adds to a parser that cannot be followed"
            elif owner is made:
                reason = _take(call, group, evaluator, options, groups, required_groups, defaults)
        elif _hands_over(call, made, evaluator):
            reason = f"line {call.lineno} hands the parser to other code"
        incomplete = incomplete or reason

    def is_off(name: str) -> bool:
        return name in keywords and evaluator.value(keywords[name]) is False

    placed = tuple(
        replace(option, default=defaults.get(option.dest, option.default)) for option in options
    )
    return ParserModel(
        kind=ARGPARSE,
        options=placed,
        incomplete=incomplete,
        # With arguments that are not known here a beginning may be a whole flag of theirs.
        allow_abbrev=not incomplete and not is_off("allow_abbrev"),
        add_help=not is_off("add_help"),
        required_groups=tuple(required_groups),
    )


def _owner(node: ast.expr, evaluator: Evaluator) -> tuple[ast.Call | None, ast.Call | None]:
    """The construction of the parser that a method is called on, and its exclusive group."""
    group: ast.Call | None = None
    made = evaluator.origin(node)
    for _ in range(8):
        if not isinstance(made, ast.Call):
            return None, None
        if not (isinstance(made.func, ast.Attribute) and made.func.attr in _GROUPS):
            return made, group
        if made.func.attr == "add_mutually_exclusive_group":
            group = made
        made = evaluator.origin(made.func.value)
    return None, None


def _take(
    call: ast.Call,
    group: ast.Call | None,
    evaluator: Evaluator,
    options: list[Option],
    groups: list[ast.Call],
    required_groups: list[int],
    defaults: dict[str, Any],
) -> str:
    """Add what one call declares; the reason when that cannot be told."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method == "add_subparsers":
        return f"line {call.lineno} adds subcommands"
    if _may_not_run(call, evaluator):
        return f"line {call.lineno} adds an argument only under a condition or in a loop"
    if method == "set_defaults":
        if any(word.arg is None for word in call.keywords):
            return f"line {call.lineno} sets defaults that are computed"
        defaults.update({word.arg or "": evaluator.value(word.value) for word in call.keywords})
        return ""
    number = None
    if group is not None:
        if group not in groups:
            groups.append(group)
            if evaluator.value(_keyword(group, "required")) is True:
                required_groups.append(groups.index(group))
        number = groups.index(group)
    option = option_of(call, evaluator, number)
    if option is None:
        return f"line {call.lineno} adds an argument whose form is computed"
    options.append(option)
    return ""


def _may_not_run(call: ast.Call, evaluator: Evaluator) -> bool:
    index = evaluator.index
    node: ast.AST = call
    for _ in range(8):
        if index.is_conditional(node):
            return True
        function = index.function_of(node)
        if not isinstance(function, ast.FunctionDef):
            return isinstance(function, ast.Lambda)
        calls = evaluator.callers(function.name)
        if calls is None or len(calls) != 1:
            return False  # main(): handed around or called from several places
        node = calls[0]
    return False


def _hands_over(call: ast.Call, made: ast.Call, evaluator: Evaluator) -> bool:
    """Whether the parser itself goes into a function that is not of this script."""
    if call is made or evaluator.local_function(call.func) is not None:
        return False
    if evaluator.dotted(call.func).startswith("builtins."):
        return False
    words = [*call.args, *(word.value for word in call.keywords)]
    return any(
        isinstance(word, (ast.Name, ast.Attribute)) and evaluator.origin(word) is made
        for word in words
    )


def option_of(call: ast.Call, evaluator: Evaluator, group: int | None) -> Option | None:
    """One ``add_argument`` as a value; None when its form is not literal."""
    if any(word.arg is None for word in call.keywords) or not call.args:
        return None
    names = [evaluator.value(word) for word in call.args]
    if not all(isinstance(name, str) and name for name in names):
        return None
    words = {word.arg or "": word.value for word in call.keywords}
    action = _action(words.get("action"), evaluator)
    flags = tuple(name for name in names if name.startswith("-"))
    nargs = evaluator.value(words["nargs"]) if "nargs" in words else None
    if action is None or nargs is UNKNOWN or not isinstance(nargs, (str, int, type(None))):
        return None
    # argparse makes a pattern with a letter for each: a huge number would never come to an end.
    if isinstance(nargs, int) and not 0 <= nargs <= _MAX_NARGS:
        return None
    dest = evaluator.value(words["dest"]) if "dest" in words else _dest(names)
    if not isinstance(dest, str):
        return None
    choices = evaluator.value(words["choices"]) if "choices" in words else None
    default = evaluator.value(words["default"]) if "default" in words else _default_of(action)
    required: Any = evaluator.value(words["required"]) if "required" in words else False
    positional = not flags
    return Option(
        flags=flags,
        dest=dest,
        type_name="flag" if action in _TAKES_NO_VALUE else _type_name(words.get("type"), evaluator),
        action=action,
        nargs=nargs,
        default=default,
        const=evaluator.value(words["const"]) if "const" in words else _const_of(action),
        choices=list(choices) if isinstance(choices, (list, tuple, dict, range)) else choices,
        required=_required(required, positional, nargs),
        group=group,
        line=call.lineno,
    )


def _required(given: Any, positional: bool, nargs: Any) -> bool | None:
    if positional:
        return nargs not in ("?", "*")
    return given if isinstance(given, bool) else None


def _default_of(action: str) -> Any:
    return {"store_true": False, "store_false": True}.get(action)


def _const_of(action: str) -> Any:
    return {"store_true": True, "store_false": False}.get(action)


def _dest(names: list[Any]) -> str:
    first = next((name for name in names if name.startswith("--")), names[0])
    return str(first).lstrip("-").replace("-", "_") if first.startswith("-") else str(first)


def _action(node: ast.expr | None, evaluator: Evaluator) -> str | None:
    if node is None:
        return "store"
    if evaluator.dotted(node).endswith("BooleanOptionalAction"):
        return "boolean"
    found = evaluator.value(node)
    return found if isinstance(found, str) and found in _ACTIONS else None


def _type_name(node: ast.expr | None, evaluator: Evaluator) -> str:
    if node is None:
        return "str"
    return _TYPE_NAMES.get(evaluator.dotted(node), "other")
