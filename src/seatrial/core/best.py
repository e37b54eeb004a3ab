"""The best checkpoint, recomputed from the history of evaluations.

Trust, in this order: the evaluations themselves; then ``best_metric`` and ``best_global_step``;
then the folder of that step; the path that a trainer recorded comes last, because it moves on its
own: it stays on an older folder when the best step was never saved.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

# Two figures of one evaluation may have gone through float32 or a text; differences below this
# share are no difference.
SAME = 1e-6

_LOWER = frozenset(
    """
    loss perplexity ppl wer cer ter mer rmse mse mae mape smape rmsle nll bpb bpc bits_per_byte
    bits_per_character cross_entropy word_error_rate character_error_rate
    mean_squared_error mean_absolute_error root_mean_squared_error
    """.split()  # noqa: SIM905 - names read better as text
)
_HIGHER = frozenset(
    """
    accuracy acc f1 f1_macro f1_micro f1_weighted macro_f1 micro_f1 weighted_f1 precision recall
    auc auroc roc_auc pr_auc average_precision bleu sacrebleu rouge rouge1 rouge2 rougel rougelsum
    meteor chrf exact_match em mcc matthews_correlation pearson pearsonr spearman spearmanr r2 iou
    mean_iou map ndcg mrr mean_token_accuracy top1_accuracy top5_accuracy balanced_accuracy pass@1
    """.split()  # noqa: SIM905 - names read better as text
)
_STEP = re.compile(r"checkpoint-(\d{1,18})/*$")


@dataclass(frozen=True)
class Evaluated:
    """One evaluation after ``step`` update rounds, with all its metrics. Values may be nan."""

    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Recorded:
    """What a trainer recorded as its best: any part may be missing."""

    value: Optional[float] = None
    step: Optional[int] = None
    path: Optional[str] = None

    @property
    def path_step(self) -> Optional[int]:
        """The step in the folder's name."""
        found = _STEP.search(self.path or "")
        return int(found.group(1)) if found else None


@dataclass(frozen=True)
class Wish:
    """What the training was told about the best; None where nobody knows.

    Attributes:
        metric: ``metric_for_best_model``.
        greater: whether greater is better.
        load_best: whether the best is loaded at the end.
        limit: ``save_total_limit``.
        saves: ``save_strategy``: ``no``, ``steps``, ``epoch``, ``best``.
    """

    metric: Optional[str] = None
    greater: Optional[bool] = None
    load_best: Optional[bool] = None
    limit: Optional[int] = None
    saves: Optional[str] = None

    @property
    def asked(self) -> bool:
        """Whether somebody asked for a best checkpoint."""
        return bool(self.load_best) or self.metric is not None


@dataclass(frozen=True)
class History:
    """The evaluations of one metric.

    Attributes:
        metric: its full name.
        points: ``(step, value)`` in order of step, one a step; step 0 is no candidate and left out.
        unclear: steps with several evaluations of different values.
    """

    metric: str
    points: Tuple[Tuple[int, float], ...] = ()
    unclear: FrozenSet[int] = field(default_factory=frozenset)

    @property
    def finite(self) -> Tuple[Tuple[int, float], ...]:
        """The points that can be compared."""
        return tuple(point for point in self.points if not math.isnan(point[1]))

    def value_at(self, step: Optional[int]) -> Optional[float]:
        """The value of a step; None when it was not evaluated."""
        return next((value for at, value in self.points if at == step), None)


def full_name(metric: str) -> str:
    """The name under which the Trainer looks a metric up."""
    return metric if metric.startswith("eval_") else f"eval_{metric}"


def history_of(
    metric: str, evaluations: Sequence[Evaluated], recorded: Recorded = Recorded()
) -> History:
    """The values of one metric, one for each step.

    A step may be evaluated again, after training for example, when the weights are others. What
    the trainer recorded as the value of its best step is then taken for that step, and for other
    steps the first one.

    Args:
        metric: as recorded or declared; the prefix ``eval_`` may be missing.
        evaluations: in the order in which they were made.
        recorded: tells which of several values of its step was compared.
    """
    name = full_name(metric)
    values: Dict[int, List[float]] = {}
    for item in evaluations:
        key = name if name in item.metrics else metric
        if key in item.metrics and item.step > 0:
            values.setdefault(item.step, []).append(item.metrics[key])
    points = []
    for step in sorted(values):
        chosen = values[step][0]
        if step == recorded.step and recorded.value is not None:
            chosen = next((v for v in values[step] if same(v, recorded.value)), chosen)
        points.append((step, chosen))
    unclear = {
        step for step, given in values.items() if not all(same(given[0], v) for v in given[1:])
    }
    return History(name, tuple(points), frozenset(unclear))


def same(first: float, second: float) -> bool:
    """Whether two figures are one, but for how they were written; nan is itself."""
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) and math.isnan(second)
    return math.isclose(first, second, rel_tol=SAME, abs_tol=1e-12)


def better(first: float, second: float, greater: bool) -> bool:
    """Strictly better, as the Trainer compares; a comparison with nan is never true."""
    return first > second if greater else first < second


def true_best(points: Sequence[Tuple[int, float]], greater: bool) -> Optional[Tuple[int, float]]:
    """The best ``(step, value)``; None when nothing can be compared.

    Strict improvement in order of step: the earliest of equal ones wins, and nan never does.
    """
    best: Optional[Tuple[int, float]] = None
    worst = -math.inf if greater else math.inf
    for step, value in sorted(points, key=lambda point: point[0]):
        if better(value, worst if best is None else best[1], greater):
            best = (step, value)
    return best


def known_direction(metric: str) -> Optional[bool]:
    """Whether greater is better, for metrics whose name leaves no doubt; else None.

    The name may carry ``eval_`` and the name of a data set in front (``eval_news_loss``).
    """
    name = metric.lower()
    name = name[len("eval_") :] if name.startswith("eval_") else name
    words = name.replace("-", "_").split("_")
    for begin in range(len(words)):
        if begin and words[begin - 1] in ("neg", "negative", "inverse", "inv", "minus", "one"):
            return None
        tail = "_".join(words[begin:])
        if tail in _LOWER:
            return False
        if tail in _HIGHER:
            return True
    return None


def direction_of(wish: Wish, history: History, recorded: Recorded) -> Optional[bool]:
    """Whether greater is better: as declared, as the recorded value shows, or by the name."""
    if wish.greater is not None:
        return wish.greater
    lowest, highest = true_best(history.points, False), true_best(history.points, True)
    value = recorded.value
    if value is not None and lowest and highest and not same(lowest[1], highest[1]):
        if same(value, lowest[1]):
            return False
        if same(value, highest[1]):
            return True
    return known_direction(history.metric)
