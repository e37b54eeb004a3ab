"""Rules on what a script does after training: which weights it reports on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from seatrial.preflight.rule import SEEN, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.script import Call, Script
from seatrial.preflight.settings import TrainerCall, trainers_of

_HELDOUT = re.compile(r"(?i)(?<![a-z])(?:held[_-]?out|hold[_-]?out|test)(?![a-z])")
_NUMBERED = re.compile(r"checkpoint|ckpt")
_LOADS = ("from_pretrained", "load", "load_file", "load_adapter", "load_checkpoint", "load_model")


def _last_train(script: Script) -> Call | None:
    """The last call of a Trainer's ``train``."""
    found = [call for call in script.calls if call.dotted.endswith("Trainer().train")]
    return max(found, key=lambda call: call.line) if found else None


def _is_behind(call: Call, train: Call, script: Script) -> bool:
    """Whether a call stands behind the training, in the same function."""
    function = script.index.function_of
    return call.line > train.line and function(call.node) is function(train.node)


def _names_heldout(call: Call) -> str:
    """The first argument of a call that is named after a test or held-out set."""
    words = [*call.node.args, *(word.value for word in call.node.keywords)]
    for word in words:
        for node in ast.walk(word):
            text = node.id if isinstance(node, ast.Name) else ""
            text = node.attr if isinstance(node, ast.Attribute) else text
            text = str(node.value) if isinstance(node, ast.Constant) else text
            if len(text) < 60 and _HELDOUT.search(text.replace("_", " ")):
                return text
    return ""


def _trainer_of(call: Call, known: tuple[TrainerCall, ...], script: Script) -> TrainerCall | None:
    func = call.node.func
    owner = script.evaluator.origin(func.value) if isinstance(func, ast.Attribute) else None
    return next((one for one in known if one.call.node is owner), None)


@rule(
    "best_checkpoint.heldout_on_last_weights",
    severity="warning",
    ad_hoc="note",
    title="held-out rows are evaluated with the last weights, not the best ones",
)
def heldout_on_last_weights(subject: Subject) -> Iterator[Answer]:
    """After `train()` the Trainer holds the last weights, unless it is told to load the best.

    Why it costs: the number that is reported belongs to a checkpoint that nobody chose.

    What it cannot see: evaluations in other functions or files, sets that are not named after test
    or held-out, and a reload by hand.

    Remedy: `load_best_model_at_end=True`, or reload the recorded best in a new process, as
    `[heldout]` of a trial does.

    Example: `trainer.train(); trainer.predict(test_set)` without `load_best_model_at_end`.
    """
    script = subject.script
    if script is None:
        return
    train, known = _last_train(script), trainers_of(script)
    if train is None:
        return
    for call in script.calls:
        if call.name not in ("evaluate", "predict") or not _is_behind(call, train, script):
            continue
        named = _names_heldout(call)
        trainer = _trainer_of(call, known, script)
        if not named or trainer is None:
            continue
        if trainer.settings is None:
            yield Open(f"line {call.line}: the configuration of the trainer cannot be followed")
            continue
        best = trainer.settings.keeps_best
        if best.is_(True) or trainer.call.line > train.line:  # made anew, around another model
            yield SEEN
        elif best.unknown:
            yield Open(f"line {call.line}: load_best_model_at_end is computed")
        else:
            yield Hit(
                f"{call.name}({named}) at line {call.line} judges the weights of the last step: "
                "load_best_model_at_end is off",
                line=call.line,
                observed="last step",
                expected="recorded best",
                remedy="load_best_model_at_end=True, or [heldout] in a trial",
                confidence="likely",
            )


def _picks_newest(node: ast.AST | None, script: Script) -> bool:
    """``sorted(glob("checkpoint-*"))[-1]``, ``max(...)``, ``get_last_checkpoint(...)``."""
    made = script.evaluator.origin(node)
    if isinstance(made, ast.Subscript) and isinstance(made.value, (ast.Call, ast.Name)):
        if script.value(made.slice).value not in (-1, 0):
            return False
        made = script.evaluator.origin(made.value)
        if not isinstance(made, ast.Call):
            return False
        if script.evaluator.dotted(made.func) != "builtins.sorted":
            return False
    elif isinstance(made, ast.Call):
        dotted = script.evaluator.dotted(made.func)
        if dotted.endswith("get_last_checkpoint"):
            return True
        if dotted != "builtins.max":
            return False
    else:
        return False
    return _mentions_checkpoints(made, script)


def _mentions_checkpoints(made: ast.Call, script: Script) -> bool:
    for node in ast.walk(made):
        inner: ast.AST | None = node
        if isinstance(node, ast.Name):
            inner = script.evaluator.origin(node)
        for part in ast.walk(inner) if inner is not None else ():
            text = part.value if isinstance(part, ast.Constant) else ""
            if isinstance(text, str) and _NUMBERED.search(text):
                return True
    return False


@rule(
    "best_checkpoint.newest_taken_for_best",
    severity="warning",
    ad_hoc="warning",
    title="the newest checkpoint is loaded as if it were the best",
)
def newest_taken_for_best(subject: Subject) -> Iterator[Answer]:
    """Behind the training the script loads the highest-numbered or youngest folder.

    Why it costs: the newest is the best only by accident. As text, `checkpoint-900` also comes
    behind `checkpoint-1000`.

    What it cannot see: folders that are chosen in another file or by hand.

    Remedy: read `best_model_checkpoint` and check that its step is `best_global_step`.

    Example: `from_pretrained(sorted(glob("out/checkpoint-*"))[-1])` after `trainer.train()`
    """
    script = subject.script
    if script is None:
        return
    train = _last_train(script)
    if train is None:
        return
    for call in script.calls_named(*_LOADS):
        if not call.node.args or call.line <= train.line:
            continue
        if _picks_newest(call.node.args[-1], script) or _picks_newest(call.node.args[0], script):
            yield Hit(
                f"line {call.line} loads the newest checkpoint folder, which need not be the best",
                line=call.line,
                observed="newest folder",
                expected="best_model_checkpoint",
                remedy="load trainer.state.best_model_checkpoint, and check its step",
                confidence="likely",
            )


RULES: tuple[Rule, ...] = (heldout_on_last_weights, newest_taken_for_best)
