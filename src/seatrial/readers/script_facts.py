"""What a training script says about itself: settings, inputs, secrets, seeds. Nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.readers.script_options import Option, given_values, loose_values, options_of
from seatrial.readers.static_values import UNKNOWN, StaticValues, dotted

# Keywords of TrainingArguments, SFTConfig and kin that a trial wants to know.
WANTED = frozenset(
    {
        "output_dir", "max_steps", "num_train_epochs", "seed", "metric_for_best_model",
        "hub_model_id", "hub_private_repo", "push_to_hub", "report_to",
    }
)  # fmt: skip
# Names under which scripts keep the same things in constants and options.
ALIASES = {
    "output_dir": ("output_dir", "out_dir", "output_path", "save_dir", "out", "output"),
    "max_steps": (
        "max_steps", "max_train_steps", "num_steps", "n_steps", "train_steps", "num_train_steps",
        "total_steps", "steps", "max_iters", "iters", "iterations",
    ),
    "seed": ("seed", "random_seed", "manual_seed"),
}  # fmt: skip
_SEEDERS = ("set_seed", "manual_seed", "seed_everything", "random.seed", "seed_all")
_HUB_KEYS = (
    ("model_name_or_path", "model", "model_revision"),
    ("tokenizer_name_or_path", "tokenizer", "model_revision"),
    ("tokenizer_name", "tokenizer", "model_revision"),
    ("dataset_name", "dataset", "dataset_revision"),
)
_LOADERS = ("from_pretrained", "load_dataset", "snapshot_download", "hf_hub_download")
_PARSES = (
    "parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_args_and_config",
)  # fmt: skip


@dataclass(frozen=True)
class Said:
    """A value and where the script says it; ``UNKNOWN`` where it is computed."""

    value: Any
    line: int
    where: str


@dataclass(frozen=True)
class HubUse:
    """Something that is loaded by its name on the Hub (or from a folder)."""

    name: str
    kind: str
    where: str
    revision: Any = None
    split: Any = None


@dataclass
class ScriptFacts:
    """What was found, in the order of the text."""

    options: tuple[Option, ...] = ()
    given: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Said] = field(default_factory=dict)
    texts: list[Said] = field(default_factory=list)
    loads: list[HubUse] = field(default_factory=list)
    secrets: list[tuple[str, bool, int]] = field(default_factory=list)
    metrics: list[Said] = field(default_factory=list)


def script_facts(tree: ast.Module, script: str, words: Sequence[str]) -> ScriptFacts:
    """Read a module's facts.

    Args:
        tree: the parsed script.
        script: its path, the value of ``__file__`` in it.
        words: arguments that the script will get.
    """
    values = StaticValues(tree, script)
    options = options_of(tree, values)
    given = given_values(options, words)
    if _has_library_options(tree):
        given = {**loose_values(words), **given}
    facts = ScriptFacts(options=options, given=given)
    known = {option.name: option.default for option in options} | facts.given
    for owner in _owners(tree):
        values.give(owner, {name: value for name, value in known.items() if value is not UNKNOWN})
    _from_options(facts)
    for node in sorted(ast.walk(tree), key=lambda n: getattr(n, "lineno", 0)):
        if isinstance(node, ast.Call):
            _from_call(node, values, facts)
        elif isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ"):
            name = values.of(node.slice)
            if isinstance(name, str) and isinstance(node.ctx, ast.Load):
                facts.secrets.append((name, True, node.lineno))
        if isinstance(node, (ast.Constant, ast.BinOp, ast.JoinedStr, ast.Call)):
            text = values.of(node)
            if isinstance(text, str) and 0 < len(text) < 1000 and "\n" not in text:
                facts.texts.append(Said(text, node.lineno, f"line {node.lineno}"))
    _from_constants(tree, values, facts)
    return facts


def _owners(tree: ast.Module) -> set[str]:
    """Names of what a parser of arguments returned."""
    found = {"args"}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        if dotted(node.value.func).rpartition(".")[2] in _PARSES or (
            isinstance(node.value.func, ast.Attribute) and node.value.func.attr in _PARSES
        ):
            for target in node.targets:
                found |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def _from_options(facts: ScriptFacts) -> None:
    for option in facts.options:
        value = facts.given.get(option.name, option.default)
        typed = option.name in facts.given
        flag = option.flags[-1] if option.flags else option.name
        where = f"{flag} as given" if typed else f"default of {flag}, line {option.line}"
        for key, names in ALIASES.items():
            if option.name in names and value is not None:
                facts.settings.setdefault(key, Said(value, option.line, where))
        if isinstance(value, str):
            facts.texts.append(Said(value, option.line, where))
    declared = {option.name for option in facts.options}
    for name, value in facts.given.items():
        if name in declared:
            continue
        said = Said(value, 0, f"--{name} as given")
        for key in {key for key, names in ALIASES.items() if name in names} | ({name} & WANTED):
            facts.settings.setdefault(key, said)
        if isinstance(value, str):
            facts.texts.append(said)
    known = {option.name: option.default for option in facts.options} | facts.given
    facts.loads += hub_named(known, "as given or by default")


def hub_named(values: Mapping[str, Any], where: str) -> list[HubUse]:
    """Models and data sets among settings with the names that TRL and transformers scripts use."""
    found = []
    for name, kind, pin in _HUB_KEYS:
        value, revision = values.get(name), values.get(pin)
        if isinstance(value, str):
            found.append(HubUse(value, kind, f"{name} {where}", revision))
    return found


def _has_library_options(tree: ast.Module) -> bool:
    """Whether the script parses with dataclasses, some of which may be a library's."""
    return any(
        isinstance(node, ast.Call)
        and dotted(node.func).rpartition(".")[2] in ("HfArgumentParser", "TrlParser")
        for node in ast.walk(tree)
    )


def _from_call(node: ast.Call, values: StaticValues, facts: ScriptFacts) -> None:
    name = dotted(node.func) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    last = name.rpartition(".")[2]
    words = {word.arg: word.value for word in node.keywords if word.arg}
    if last.endswith(("Arguments", "Config")):
        for key in WANTED & set(words):
            said = Said(values.of(words[key]), node.lineno, f"{last}({key}=), line {node.lineno}")
            if said.value is not UNKNOWN or key not in facts.settings:
                facts.settings[key] = said
        if last == "TrainingArguments" and node.args and "output_dir" not in words:
            said = Said(values.of(node.args[0]), node.lineno, f"{last}(...), line {node.lineno}")
            facts.settings["output_dir"] = said
    if last in _LOADERS and node.args:
        _from_load(node, last, words, values, facts)
    if (last in _SEEDERS or name in _SEEDERS) and node.args:
        said = Said(values.of(node.args[0]), node.lineno, f"{last}(), line {node.lineno}")
        facts.settings.setdefault("seed", said)
    if name in ("os.environ.get", "environ.get", "os.getenv", "getenv") and node.args:
        variable = values.of(node.args[0])
        if isinstance(variable, str):
            facts.secrets.append((variable, False, node.lineno))
    if last == "emit" and node.args and isinstance(node.args[0], ast.Dict):
        for label in node.args[0].keys:
            if isinstance(label, ast.Constant) and isinstance(label.value, str):
                where = f"emit(), line {node.lineno}"
                facts.metrics.append(Said(label.value, node.lineno, where))


def _from_load(
    node: ast.Call, last: str, words: dict[str, ast.expr], values: StaticValues, facts: ScriptFacts
) -> None:
    target = values.of(node.args[0])
    if not isinstance(target, str):
        return
    kind = "dataset" if last == "load_dataset" else "model"
    if last in ("snapshot_download", "hf_hub_download"):
        told = values.of(words["repo_type"]) if "repo_type" in words else None
        kind = "dataset" if told == "dataset" else "model"
    if "Tokenizer" in dotted(node.func) or "Processor" in dotted(node.func):
        kind = "tokenizer"
    facts.loads.append(
        HubUse(
            target,
            kind,
            f"line {node.lineno}",
            values.of(words["revision"]) if "revision" in words else None,
            values.of(words["split"]) if "split" in words else None,
        )
    )


def _from_constants(tree: ast.Module, values: StaticValues, facts: ScriptFacts) -> None:
    """Module-level constants with the names that scripts use for these things."""
    for node in tree.body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name = node.targets[0].id
        for key, names in ALIASES.items():
            value = values.of(node.value)
            if name.lower() in names and value is not UNKNOWN:
                said = Said(value, node.lineno, f"{name}, line {node.lineno}")
                facts.settings.setdefault(key, said)
