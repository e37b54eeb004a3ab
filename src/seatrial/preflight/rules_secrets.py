"""Rules on secrets: none printed, none in the command, none in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from seatrial.core.secret_shapes import is_harmless_value, looks_secret_name, shape_spans
from seatrial.preflight.evaluate import Namespace
from seatrial.preflight.rule import SEEN, Answer, Hit, Rule, Subject, rule
from seatrial.preflight.script import Call, Script

_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
_MAX_TEXT = 100_000
_SHELLS = ("os.system", "subprocess.run", "subprocess.call", "subprocess.check_call")
_DUMPS = ("printenv", "env", "set", "export -p")


def _prints(call: Call) -> bool:
    """Whether a call writes its arguments where people read them."""
    if call.dotted in ("builtins.print", "pprint.pprint", "rich.print", "sys.stdout.write"):
        return True
    if call.dotted.startswith(("logging.", "loguru.", "logging.getLogger().")):
        return call.name in _LOG_METHODS
    return (
        call.name in _LOG_METHODS
        and isinstance(call.node.func, ast.Attribute)
        and (
            isinstance(call.node.func.value, ast.Name)
            and call.node.func.value.id in ("logger", "log", "LOGGER", "LOG")
        )
    )


def _secret_in(node: ast.AST, script: Script) -> str:
    """What of an expression gives a secret away; empty when nothing does."""
    todo: list[ast.AST] = [node]
    while todo:
        part = todo.pop()
        found = _secret_at(part, script)
        if found:
            return found
        if isinstance(part, ast.Call):
            # What a function makes of a secret (its length, whether it is there) is no secret.
            if script.evaluator.dotted(part.func) in (
                "builtins.str", "builtins.repr", "builtins.dict", "json.dumps", "pprint.pformat",
            ):  # fmt: skip
                todo.extend(part.args)
            elif script.evaluator.dotted(part.func) in ("builtins.sorted", "builtins.list"):
                todo.extend(word for word in part.args if isinstance(word, ast.Call))
            elif isinstance(part.func, ast.Attribute) and part.func.attr in (
                "format",
                "items",
                "join",
            ):
                todo.extend([*part.args, part.func.value])
        elif isinstance(part, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
            if _shows_environment(part, script):
                return "the whole environment"
            todo.append(part.elt)
        elif isinstance(part, ast.IfExp):
            todo.extend((part.body, part.orelse))  # its test prints nothing
        elif isinstance(part, ast.Subscript):
            pass  # token[:4], environ["HOME"]
        elif not isinstance(part, (ast.Compare, ast.Attribute, ast.comprehension)):
            todo.extend(ast.iter_child_nodes(part))
    return ""


def _shows_environment(node: ast.GeneratorExp | ast.ListComp | ast.SetComp, script: Script) -> bool:
    """Whether it shows every value of ``os.environ.items()``."""
    for part in node.generators:
        source = part.iter.func if isinstance(part.iter, ast.Call) else None
        if source is None or part.ifs or script.evaluator.dotted(source) != "os.environ.items":
            continue
        target = part.target.elts[-1] if isinstance(part.target, ast.Tuple) else part.target
        shown = {name.id for name in ast.walk(node.elt) if isinstance(name, ast.Name)}
        return isinstance(target, ast.Name) and target.id in shown
    return False


def _secret_at(node: ast.AST, script: Script) -> str:
    dotted = script.evaluator.dotted(node) if isinstance(node, (ast.Attribute, ast.Name)) else ""
    if dotted == "os.environ":
        return "the whole environment"
    name = _variable_read(node, script)
    if name and looks_secret_name(name):
        return f"the variable {name}"
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        source = script.evaluator.origin(node)
        name = _variable_read(source, script) if source is not None else ""
        if name and looks_secret_name(name):
            return f"{node.id}, which holds the variable {name}"
        return _source_of_secret(node, source, script)
    if isinstance(node, ast.Call) and script.evaluator.dotted(node.func) == "os.environ.copy":
        return "the whole environment"
    argument = isinstance(node, ast.Attribute) and isinstance(
        script.evaluator.value(node.value), Namespace
    )
    if argument and looks_secret_name(node.attr):  # type: ignore[attr-defined]  # an Attribute
        return f"the argument {node.attr}"  # type: ignore[attr-defined]  # as above
    return ""


def _source_of_secret(node: ast.Name, source: ast.AST | None, script: Script) -> str:
    dotted = script.evaluator.dotted
    if isinstance(source, (ast.Attribute, ast.Name)) and dotted(source) == "os.environ":
        return "the whole environment"
    if isinstance(source, ast.Call):
        called = dotted(source.func)
        if called.endswith("getpass.getpass") or called == "huggingface_hub.get_token":
            return f"{node.id}, which {called.rpartition('.')[2]}() gave"
        if called == "os.environ.copy" or (
            called == "builtins.dict" and any(dotted(word) == "os.environ" for word in source.args)
        ):
            return "the whole environment"
    for up in script.index.parents(node):
        if isinstance(up, ast.For) and isinstance(up.iter, ast.Call):
            target = up.target.elts[-1] if isinstance(up.target, ast.Tuple) else None
            if dotted(up.iter.func) in ("os.environ.items", "os.environ.values") and node.id in (
                getattr(target, "id", None),
                getattr(up.target, "id", None),
            ):
                return "the whole environment"
    return ""


def _variable_read(node: ast.AST | None, script: Script) -> str:
    """The name in ``os.environ["X"]``, ``os.environ.get("X")``, ``os.getenv("X")``."""
    name: object = None
    if isinstance(node, ast.Subscript):
        if script.evaluator.dotted(node.value) == "os.environ":
            name = script.evaluator.value(node.slice)
    elif isinstance(node, ast.Call) and node.args:
        called = script.evaluator.dotted(node.func)
        if called in ("os.environ.get", "os.getenv", "os.environ.pop"):
            name = script.evaluator.value(node.args[0])
    return name if isinstance(name, str) else ""


@rule(
    "secrets.printed",
    severity="warning",
    ad_hoc="warning",
    title="the script prints the environment or a token",
)
def printed(subject: Subject) -> Iterator[Answer]:
    """A print or log call is given `os.environ`, or a variable whose name says it is secret.

    Why it costs: logs are kept, shown on job pages and pasted into issues. Seatrial takes secrets
    out of what it records; other places do not.

    What it cannot see: a secret that goes through functions or other names first, and what
    libraries print.

    Remedy: print whether it is set: `"HF_TOKEN" in os.environ`.

    Example: `print(dict(os.environ))`
    """
    script = subject.script
    for call in script.calls if script is not None else ():
        if _prints(call) and script is not None:
            words = [*call.node.args, *(word.value for word in call.node.keywords)]
            found = next(filter(None, (_secret_in(word, script) for word in words)), "")
            if found:
                yield Hit(
                    f"line {call.line} prints {found}",
                    line=call.line,
                    remedy="print whether it is set, not what it is",
                )
    for call in script.calls if script is not None else ():
        if call.dotted in _SHELLS and _dumps_environment(call.argument("args", 0).value):
            yield Hit(
                f"line {call.line} prints the whole environment",
                line=call.line,
                remedy="print the names that matter",
            )
    if script is not None:
        yield from _handed_over(script)


def _handed_over(script: Script) -> Iterator[Answer]:
    """Secrets that the script puts into the command line of another program."""
    for call in script.calls:
        if call.dotted in (*_SHELLS, "subprocess.Popen", "subprocess.check_output", "os.popen"):
            node = call.argument_node("args", 0)
            found = _secret_in(node, script) if node is not None else ""
            if found:
                yield Hit(
                    f"line {call.line} hands {found} over in a command line",
                    line=call.line,
                    remedy="hand it over in env=",
                )


def _dumps_environment(given: object) -> bool:
    """Whether a command is ``env``, ``printenv`` or ``set`` alone."""
    if isinstance(given, (list, tuple)):
        return len(given) == 1 and given[0] in _DUMPS
    return given in _DUMPS


@rule(
    "secrets.in_command",
    severity="warning",
    ad_hoc="warning",
    title="a secret is in the command",
    detects="launch",
    needs_script=False,
)
def in_command(subject: Subject) -> Iterator[Answer]:
    """A word of the command has the shape of a token, or follows a flag named after one.

    Why it costs: everybody on the machine reads the words of every process, and shells remember
    them. Seatrial removes them from its record only.

    What it cannot see: secrets without a known shape behind a flag with an ordinary name.

    Remedy: hand it over in a variable; in a trial `secrets = ["HF_TOKEN"]`.

    Example: `python train.py --hf-token hf_...`
    """
    words = subject.command
    hit = False
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if word.startswith("--") and not equals and at + 1 < len(words):
            value = words[at + 1]
        named = flag.startswith("--") and looks_secret_name(flag.lstrip("-"))
        if named and len(value) >= 6 and not value.startswith("-") and not is_harmless_value(value):
            hit = True
            yield Hit(
                f"the command has a secret behind {flag}",
                remedy="hand it over in a variable; in a trial: secrets = [NAME]",
                confidence="likely",
            )
        elif not (at and looks_secret_name(words[at - 1].lstrip("-"))) and shape_spans(word):
            hit = True
            yield Hit(
                f"word {at + 1} of the command looks like a secret",
                remedy="hand it over in a variable; in a trial: secrets = [NAME]",
                confidence="likely",
            )
    if words and not hit:
        yield SEEN


@rule(
    "secrets.in_source",
    severity="warning",
    ad_hoc="warning",
    title="a token is written in the source",
)
def in_source(subject: Subject) -> Iterator[Answer]:
    """A text of the script has the shape of a token.

    Why it costs: it is in the history of the repository and in every copy of the script.

    What it cannot see: tokens without a known shape, or put together from parts.

    Remedy: revoke it, then read it from a variable.

    Example: `login(token="hf_...")`
    """
    script = subject.script
    if script is None:
        return
    hit = False
    for node in script.index.nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if 12 <= len(node.value) <= _MAX_TEXT and _is_token(node.value):
            hit = True
            yield Hit(
                f"line {node.lineno} holds a text that looks like a token",
                line=node.lineno,
                remedy="revoke it, then read it from a variable of the environment",
                confidence="likely",
            )
    for name, text, line in _named_texts(script):
        if looks_secret_name(name) and _looks_random(text) and not _is_token(text):
            hit = True
            yield Hit(
                f"line {line}: {name} holds what looks like a token",
                line=line,
                remedy="revoke it, then read it from a variable of the environment",
                confidence="likely",
            )
    if not hit:
        yield SEEN


def _named_texts(script: Script) -> Iterator[tuple[str, str, int]]:
    """Texts that are written behind a name, with it."""
    for node in script.index.nodes:
        if isinstance(node, ast.Assign):
            names = [getattr(t, "id", getattr(t, "attr", "")) for t in node.targets]
        elif isinstance(node, ast.keyword):
            names = [node.arg or ""]
        else:
            continue
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for name in filter(None, names):
                yield name, node.value.value, node.value.lineno


def _looks_random(text: str) -> bool:
    """Long, of letters and digits mixed, and no placeholder."""
    if not re.fullmatch(r"[A-Za-z0-9_\-+=.]{20,}", text) or re.search(
        r"x{4,}|your|example|placeholder|dummy|fake|changeme|1234567", text, re.IGNORECASE
    ):
        return False
    return sum(char.isdigit() for char in text) >= 3 and len(set(text)) >= 10


def _is_token(text: str) -> bool:
    """A token by its own shape; what is only assigned in prose (``key=...``) is not meant."""
    return any(span.replacement == "[secret]" for span in shape_spans(text))


@rule(
    "secrets.in_trial",
    severity="warning",
    ad_hoc="warning",
    title="a secret is written in the trial file",
    detects="launch",
    needs_script=False,
)
def in_trial(subject: Subject) -> Iterator[Answer]:
    """A value under `[runner] env` has the shape of a token, or a name that says so.

    Why it costs: the trial file is committed and reviewed, and the token with it.

    What it cannot see: secrets without a known shape under an ordinary name.

    Remedy: `secrets = ["HF_TOKEN"]`: the value is then taken from the environment.

    Example: `env = { HF_TOKEN = "hf_..." }`
    """
    trial = subject.trial
    if trial is None or trial.ad_hoc:
        return
    for name, value in trial.runner.env.items():
        named = looks_secret_name(name) and len(value) >= 6 and not is_harmless_value(value)
        if named or _is_token(value):
            yield Hit(
                f"the trial writes a secret under runner.env: {name}",
                file=trial.file,
                remedy=f'secrets = ["{name}"] under [runner], and revoke the one in the file',
                confidence="likely",
            )
        else:
            yield SEEN


RULES: tuple[Rule, ...] = (printed, in_command, in_source, in_trial)
