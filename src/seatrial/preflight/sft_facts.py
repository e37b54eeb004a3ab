"""What a script tells TRL's SFTTrainer about labels, as far as its text says."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What SFTConfig of TRL 1.16 does where the script says nothing.
DEFAULT_MAX_LENGTH = 1024
_WANTED = frozenset(
    {
        "assistant_only_loss", "completion_only_loss", "max_length", "packing", "eos_token",
        "dataset_text_field", "truncation_mode", "chat_template_path", "formatting_func",
        "dataset_kwargs",
    }
)  # fmt: skip
_PARSERS = ("HfArgumentParser", "TrlParser")


class _Computed:
    def __repr__(self) -> str:
        return "COMPUTED"


COMPUTED: Any = _Computed()


@dataclass(frozen=True)
class SftFacts:
    """Settings that decide which tokens get labels.

    Attributes:
        used: the script makes an SFTTrainer.
        settings: keywords of SFTConfig and SFTTrainer; ``COMPUTED`` where the text does not tell.
        line: of the call of SFTConfig, or of SFTTrainer.
        parsed: SFTConfig is filled from the command line.
        reshapes: why rows may look different when they reach the trainer; empty when they do not.
        template: text that the script sets as the chat template; ``COMPUTED``; None when it is the
            tokenizer's own.
        pad_is_eos: line at which the script makes the end token the padding token.
        masking_collator: line of a collator of transformers that masks every padding token.
    """

    used: bool = False
    settings: Mapping[str, Any] | None = None
    line: int = 0
    parsed: bool = False
    reshapes: str = ""
    template: Any = None
    pad_is_eos: int = 0
    masking_collator: int = 0

    def get(self, name: str, default: Any = None) -> Any:
        """One setting, or what TRL does without it."""
        return (self.settings or {}).get(name, default)


def sft_facts(tree: ast.Module, values: Mapping[str, Any]) -> SftFacts:
    """Read the facts.

    Args:
        tree: the script.
        values: options as the script's parser gave them, by name; empty when it was not asked.
    """
    constants = _constants(tree)
    settings: dict[str, Any] = {}
    line = 0
    used = parsed = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _last(node.func)
        if name in ("SFTTrainer", "SFTConfig"):
            used = used or name == "SFTTrainer"
            line = node.lineno if name == "SFTConfig" or not line else line
            if any(word.arg is None for word in node.keywords):
                settings.update(dict.fromkeys(_WANTED - set(settings), COMPUTED))
            for word in node.keywords:
                if word.arg in _WANTED:
                    settings[word.arg] = _value(word.value, constants, values)
        elif name in _PARSERS and "SFTConfig" in ast.unparse(node):
            parsed = True
    if parsed:
        for key in _WANTED - {"formatting_func"}:
            settings.setdefault(key, values.get(key, COMPUTED if not values else None))
    return SftFacts(
        used=used,
        settings=settings,
        line=line,
        parsed=parsed,
        reshapes=_reshapes(tree, settings),
        template=_template(tree, constants, settings),
        pad_is_eos=_pad_is_eos(tree),
        masking_collator=_masking_collator(tree, constants, values),
    )


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Names of the module that are bound once, to a constant."""
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        value = node.value.value if isinstance(node.value, ast.Constant) else COMPUTED
        for target in node.targets:
            if isinstance(target, ast.Name):
                found[target.id] = COMPUTED if target.id in found else value
    return found


def _value(node: ast.expr, constants: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id, COMPUTED)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return values.get(node.attr, COMPUTED)
    return COMPUTED


def _reshapes(tree: ast.Module, settings: Mapping[str, Any]) -> str:
    """Why a row of the file may not be the row that the trainer sees."""
    if settings.get("formatting_func") is not None:
        return "the script gives rows their text with formatting_func"
    if settings.get("dataset_kwargs") is not None:
        return "the script sets dataset_kwargs"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _last(node.func)
        if isinstance(node.func, ast.Attribute) and name in ("map", "rename_column", "with_format"):
            return f"the script rewrites rows with .{name}() in line {node.lineno}"
        if name == "apply_chat_template" and any(
            word.arg == "tokenize"
            and isinstance(word.value, ast.Constant)
            and word.value.value is False
            for word in node.keywords
        ):
            return f"the script renders the chat template itself in line {node.lineno}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            if keys & {"completion", "input_ids"} or {"role", "content"} <= keys:
                return f"the script builds rows of its own in line {node.lineno}"
    return ""


def _template(tree: ast.Module, constants: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    if settings.get("chat_template_path") is not None:
        return COMPUTED
    found: Any = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == "chat_template":
                    found = COMPUTED if found is not None else _value(node.value, constants, {})
        elif isinstance(node, ast.Call) and _last(node.func) in (
            "clone_chat_template",
            "setup_chat_format",
            "get_chat_template",
        ):
            return COMPUTED
    return found if found is None or isinstance(found, str) else COMPUTED


def _pad_is_eos(tree: ast.Module) -> int:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and (target.attr, node.value.attr) in (
                    ("pad_token", "eos_token"),
                    ("pad_token_id", "eos_token_id"),
                ):
                    return node.lineno
    return 0


def _masking_collator(
    tree: ast.Module, constants: Mapping[str, Any], values: Mapping[str, Any]
) -> int:
    """Line of a DataCollatorForLanguageModeling of transformers without masked language modelling.

    It gives -100 to every token that is the padding token (transformers 5.24). The collator of that
    name in TRL does not.
    """
    name = "DataCollatorForLanguageModeling"
    from_transformers = any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("transformers")
        and any(alias.name == name and alias.asname is None for alias in node.names)
        for node in ast.walk(tree)
    )
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or _last(node.func) != name:
            continue
        if not from_transformers and not ast.unparse(node.func).startswith("transformers."):
            continue
        for word in node.keywords:
            if word.arg == "mlm" and _value(word.value, constants, values) is False:
                return node.lineno
    return 0
