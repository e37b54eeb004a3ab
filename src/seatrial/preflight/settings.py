"""The configuration of a Trainer in a script, however it is made: by a call or by its parser."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.preflight.evaluate import Namespace
from seatrial.preflight.parser_model import default_values
from seatrial.preflight.script import Call, Script, is_file_of_arguments
from seatrial.preflight.values import NOWHERE, UNSURE, Value, value_of

PACKAGES = ("transformers", "trl", "unsloth", "sentence_transformers", "setfit")
_TRL = (
    "SFT", "DPO", "GRPO", "KTO", "ORPO", "CPO", "RLOO", "Reward", "PRM", "OnlineDPO", "BCO",
)  # fmt: skip
CONFIGS = frozenset(
    {"TrainingArguments", "Seq2SeqTrainingArguments", *(f"{name}Config" for name in _TRL)}
)
TRAINERS = frozenset({"Trainer", "Seq2SeqTrainer", *(f"{name}Trainer" for name in _TRL)})
# Methods of TrainingArguments that set several fields at once.
_SETTERS = frozenset(
    {
        "set_training", "set_evaluate", "set_save", "set_logging", "set_push_to_hub", "set_testing",
        "set_optimizer", "set_lr_scheduler", "set_dataloader",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """One configuration object.

    Attributes:
        script: where it is made.
        class_name: ``TrainingArguments``, ``SFTConfig``, ...
        line: where it is made.
        call: its construction; None when an argument parser makes it.
        words: the words that fill it when a parser makes it; None: not known.
        local: the class of the script that it is made from.
        fields: values of fields that the script itself declares to its parser.
        reset: whether a method that sets several fields is called somewhere.
    """

    script: Script
    class_name: str
    line: int
    call: Call | None = None
    words: tuple[str, ...] | None = None
    local: ast.ClassDef | None = None
    reset: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_trl(self) -> bool:
        """Whether it is one of TRL's."""
        return self.class_name.endswith("Config")

    def unsure(self, what: str) -> str:
        """Why something is not known, with the line."""
        if self.call is None and self.words is None:
            what = "these settings come from words or a file of the command that are not known"
        return f"line {self.line}: {what}"

    def get(self, *names: str, position: int | None = None) -> Value:
        """The value of a field; of several names (old and new) the first that is given."""
        for name in names:
            found = self._get(name, position)
            if not found.absent:
                return found
        return NOWHERE

    def _get(self, name: str, position: int | None) -> Value:
        if self.reset:
            return Value(UNSURE, line=self.line)
        later = self._set_later(name)
        if later is not None:
            return later
        if name in self.fields:
            return value_of(self.fields[name], self.line)
        if self.call is not None:
            found = self.call.argument(name, position)
        elif self.words is None:
            return Value(UNSURE, line=self.line)
        else:
            found = _from_words(name, self.words, self.line)
        return self._default(name) if found.absent else found

    def _default(self, name: str) -> Value:
        if self.local is None:
            return NOWHERE
        for part in self.local.body:
            if isinstance(part, ast.FunctionDef) and part.name in ("__init__", "__post_init__"):
                return Value(UNSURE, line=part.lineno)
            targets = part.targets if isinstance(part, ast.Assign) else ()
            one = part.target if isinstance(part, ast.AnnAssign) else None
            names = [t.id for t in (*targets, one) if isinstance(t, ast.Name)]
            if name in names and isinstance(part, (ast.Assign, ast.AnnAssign)) and part.value:
                return self.script.value(part.value)
        return NOWHERE

    def _set_later(self, name: str) -> Value | None:
        """``training_args.max_steps = 5`` behind the construction."""
        index, evaluator = self.script.index, self.script.evaluator
        own = []
        for place in index.assigned_attributes.get(name, ()):
            origin = evaluator.origin(place.value)
            if self.call is not None and origin is self.call.node:
                own.append(place)
            elif not isinstance(origin, ast.Call) or self.call is None:
                own.append(place)  # whose it is cannot be told
        if not own:
            return None
        statement = index.parent_of.get(id(own[0]))
        clear = (
            len(own) == 1
            and self.call is not None
            and evaluator.origin(own[0].value) is self.call.node
            and isinstance(statement, ast.Assign)
            and not index.is_conditional(statement)
        )
        if not clear or not isinstance(statement, ast.Assign):
            return Value(UNSURE, line=own[0].lineno)
        return value_of(evaluator.value(statement.value), statement.lineno)

    @property
    def eval_strategy(self) -> Value:
        """``no``, ``steps`` or ``epoch``; ``no`` where nothing is said."""
        return _strategy(self.get("eval_strategy", "evaluation_strategy"), "no")

    @property
    def save_strategy(self) -> Value:
        """``no``, ``steps``, ``epoch`` or ``best``; ``steps`` where nothing is said."""
        return _strategy(self.get("save_strategy"), "steps")

    def steps(self, name: str, default: float) -> Value:
        """A number of steps, or the default of the library; a share below 1 is unknown."""
        found = self.get(name)
        if found.absent or found.is_(None):
            return Value("found", default)
        number = found.number
        if number is None or 0 < number < 1:
            return Value(UNSURE, line=found.line)
        return Value("found", number, found.line)

    @property
    def logs_nothing(self) -> bool:
        """Whether ``logging_strategy`` is "no"."""
        return _strategy(self.get("logging_strategy"), "steps").is_("no")

    @property
    def logging_steps(self) -> Value:
        """Every how many steps a line is logged (500; TRL's own classes 10)."""
        strategy = _strategy(self.get("logging_strategy"), "steps")
        if not strategy.is_("steps"):
            return Value(UNSURE, line=strategy.line)
        return self.steps("logging_steps", 10 if self.is_trl else 500)

    @property
    def eval_steps(self) -> Value:
        """Every how many steps is evaluated; ``logging_steps`` where nothing is said."""
        found = self.get("eval_steps")
        if found.absent or found.is_(None):
            return self.logging_steps
        return self.steps("eval_steps", 500)

    @property
    def planned_steps(self) -> Value:
        """``max_steps`` when it is positive; not found when the epochs decide."""
        found = self.get("max_steps")
        number = found.number
        if number is not None:
            return Value("found", int(number), found.line) if number > 0 else NOWHERE
        return NOWHERE if found.absent else Value(UNSURE, line=found.line)

    @property
    def keeps_best(self) -> Value:
        """``load_best_model_at_end``; False where nothing is said."""
        found = self.get("load_best_model_at_end")
        return Value("found", False) if found.absent else found


def _strategy(found: Value, default: str) -> Value:
    if found.absent:
        return Value("found", default)
    text = found.text
    if text is not None:
        return Value("found", text.lower(), found.line)
    if found.is_(False, None):
        return Value("found", "no", found.line)
    return Value(UNSURE, line=found.line)


def _from_words(name: str, words: Sequence[str], line: int) -> Value:
    """A field of a foreign dataclass as it is typed; not found when it is not."""
    flags = {"--" + name, "--" + name.replace("_", "-")}
    off = {"--no_" + name, "--no-" + name.replace("_", "-")}
    found: Value = NOWHERE
    for at, word in enumerate(words):
        flag, equals, text = word.partition("=")
        if flag in off:
            found = Value("found", False, line)
        elif flag in flags:
            following = words[at + 1] if at + 1 < len(words) else "--"
            if not equals and following.startswith("--"):
                found = Value("found", True, line)
            else:
                found = Value("found", _typed(text if equals else following), line)
    if found.absent and any(
        word.startswith("--") and f"--{name}".startswith(word) for word in words
    ):
        return Value(UNSURE, line=line)  # an abbreviation, perhaps
    return found


def _typed(text: str) -> bool | int | float | str:
    lowered = text.lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else float(text)
    except ValueError:
        return text


def settings_of(script: Script) -> tuple[Settings, ...]:
    """Every configuration of a Trainer that the script makes."""
    if "settings" not in script.memo:
        script.memo["settings"] = _find_settings(script)
    found: tuple[Settings, ...] = script.memo["settings"]
    return found


def _find_settings(script: Script) -> tuple[Settings, ...]:
    reset = any(
        call.name in _SETTERS or call.dotted == "dataclasses.replace" for call in script.calls
    )
    made = []
    for call in script.calls:
        named = config_class(script, call.node.func)
        if named is not None:
            local = script.evaluator.local_class(call.node.func)
            made.append(Settings(script, named, call.line, call, None, local, reset))
    return (*made, *_from_parsers(script, reset))


def config_class(script: Script, node: ast.AST) -> str | None:
    """The library's class that is meant, or that a class of the script is built on."""
    return _library_class(script, node, CONFIGS)


def trainer_class(script: Script, node: ast.AST) -> str | None:
    """As ``config_class``, for trainers."""
    return _library_class(script, node, TRAINERS)


def _library_class(script: Script, node: ast.AST, names: frozenset[str]) -> str | None:
    for _ in range(6):
        dotted = script.evaluator.dotted(node)
        top, last = dotted.partition(".")[0], dotted.rpartition(".")[2]
        if last in names and top in PACKAGES:
            return last
        local = script.evaluator.local_class(node)
        if local is None or not local.bases:
            return None
        node = local.bases[0]
    return None


def _from_parsers(script: Script, reset: bool) -> Iterator[Settings]:
    lines = set()
    for namespace, model in script.namespaces:
        if model is None or namespace.method not in (
            "parse_args_into_dataclasses",
            "parse_args_and_config",
        ):
            continue
        for dotted in model.classes:
            last = dotted.rpartition(".")[2]
            if last in CONFIGS and (dotted, model.line) not in lines:
                lines.add((dotted, model.line))
                words = script.words_for(model)
                if words is not None and is_file_of_arguments(model, words):
                    words = None
                parsed = script.parsed(model) if words is not None else None
                fields = {} if words is None else default_values(model.options)
                fields.update(parsed.values if parsed is not None else {})
                yield Settings(script, last, model.line or 1, None, words, None, reset, fields)


@dataclass(frozen=True)
class TrainerCall:
    """One construction of a trainer, with its configuration when it can be followed."""

    call: Call
    class_name: str
    settings: Settings | None


def trainers_of(script: Script) -> tuple[TrainerCall, ...]:
    """Every trainer that the script makes."""
    if "trainers" not in script.memo:
        script.memo["trainers"] = _find_trainers(script)
    found: tuple[TrainerCall, ...] = script.memo["trainers"]
    return found


def _find_trainers(script: Script) -> tuple[TrainerCall, ...]:
    known = settings_of(script)
    made = []
    for call in script.calls:
        named = trainer_class(script, call.node.func)
        if named is not None:
            made.append(TrainerCall(call, named, _settings_for(call, known, script)))
    return tuple(made)


def _settings_for(call: Call, known: Sequence[Settings], script: Script) -> Settings | None:
    node = call.argument_node("args", 1)
    if node is not None:
        origin = script.evaluator.origin(node)
        for one in known:
            if one.call is not None and one.call.node is origin:
                return one
        if isinstance(script.evaluator.value(node), Namespace) or origin is None:
            return known[0] if len(known) == 1 else None
    return known[0] if len(known) == 1 else None


def has_value(value: Value) -> bool:
    """Whether something other than None is given, even if unknown what."""
    return not (value.absent or value.is_(None))
