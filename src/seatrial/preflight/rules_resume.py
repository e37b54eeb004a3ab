"""Rules on what repeats or hides a run: resuming by itself, retries, hidden failures, waiting."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from seatrial.preflight.reached import asks_for_a_terminal, is_reached
from seatrial.preflight.rule import SEEN, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.script import Call, Script
from seatrial.preflight.settings import settings_of

_EXITS = ("sys.exit", "os._exit", "builtins.exit", "builtins.quit")
_ASKS = {
    "builtins.input": "input()",
    "getpass.getpass": "getpass()",
    "huggingface_hub.notebook_login": "notebook_login()",
    "huggingface_hub.interpreter_login": "interpreter_login()",
}
_DEBUGGERS = ("builtins.breakpoint", "pdb.set_trace", "ipdb.set_trace", "IPython.embed")


def _trains(script: Script) -> list[Call]:
    """Calls that train: a Trainer's ``train``, and functions of the script that do."""
    if "trains" not in script.memo:
        functions = _training_functions(script)
        script.memo["trains"] = [
            call
            for call in script.calls
            if call.dotted.endswith(("Trainer().train", "Trainer().fit"))
            or script.evaluator.local_function(call.node.func) in functions
            or _method(call, script) in functions
        ]
    found: list[Call] = script.memo["trains"]
    return found


def _method(call: Call, script: Script) -> ast.AST | None:
    """The method of a class of the script that is called on an object of it."""
    func = call.node.func
    made = script.evaluator.origin(func.value) if isinstance(func, ast.Attribute) else None
    local = script.evaluator.local_class(made.func) if isinstance(made, ast.Call) else None
    if local is None or not isinstance(func, ast.Attribute):
        return None
    return next(
        (p for p in local.body if isinstance(p, ast.FunctionDef) and p.name == func.attr), None
    )


def _training_functions(script: Script) -> set[ast.AST]:
    """Functions with a whole training in them: a Trainer's, or a loop with ``backward``."""
    index, found = script.index, set[ast.AST]()
    for call in script.calls:
        function = index.function_of(call.node)
        whole = call.dotted.endswith(("Trainer().train", "Trainer().fit"))
        looped = call.name == "backward" and any(
            isinstance(up, (ast.For, ast.While)) for up in _above(call.node, script)
        )
        # One round of a loop is no training: skipping a bad batch is no retry of a run.
        part = isinstance(function, ast.FunctionDef) and re.search(
            "step|batch|epoch|round", function.name
        )
        if function is not None and (whole or looped) and not part:
            found.add(function)
    for _ in range(4):
        callers = {
            index.function_of(call.node)
            for call in script.calls
            if script.evaluator.local_function(call.node.func) in found
            or _method(call, script) in found
        }
        more = {function for function in callers if function is not None} - found
        if not more:
            break
        found |= more
    return found


@rule(
    "resume.by_itself",
    severity="warning",
    ad_hoc="note",
    title="the script resumes from whatever checkpoint is there",
)
def by_itself(subject: Subject) -> Iterator[Answer]:
    """`resume_from_checkpoint=True`, or the newest folder found by `get_last_checkpoint`.

    Why it costs: the run that was planned is not the one that happens. A folder of an older run is
    taken on, or the run ends because there is none.

    What it cannot see: a resume that a flag switches on at run time.

    Remedy: start fresh; name the checkpoint where a resume is meant. A trial resumes by its own
    `[resume] command`.

    Example: `trainer.train(resume_from_checkpoint=True)`
    """
    script = subject.script
    if script is None:
        return
    for call in _trains(script):
        if not call.dotted.endswith("Trainer().train"):
            continue  # a function of the script: its arguments are its own
        given = call.argument("resume_from_checkpoint", 0)
        if given.is_(True):
            yield Hit(
                f"line {call.line} resumes from the newest checkpoint that is there",
                line=call.line,
                observed=True,
                remedy="train() without it, or the path of the checkpoint that is meant",
            )
        elif given.unknown and not _finds_newest(script):
            yield Open(f"line {call.line}: what it resumes from is computed")
        else:
            yield SEEN
    yield from _if_it_is_there(script)
    for call in script.calls_named("get_last_checkpoint"):
        yield Hit(
            f"line {call.line} looks for the newest checkpoint to go on from",
            line=call.line,
            remedy="name the checkpoint that is meant",
            confidence="likely",
        )
    for settings in settings_of(script):
        if settings.get("resume_from_checkpoint").is_(True):
            yield Hit(
                "resume_from_checkpoint is True in the configuration",
                line=settings.line,
                observed=True,
                remedy="leave it out",
                severity="note",  # the Trainer itself does not read it; scripts do
            )


def _if_it_is_there(script: Script) -> Iterator[Answer]:
    """``if os.path.exists(path): model.load_state_dict(torch.load(path))``, path being saved to."""
    saved = {
        ast.unparse(call.node.args[1])
        for call in script.calls
        if call.dotted == "torch.save" and len(call.node.args) > 1
    }
    for call in script.calls_named("load_state_dict"):
        for up in _above(call.node, script):
            # With any further condition, an option for example, the person decides.
            if not isinstance(up, ast.If) or not isinstance(up.test, ast.Call):
                continue
            tests = getattr(up.test.func, "attr", "") in ("exists", "is_file", "isfile")
            text = ast.unparse(up.test)
            if tests and any(path in text for path in saved):
                yield Hit(
                    f"line {call.line} goes on from a file that the script itself saves, if it is "
                    "there",
                    line=call.line,
                    remedy="go on only when an option asks for it",
                    confidence="likely",
                )
                return


def _finds_newest(script: Script) -> bool:
    return any(True for _ in script.calls_named("get_last_checkpoint"))


@rule(
    "resume.retry_loop",
    severity="warning",
    ad_hoc="warning",
    title="training is tried again when it fails",
)
def retry_loop(subject: Subject) -> Iterator[Answer]:
    """A loop around a `try` with the training in it, whose failure does not end the loop.

    Why it costs: a fault that comes back is paid each time, and what is judged is the last try.

    What it cannot see: retries by a launcher, a queue or another file.

    Remedy: let it fail. A resume is a leg of its own in a trial.

    Example: `while True: try: trainer.train(); break; except RuntimeError: continue`
    """
    script = subject.script
    if script is None:
        return
    for call in _trains(script):
        guarded = _guard(call.node, script)
        looped = guarded is not None and any(
            isinstance(up, (ast.While, ast.For)) for up in _above(guarded, script)
        )
        if guarded is not None and looped and _goes_on(guarded) and _is_attempt(guarded, script):
            yield Hit(
                f"line {call.line} is tried again when it fails",
                line=call.line,
                remedy="let the failure end the run",
                confidence="likely",
            )
        else:
            yield SEEN
    yield from _decorated(script)
    for call in script.calls:
        if call.dotted in ("os.system", "subprocess.run", "subprocess.call", "subprocess.Popen"):
            words = ast.unparse(call.node)  # the number of the job is in no text
            if "scontrol" in words and "requeue" in words:
                yield Hit(
                    f"line {call.line} puts the job back into the queue",
                    line=call.line,
                    remedy="let the job end",
                )


def _is_attempt(guard: ast.Try, script: Script) -> bool:
    """Whether the loop around a ``try`` counts attempts; one over settings or seeds is a sweep."""
    loop = next(up for up in _above(guard, script) if isinstance(up, (ast.While, ast.For)))
    if isinstance(loop, ast.While):
        return True
    names = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
    for statement in loop.body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            told = getattr(node.func, "attr", getattr(node.func, "id", ""))
            used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            if names & used and told not in ("print", "sleep", "info", "warning", "error"):
                return False
            inner = {
                part.id
                for word in node.args
                for call in ast.walk(word)
                if isinstance(call, ast.Call)
                for part in ast.walk(call)
                if isinstance(part, ast.Name)
            }
            if names & inner and told != "sleep":
                return False
    return True


def _decorated(script: Script) -> Iterator[Answer]:
    """Functions that train, under a decorator that calls them again."""
    for function in _training_functions(script):
        for decorator in getattr(function, "decorator_list", ()):
            node = decorator.func if isinstance(decorator, ast.Call) else decorator
            top, _, last = script.evaluator.dotted(node).rpartition(".")
            if top.partition(".")[0] in ("tenacity", "backoff", "retrying", "retry") and last:
                yield Hit(
                    f"{getattr(function, 'name', 'a function')} trains, and {last} calls it again "
                    "when it fails",
                    line=decorator.lineno,
                    remedy="let the failure end the run",
                )


@rule(
    "resume.launcher_restarts",
    severity="warning",
    ad_hoc="warning",
    title="the launcher starts failed workers again",
    detects="launch",
    needs_script=False,
)
def launcher_restarts(subject: Subject) -> Iterator[Answer]:
    """`torchrun` or `accelerate launch` is told to restart workers.

    Why it costs: every restart is paid, and begins from the last checkpoint or from nothing.

    What it cannot see: restarts that a scheduler or a configuration file asks for.

    Remedy: leave `--max-restarts` out; the default is 0.

    Example: `torchrun --max-restarts 3 train.py`
    """
    words = subject.command
    names = {word.replace("\\", "/").rpartition("/")[2] for word in words}
    if not names & {"torchrun", "accelerate", "accelerate-launch", "torch.distributed.run"}:
        return
    for at, word in enumerate(words):
        flag, equals, text = word.partition("=")
        if flag.replace("_", "-") == "--max-restarts":
            text = text if equals else (words[at + 1] if at + 1 < len(words) else "")
            if text.isdigit() and int(text) > 0:
                yield Hit(
                    f"the launcher starts failed workers again, up to {int(text)} times",
                    observed=int(text),
                    expected=0,
                    remedy="take --max-restarts out",
                )
                return
    yield SEEN


def _above(node: ast.AST, script: Script) -> Iterator[ast.AST]:
    """What a node stands in, up to its function."""
    for up in script.index.parents(node):
        if isinstance(up, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            return
        yield up


def _guard(node: ast.AST, script: Script) -> ast.Try | None:
    """The ``try`` whose body a node stands in."""
    below: ast.AST = node
    for up in _above(node, script):
        if isinstance(up, ast.Try) and below in up.body:
            return up
        below = up
    return None


def _goes_on(guard: ast.Try) -> bool:
    """Whether a handler neither raises, returns, breaks nor leaves."""
    return any(not _ends(handler.body) for handler in guard.handlers if _is_wide(handler))


def _ends(body: list[ast.stmt]) -> bool:
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, (ast.Raise, ast.Return, ast.Break)):
                return True
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "sys.exit", "exit", "quit", "os._exit", "os.abort",
            ):  # fmt: skip
                return True
    return False


def _is_wide(handler: ast.ExceptHandler) -> bool:
    """Whether it catches failures of training; Ctrl-C and the end of a loader are not."""
    names = ast.unparse(handler.type) if handler.type is not None else "BaseException"
    return any(
        word in names
        for word in ("Exception", "RuntimeError", "OutOfMemory", "ValueError", "OSError", "Error")
    ) and names not in ("KeyError", "StopIteration", "ImportError")


@rule(
    "reporting.failure_hidden",
    severity="warning",
    ad_hoc="warning",
    title="a failure of training would be reported as success",
)
def failure_hidden(subject: Subject) -> Iterator[Answer]:
    """A wide `except` around the training goes on, or a `finally` leaves with exit code 0.

    Why it costs: the process ends with 0, so queues and people take the run for good.

    What it cannot see: what a function does that the handler calls.

    Remedy: `raise` at the end of the handler.

    Example: `try: trainer.train() except Exception as e: print(e)`
    """
    script = subject.script
    if script is None:
        return
    for call in _trains(script):
        guard = _guard(call.node, script)
        if guard is None:
            yield SEEN
        elif _goes_on(guard) and not any(
            isinstance(up, (ast.While, ast.For)) for up in _above(guard, script)
        ):
            yield Hit(
                f"a failure of line {call.line} is caught and the script goes on to exit code 0",
                line=guard.handlers[0].lineno,
                remedy="raise at the end of the handler",
                confidence="likely",
            )
        elif _leaves_well(guard, script):
            yield Hit(
                f"the finally block behind line {call.line} leaves with exit code 0",
                line=guard.finalbody[0].lineno,
                remedy="take the exit out of finally",
            )
        else:
            yield SEEN


def _leaves_well(guard: ast.Try, script: Script) -> bool:
    for statement in guard.finalbody:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and script.evaluator.dotted(node.func) in _EXITS:
                return not node.args or script.evaluator.value(node.args[0]) in (0, None)
    return False


@rule(
    "environment.waits_for_input",
    severity="warning",
    ad_hoc="note",
    title="the script may wait for somebody to type",
)
def waits_for_input(subject: Subject) -> Iterator[Answer]:
    """`input()`, `getpass()`, a login that asks, or a debugger's stop.

    Why it costs: nobody is there: the run ends with an EOFError, or waits until its deadline.

    What it cannot see: questions that libraries ask. Under a condition that only a run decides it
    is a note; what is guarded by `isatty()` is left alone.

    Remedy: a flag of the command, or a variable of the environment.

    Example: `input("Overwrite? ")`
    """
    script = subject.script
    if script is None:
        return
    for call in script.calls:
        reached = is_reached(call.node, script)
        if reached is False or asks_for_a_terminal(call.node, script):
            continue
        asks = _ASKS.get(call.dotted)
        if call.dotted == "huggingface_hub.login" and not call.node.args and not call.node.keywords:
            asks = "login() without a token"
        if asks is not None:
            yield Hit(
                f"line {call.line} asks somebody: {asks}",
                line=call.line,
                remedy="take it from a flag or a variable",
                confidence="likely",
                severity="" if reached else "note",
            )
        elif call.dotted in _DEBUGGERS:
            yield Hit(
                f"line {call.line} stops in a debugger ({call.name})",
                line=call.line,
                remedy="take it out",
                confidence="likely",
                severity="" if reached else "note",
            )


RULES: tuple[Rule, ...] = (
    by_itself,
    retry_loop,
    launcher_restarts,
    failure_hidden,
    waits_for_input,
)
