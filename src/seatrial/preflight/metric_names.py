"""Names of metrics: which way is better, and which ones a Trainer emits."""

from __future__ import annotations

import ast
import re

from seatrial.preflight.script import Script
from seatrial.preflight.settings import Settings, TrainerCall
from seatrial.preflight.values import UNKNOWN

_LOWER = frozenset(
    {
        "loss", "perplexity", "ppl", "wer", "cer", "ter", "mer", "rmse", "mae", "mse", "mape",
        "error", "err", "nll", "bpb", "bpc", "fid", "eer", "smape", "rmsle",
    }
)  # fmt: skip
_HIGHER = frozenset(
    {
        "accuracy", "acc", "f1", "bleu", "sacrebleu", "rouge", "precision", "recall", "auc",
        "auroc", "exact", "meteor", "ndcg", "mrr", "pearson", "pearsonr", "spearman", "spearmanr",
        "matthews", "mcc", "r2", "kappa", "iou", "miou", "dice", "bertscore", "chrf",
    }
)  # fmt: skip
# Values of every evaluation of a Trainer, without the prefix `eval_`.
BUILT_IN = frozenset(
    {
        "loss", "runtime", "samples_per_second", "steps_per_second", "jit_compilation_time",
        "model_preparation_time",
    }
)  # fmt: skip
# Of TRL's SFTTrainer besides.
SFT = frozenset({"entropy", "mean_token_accuracy", "num_tokens", "aux_loss"})
# Metrics of the library `evaluate` whose result has one key, their own name.
_EVALUATE = frozenset({"accuracy", "f1", "precision", "recall", "matthews_correlation", "mse"})


def bare(metric: str) -> str:
    """A metric's name without the prefix ``eval_``."""
    return metric.removeprefix("eval_")


def lower_is_better(metric: str) -> bool | None:
    """Which way a metric of this name is better; None when its name does not say."""
    words = {word for word in re.split(r"[^a-z0-9]+", bare(metric).lower()) if word}
    words |= {re.sub(r"(?:\d+|l|lsum)$", "", word) for word in words if word.startswith("rouge")}
    lower, higher = bool(words & _LOWER), bool(words & _HIGHER)
    return None if lower == higher else lower


def library_default(metric: str) -> bool:
    """``greater_is_better`` that the library takes when nothing is said."""
    return not metric.endswith("loss")


def emitted(trainer: TrainerCall, settings: Settings) -> frozenset[str] | str:
    """Names that an evaluation has, without prefix; a text says why they are not known."""
    script = trainer.call
    evaluator = settings.script.evaluator
    if evaluator.local_class(script.node.func) is not None:
        return "the trainer is a class of the script"
    if any(
        isinstance(node, ast.FunctionDef) and node.name in ("on_evaluate", "evaluate")
        for node in settings.script.index.nodes
    ):
        return "the script takes part in the evaluation with a method of its own"
    names = BUILT_IN | SFT if trainer.class_name == "SFTTrainer" else BUILT_IN
    if trainer.class_name not in ("Trainer", "Seq2SeqTrainer", "SFTTrainer"):
        return f"what {trainer.class_name} emits belongs to the installed library"
    node = script.argument_node("compute_metrics")
    if node is not None:
        own = _computed(node, settings.script)
        if own is None:
            return "the keys that compute_metrics returns are computed"
        names = names | own
    elif script.argument("compute_metrics").unknown:
        return "compute_metrics may be among arguments that are computed"
    return _with_sets(names, trainer, settings.script)


def _with_sets(names: frozenset[str], trainer: TrainerCall, script: Script) -> frozenset[str] | str:
    """With several evaluation sets every name carries that of its set."""
    node = trainer.call.argument_node("eval_dataset")
    origin = script.evaluator.origin(node) if node is not None else None
    if not isinstance(origin, ast.Dict):
        return names
    sets = [script.evaluator.value(key) for key in origin.keys if key is not None]
    if len(sets) != len(origin.keys) or not all(isinstance(name, str) for name in sets):
        return "the names of the evaluation sets are computed"
    return frozenset(f"{one}_{name}" for one in sets for name in names)


def _computed(node: ast.expr, script: Script) -> frozenset[str] | None:
    """Keys of what ``compute_metrics`` returns; None when they are not literal."""
    evaluator = script.evaluator
    if isinstance(node, ast.Constant) and node.value is None:
        return frozenset()
    function = evaluator.local_function(node)
    if isinstance(node, ast.Lambda):
        results: list[ast.expr | None] = [node.body]
    elif isinstance(function, ast.FunctionDef):
        results = [
            inner.value
            for inner in ast.walk(function)
            if isinstance(inner, ast.Return) and script.index.function_of(inner) is function
        ]
    else:
        return None
    keys: set[str] = set()
    for result in results:
        found = _keys(result, script)
        if found is None:
            return None
        keys |= found
    return frozenset(bare(key) for key in keys) if results else None


def _keys(node: ast.expr | None, script: Script) -> set[str] | None:
    evaluator = script.evaluator
    if isinstance(node, ast.Name) and node.id in script.index.mutated_names:
        return None
    made = evaluator.origin(node)
    if isinstance(made, ast.Dict):
        return _dict_keys(made, script)
    if isinstance(made, ast.Call):
        if evaluator.dotted(made.func) == "builtins.dict" and not made.args:
            names = {word.arg for word in made.keywords}
            return None if None in names else {name for name in names if name}
        if isinstance(made.func, ast.Attribute) and made.func.attr == "compute":
            loaded = evaluator.origin(made.func.value)
            if isinstance(loaded, ast.Call) and evaluator.dotted(loaded.func) == "evaluate.load":
                name = evaluator.value(loaded.args[0]) if loaded.args else UNKNOWN
                return {name} if isinstance(name, str) and name in _EVALUATE else None
    return None


def _dict_keys(made: ast.Dict, script: Script) -> set[str] | None:
    keys: set[str] = set()
    for key, item in zip(made.keys, made.values, strict=True):
        if key is None:
            inner = _keys(item, script)
            if inner is None:
                return None
            keys |= inner
            continue
        name = script.evaluator.value(key)
        if not isinstance(name, str):
            return None
        keys.add(name)
    return keys
