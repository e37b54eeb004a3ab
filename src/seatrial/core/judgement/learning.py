"""Runs in which nothing was learnt, by what every single step of them shows."""

from __future__ import annotations

from typing import Iterator, Tuple

from seatrial.core.finding import Evidence, Finding, Place
from seatrial.core.observation import Observation, RankView

# Fewer steps than this prove nothing about a run: a first step may rightly do nothing.
_ENOUGH = 5
# A warm-up may begin with steps at rest; so many of them and no other are no warm-up.
_LONG_REST = 20
_FOLLOW_FROM_LABELS = (
    "gate.non_finite_loss",
    "gate.non_finite_gradient",
    "gate.vanished_gradient",
    "gate.constant_loss",
)


def findings_of_learning(observation: Observation) -> Tuple[Finding, ...]:
    """Findings about the first rank for which they hold."""
    found = []
    for rank in observation.ranks:
        found = [
            *_no_labels(rank),
            *_no_gradient(observation, rank),
            *_no_learning_rate(rank),
        ]
        if found:
            break
    return tuple(found)


def _no_labels(rank: RankView) -> Iterator[Finding]:
    if rank.supervised_tokens != 0 or rank.steps_done == 0:
        return
    seen = rank.learning
    # Labels that are all masked leave a loss of 0 or 0/0; another loss may train on besides them.
    proven = seen.losses >= 3 and seen.idle_losses == seen.losses
    of = f"of {rank.tokens} tokens " if rank.tokens else ""
    yield Finding(
        "labels.no_supervised_tokens",
        "labels",
        "error" if proven else "warning",
        f"Not one label {of}counted in the loss of {rank.steps_done} steps: every one is masked"
        " (ignore_index, -100).",
        place=Place(rank=rank.rank),
        evidence=Evidence(0, "more than 0"),
        remedy="Print the labels of one batch as the loss gets them; look at the collator, at the"
        " template's answer mask and at truncation.",
        confidence="proven" if proven else "likely",
        symptoms=_FOLLOW_FROM_LABELS if proven else (),
    )


def _no_gradient(observation: Observation, rank: RankView) -> Iterator[Finding]:
    seen = rank.learning
    if seen.losses < _ENOUGH or seen.gradients or observation.probe_errors:
        return
    if any(model.data.get("zero_stage") is not None for model in observation.models):
        return  # the optimizer of a partitioned run may hold copies without gradients of their own
    yield Finding(
        "optimizer.no_gradient",
        "optimizer",
        "error",
        f"No parameter of the optimizer had a gradient in any of {seen.losses} steps: nothing was"
        " trained.",
        place=Place(rank=rank.rank),
        evidence=Evidence("no gradient", "a gradient on at least one parameter"),
        remedy="Check that the optimizer holds the parameters of the model that makes the loss,"
        " that they require gradients, and that nothing detaches the loss from them.",
        confidence="proven",
        symptoms=("gate.constant_loss",),
    )


def _no_learning_rate(rank: RankView) -> Iterator[Finding]:
    seen = rank.learning
    if seen.rated < _ENOUGH or seen.at_rest < seen.rated:
        return
    proven = seen.rated >= _LONG_REST
    yield Finding(
        "schedule.no_learning_rate",
        "schedule",
        "error" if proven else "warning",
        f"The learning rate was 0 in all {seen.rated} steps: no weight was changed.",
        place=Place(rank=rank.rank),
        evidence=Evidence(0, "above 0 in some step"),
        remedy="Look at the learning rate that the optimizer is given and at the schedule's first"
        " steps.",
        confidence="proven" if proven else "likely",
    )
