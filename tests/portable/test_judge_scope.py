"""What a run did not test is said in plain sentences, and the next command can be typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, Dict, List, Optional, Tuple

from seatrial.core.event import Event
from seatrial.core.finding import Finding
from seatrial.core.observation import observe
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.scope import next_command, not_tested

PLAN = Plan("r1", "/rec/r1", ("python", "x.py"), "/w", 200, 900.0, 2**32, True)
RESULT = RunResult(0, "completed", "x", run_id="r1", record="/rec/a b", done=5, framework="torch")


def event(name: str, rank: int = 0, **data: Any) -> Event:
    return Event(0, "", 1.0, 7 + rank, rank, name, data)


def sentences(
    *more: Event,
    env: Optional[Dict[str, Any]] = None,
    plan: Plan = PLAN,
    result: RunResult = RESULT,
    ended: bool = True,
) -> Tuple[str, ...]:
    events: List[Event] = [event("env", **(env or {"device": "cpu"}))]
    events += [event("step", step=n) for n in range(1, 6)]
    if ended:
        events.append(event("train.end", scope="process"))
    found = not_tested(plan, observe([*events, *more]), result)
    assert all(line.endswith((".", ").")) and "\n" not in line for line in found)
    assert len(set(found)) == len(found)
    return found


def says(lines: Tuple[str, ...], part: str) -> bool:
    return any(part in line for line in lines)


def test_a_run_without_steps_tested_nothing() -> None:
    nothing = not_tested(PLAN, observe([]), replace(RESULT, done=0))
    assert nothing == ("Nothing was tested: no optimizer step was seen.",)


def test_length() -> None:
    assert says(sentences(), "Nothing beyond 5 optimizer steps")
    short = sentences(result=replace(RESULT, planned=5000))
    assert says(short, "Only 5 of 5000 planned steps") and not says(short, "Nothing beyond")
    assert not says(sentences(), "is unknown")
    assert says(sentences(ended=False), "the end of training was not recorded")
    capped = sentences(result=replace(RESULT, outcome="capped"))
    assert says(capped, "was not reached")
    trainer = replace(RESULT, outcome="capped", framework="transformers")
    assert not says(sentences(result=trainer), "was not reached")


def test_hardware_and_ranks() -> None:
    assert says(sentences(), "No accelerator was used")
    assert says(sentences(env={"device": "cuda:0"}), "Other accelerators than cuda:0")
    assert says(sentences(), "Several ranks")
    two = sentences(event("step", rank=1, step=1))
    assert says(two, "Other numbers of ranks than 2") and not says(two, "Several ranks")
    half = sentences(env={"env": {"RANK": "0", "WORLD_SIZE": "4"}})
    assert says(half, "launched but not seen")


def test_saves_and_evaluations() -> None:
    bare = sentences()
    assert says(bare, "saving was not tested") and says(bare, "evaluation was not tested")
    full = sentences(event("save", path="a"), event("eval", step=1, metrics={"eval_loss": 1}))
    assert not says(full, "saving was not tested")
    assert not says(full, "evaluation was not tested")
    assert says(sentences(event("save", error="full")), "saving was not tested")


def test_sharding_that_was_asked_for_and_is_not_there() -> None:
    assert not says(sentences(), "asked for")
    fsdp = sentences(env={"env": {"ACCELERATE_USE_FSDP": "true"}})
    assert says(fsdp, "FSDP was asked for (ACCELERATE_USE_FSDP=true)")
    in_effect = sentences(event("model", fsdp=2), env={"env": {"ACCELERATE_USE_FSDP": "1"}})
    assert not says(in_effect, "asked for")
    off = sentences(env={"env": {"ACCELERATE_USE_FSDP": "false"}})
    assert not says(off, "asked for")
    zero = sentences(plan=replace(PLAN, command=("python", "x.py", "--deepspeed=ds.json")))
    assert says(zero, "DeepSpeed ZeRO was asked for (--deepspeed=ds.json)")
    assert says(sentences(plan=replace(PLAN, command=("python", "x.py", "--fsdp"))), "FSDP")


def test_the_next_command_can_be_typed() -> None:
    assert next_command(RESULT) == "seatrial open r1"
    odd = next_command(replace(RESULT, run_id="a b"))
    assert shlex.split(odd) == ["seatrial", "open", "a b"]
    failed = next_command(replace(RESULT, outcome="failed"))
    assert shlex.split(failed) == ["tail", "-n", "40", "/rec/a b/run/stderr.log"]
    assert next_command(replace(RESULT, outcome="lost")) == "seatrial status r1"
    missing = Finding(
        "environment.missing_module",
        "environment",
        "warning",
        "x",
        remedy="python -m pip install trl",
    )
    other = replace(missing, remedy="Look at the batch.")
    assert next_command(replace(RESULT, findings=(other, missing))) == missing.remedy
    assert next_command(replace(RESULT, findings=(missing,))) == "python -m pip install trl"
