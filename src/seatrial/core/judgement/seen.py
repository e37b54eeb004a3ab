"""Findings about what was seen while the run went."""

from __future__ import annotations

import math
from typing import Iterator, List, Optional, Tuple

from seatrial.core.event_data import whole
from seatrial.core.finding import Evidence, Finding, Place
from seatrial.core.judgement.case import Case
from seatrial.core.judgement.learning import findings_of_learning
from seatrial.core.observation import Observation, RankView


def findings_of_observation(case: Case) -> Tuple[Finding, ...]:
    """What the events say beyond the gates: ranks, scaler, labels, and faults of our own."""
    return (
        *_lonely_ranks(case.observation),
        *_ranks_differ(case),
        *_skipped_steps(case.observation),
        *findings_of_learning(case.observation),
        *_probe_errors(case.observation),
        *_left_running(case),
    )


def launched_world(rank: RankView) -> int:
    """How many ranks the launcher announced to this rank; 1 without a launcher."""
    variables = rank.env.get("env")
    if not isinstance(variables, dict) or "RANK" not in variables:
        return 1
    try:
        return int(variables.get("WORLD_SIZE", 1))
    except (TypeError, ValueError):
        return 1


def _is_alone(rank: RankView, observation: Observation) -> bool:
    """Whether the rank trains without any process group, though a launcher started several."""
    joined = rank.env.get("backend") or (whole(rank.env, "world_size") or 1) > 1
    wrapped = any(
        model.data.get("wrappers") or model.data.get("fsdp") or model.data.get("zero_stage")
        for model in observation.models
        if model.rank == rank.rank
    )
    return launched_world(rank) > 1 and not joined and not wrapped and rank.steps_done > 0


def _share_gradients(observation: Observation, one: RankView, other: RankView) -> bool:
    """Whether two ranks with different losses step on equal gradients: they are averaged somehow.

    A script may exchange gradients by hand, in a group that it made after it was first looked at.
    """
    norms = _pairs(observation, "grad_norm", one, other)
    losses = _pairs(observation, "loss_raw", one, other)
    equal_norms = all(math.isclose(a, b, rel_tol=1e-3) for a, b in norms)
    return bool(norms) and equal_norms and any(a != b for a, b in losses)


def _pairs(
    observation: Observation, name: str, one: RankView, other: RankView
) -> List[Tuple[float, float]]:
    """The finite values of one metric at the steps that two ranks have in common."""
    first, second = observation.curve(name, one.rank), observation.curve(name, other.rank)
    if first is None or second is None:
        return []
    known = dict(second.points)
    both = [(y, known[x]) for x, y in first.points if x in known]
    return [(a, b) for a, b in both if math.isfinite(a) and math.isfinite(b)]


def _lonely_ranks(observation: Observation) -> Iterator[Finding]:
    alone = [rank for rank in observation.ranks if _is_alone(rank, observation)]
    if len(alone) < 2 or _share_gradients(observation, alone[0], alone[1]):
        return
    world = launched_world(alone[0])
    yield Finding(
        "distributed.unsynchronised_copies",
        "distributed",
        "error",
        f"The launcher started {world} ranks, but {len(alone)} of them train alone: no process"
        " group was initialised, so gradients are never exchanged.",
        place=Place(rank=alone[-1].rank),
        evidence=Evidence({"WORLD_SIZE": world, "world_size": 1}, {"world_size": world}),
        remedy="Call torch.distributed.init_process_group and wrap the model in"
        " DistributedDataParallel, or start one process.",
        confidence="proven",
    )


def _ranks_differ(case: Case) -> Iterator[Finding]:
    done = {rank.rank: rank.steps_done for rank in case.observation.ranks}
    if len(set(done.values())) < 2:
        return
    fewest = min(done, key=lambda rank: done[rank])
    # A run that was ended from outside leaves its ranks between two steps.
    natural = case.ended is not None and case.ended.reason == "natural"
    if not natural and max(done.values()) - done[fewest] <= 1:
        return
    yield Finding(
        "distributed.ranks_differ",
        "distributed",
        "warning",
        f"Ranks made different numbers of steps: rank {fewest} made {done[fewest]}, the most is"
        f" {max(done.values())}.",
        place=Place(rank=fewest),
        evidence=Evidence({str(rank): steps for rank, steps in done.items()}),
        remedy="Give every rank the same number of batches (drop_last, or a sampler that pads).",
    )


def _skipped_steps(observation: Observation) -> Iterator[Finding]:
    skipped = sum(part.skipped for part in observation.segments)
    if skipped:
        yield Finding(
            "precision.skipped_steps",
            "precision",
            "note",
            f"The gradient scaler left out {skipped} steps; nothing consumed their gradients.",
            evidence=Evidence(skipped, 0),
            remedy="A few at the start are normal; many mean that float16 does not hold the loss.",
        )


def _probe_errors(observation: Observation) -> Iterator[Finding]:
    for error in observation.probe_errors:
        times = f" ({error.count} times)" if error.count > 1 else ""
        yield Finding(
            "probe.error",
            "environment",
            "warning",
            f"A fault of seatrial's own probe in {error.where or 'an unnamed place'}{times};"
            f" the run did not notice: {error.error}",
            place=Place(rank=error.rank),
            evidence=Evidence(error.error),
            remedy="Please report it with run/ of this record; the run itself is unaffected.",
        )


def _left_running(case: Case) -> Iterator[Finding]:
    pids: Optional[Tuple[int, ...]] = case.ended.left_running if case.ended is not None else None
    if pids:
        yield Finding(
            "run.left_running",
            "environment",
            "warning",
            f"These processes would not go: {', '.join(map(str, pids))}.",
            evidence=Evidence(list(pids), []),
            remedy=f"kill -9 {' '.join(map(str, pids))}",
        )
