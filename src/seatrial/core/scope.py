"""What a run did not test, and what to type next."""

from __future__ import annotations

import posixpath
import shlex
from typing import Iterator, Mapping, Sequence, Tuple

from seatrial.core.check_report import CheckReport, answered_cases, facts_of
from seatrial.core.judgement.seen import launched_world
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult

_NAMES: Mapping[str, str] = {"fsdp": "FSDP", "zero_stage": "DeepSpeed ZeRO"}

_ALWAYS = ("Resuming from a checkpoint was not tested.",)
_PURPOSE = "Whether the model becomes good enough for its purpose was not tested."
_NO_HELDOUT = "Reloading a checkpoint in a fresh process and held-out cases were not tested."


def not_tested(
    plan: Plan, observation: Observation, result: RunResult, checks: Sequence[CheckReport] = ()
) -> Tuple[str, ...]:
    """Plain sentences on what this run says nothing about, the most specific first.

    Args:
        plan: what was to run.
        observation: what was seen.
        result: how it was judged.
        checks: what was checked beside the run.
    """
    if not observation.ranks or result.done == 0:
        return ("Nothing was tested: no optimizer step was seen.",)
    return (
        *_length(plan, observation, result),
        *_sharding(plan, observation),
        *_hardware(observation),
        *_artefacts(observation),
        *_heldout(checks),
        *_ALWAYS,
    )


def _length(plan: Plan, observation: Observation, result: RunResult) -> Iterator[str]:
    planned, done = result.planned, result.done
    if planned is not None and planned > done:
        yield (
            f"Only {done} of {planned} planned steps were made: later steps, the end of the"
            " schedule and later data were not tested."
        )
    else:
        yield f"Nothing beyond {done} optimizer step{'' if done == 1 else 's'} was tested."
    lead = observation.lead
    if result.outcome == "capped" and result.framework == "torch":
        yield (
            f"What the script does after step {done} was not reached: it was ended there"
            f" (--max-steps {plan.max_steps})."
        )
    elif lead is not None and not lead.ended:
        yield f"What happened after step {done} is unknown: the end of training was not recorded."


def _sharding(plan: Plan, observation: Observation) -> Iterator[str]:
    wanted = _wanted(plan, observation)
    for key in ("fsdp", "zero_stage"):
        in_effect = any(model.data.get(key) for model in observation.models)
        if key in wanted and not in_effect:
            yield (
                f"{_NAMES[key]} was asked for ({wanted[key]}) but was not in effect: no model"
                " was seen to be sharded."
            )


def _wanted(plan: Plan, observation: Observation) -> Mapping[str, str]:
    """What command and environment ask for, with the words that do so."""
    wanted = {}
    variables = observation.env.get("env")
    known = variables if isinstance(variables, dict) else {}
    for key, name in (("fsdp", "ACCELERATE_USE_FSDP"), ("zero_stage", "ACCELERATE_USE_DEEPSPEED")):
        if str(known.get(name, "")).lower() in ("1", "true", "yes"):
            wanted[key] = f"{name}={known[name]}"
    for word in plan.command:
        if word.partition("=")[0] in ("--fsdp", "--use_fsdp"):
            wanted.setdefault("fsdp", word)
        if word.partition("=")[0] in ("--deepspeed", "--use_deepspeed"):
            wanted.setdefault("zero_stage", word)
    return wanted


def _hardware(observation: Observation) -> Iterator[str]:
    device = str(observation.env.get("device") or "cpu")
    if device.startswith("cpu"):
        yield (
            "No accelerator was used: kernels, mixed precision and memory of a GPU were not tested."
        )
    else:
        yield f"Other accelerators than {device} were not tested."
    count = len(observation.ranks)
    if count > 1:
        yield f"Other numbers of ranks than {count}, and more than one machine, were not tested."
    elif launched_world(observation.ranks[0]) > 1:
        yield "Other ranks were launched but not seen: synchronisation was not tested."
    else:
        yield "Several ranks, and how they exchange gradients, were not tested."


def _artefacts(observation: Observation) -> Iterator[str]:
    if not any(save.error is None for save in observation.saves):
        yield "No checkpoint was saved while it was watched: saving was not tested."
    if not observation.evaluations:
        yield "No evaluation was seen: evaluation was not tested."


def _heldout(checks: Sequence[CheckReport]) -> Iterator[str]:
    count = answered_cases(checks)
    if count is None:
        yield _NO_HELDOUT
        yield _PURPOSE
        return
    yield f"Other cases than the {count} held-out ones were not tested."
    if not facts_of(checks, "heldout").get("gates"):
        yield _PURPOSE


def _reference(result: RunResult) -> str:
    """What names the run: its id, or its folder when the state is kept elsewhere."""
    state = posixpath.basename(posixpath.dirname(posixpath.dirname(result.record)))
    usual = state in ("", ".seatrial")
    return shlex.quote(result.run_id if usual else result.record)


def next_command(result: RunResult, *, has_stderr: bool = True) -> str:
    """The command to type next.

    Args:
        result: the judged run.
        has_stderr: whether there is anything to read in ``run/stderr.log``.
    """
    run_id = _reference(result)
    for finding in result.findings:
        if " -m pip install " in finding.remedy or finding.remedy.startswith("kill -9 "):
            return finding.remedy
    if has_stderr and result.outcome in ("failed", "never_started", "oom") and result.record:
        return f"tail -n 40 {shlex.quote(result.record + '/run/stderr.log')}"
    if result.outcome in ("lost", "interrupted"):
        return f"seatrial status {run_id}"
    return f"seatrial open {run_id}"
