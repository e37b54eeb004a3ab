"""Ending a run from inside: step cap, deadline, request; alone, in a Trainer, on two ranks."""

# ruff: noqa: E501 - lines of the scripts that are run
from __future__ import annotations

import json
import time
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

LOOP = """
import json, sys, time, torch
model = torch.nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
mode = sys.argv[1]
def step():
    opt.zero_grad(); model(torch.randn(2, 4)).sum().backward(); opt.step()
steps = 0
try:
    while steps < 400:
        try:
            step()
        except Exception:
            print("swallowed")
        except BaseException:
            if mode != "bare":
                raise
            print("swallowed all")
        steps += 1
        if mode == "slow": time.sleep(0.02)
finally:
    print("finally", steps, flush=True)
print("after the loop")
"""


def test_the_cap_ends_a_plain_loop_cleanly(bench: Any) -> None:
    done = bench.run(LOOP, "plain", max_steps=5).healthy()
    assert done.out == "finally 4\n"
    assert done.err == ""
    assert [s["step"] for s in done.data("step")] == [1, 2, 3, 4, 5]
    segment, process = done.data("train.end")
    assert (segment["scope"], segment["reason"], segment["steps_done"]) == (
        "segment",
        "step_cap",
        5,
    )
    assert (process["reason"], process["steps_done"]) == ("step_cap", 5)
    assert process["exception"] is None


def test_a_script_that_swallows_everything_is_left(bench: Any) -> None:
    done = bench.run(LOOP, "bare", max_steps=5).healthy()
    assert done.out == "swallowed all\n" * 3
    assert done.end()["reason"] == "step_cap"
    assert len(done.data("step")) <= 6


def test_a_deadline_ends_a_plain_loop(bench: Any) -> None:
    done = bench.run(LOOP, "slow", max_steps=300, deadline=time.monotonic() + 4).healthy()
    assert done.out.startswith("finally")
    assert done.end()["reason"] == "wall"
    assert 0 < done.end()["steps_done"] < 300


def test_a_request_is_followed_at_its_step(bench: Any) -> None:
    record = bench.folder / "record1" / "control"
    text = LOOP.replace(
        "steps += 1",
        f"""steps += 1
        if steps == 3:
            with open({str(record / "stop.json")!r}, "w") as file:
                json.dump({{"reason": "asked", "by": "test", "t": "", "at_step": 7}}, file)""",
    )
    done = bench.run(text, "plain", max_steps=100).healthy()
    assert done.out == "finally 6\n"
    assert done.end()["reason"] == "stop_request"
    assert done.end()["steps_done"] == 7


TRAINERS = """
import json, torch
from transformers import (EarlyStoppingCallback, LlamaConfig, LlamaForCausalLM, Trainer,
                          TrainingArguments, set_seed)
set_seed(5)
def rows(n):
    return [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(n)]
class Stream(torch.utils.data.IterableDataset):
    def __init__(self): self.left = rows(8)
    def __iter__(self):
        while self.left: yield self.left.pop()
def train(steps, data, callbacks=(), **more):
    model = LlamaForCausalLM(LlamaConfig(vocab_size=16, hidden_size=8, intermediate_size=16,
        num_hidden_layers=1, num_attention_heads=1, max_position_embeddings=16))
    trainer = Trainer(model=model, train_dataset=data, eval_dataset=rows(4), callbacks=list(callbacks),
        args=TrainingArguments(output_dir="out", max_steps=steps, per_device_train_batch_size=4,
        report_to="none", use_cpu=True, disable_tqdm=True, save_strategy="no", **more))
    trainer.train()
    print("global step", trainer.state.global_step, flush=True)
train(3, rows(16))
train(20, rows(16), [EarlyStoppingCallback(1, 100.0)], eval_strategy="steps", eval_steps=1,
      metric_for_best_model="eval_loss", learning_rate=0.0)
train(20, Stream(), accelerator_config={"dispatch_batches": False})
train(20, rows(16))
train(20, rows(16))
print("after train()")
"""


@pytest.mark.hf
def test_each_train_call_says_why_it_ended_and_the_cap_lets_the_script_go_on(bench: Any) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    done = bench.run(TRAINERS, max_steps=12).healthy()
    assert done.out.endswith("after train()\n")
    segments = [e for e in done.data("train.end") if e["scope"] == "segment"]
    assert [(e["reason"], e["steps_planned"], e["steps_done"]) for e in segments[:4]] == [
        ("completed", 3, 3),
        ("early_stopping", 20, 2),
        ("exhausted", 20, 2),
        ("step_cap", 20, 5),
    ]
    assert [(e["best"] or {}).get("metric") for e in segments[:3]] == [None, "eval_loss", None]
    assert segments[4]["reason"] == "step_cap"  # each later train() is stopped after one step
    assert segments[4]["steps_done"] == 1
    firsts = [s for s in done.data("step") if "steps_planned" in s]
    assert [(s["segment"], s["step"], s["steps_planned"]) for s in firsts] == [
        (1, 1, 3), (2, 4, 20), (3, 6, 20), (4, 8, 20), (5, 13, 20),
    ]  # fmt: skip
    assert done.end()["reason"] == "step_cap"
    assert done.end()["steps_planned"] == 83


SHARDED = """
import atexit, sys
# Registered before torch is there, so it runs behind everything of the probe's.
atexit.register(lambda: print("group open:", dist.is_initialized(), flush=True))
import json, os, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
dist.init_process_group("gloo")
torch.manual_seed(1)
older = FullyShardedDataParallel(nn.Sequential(nn.Linear(8, 4)), device_id=torch.device("cpu"))
opt = torch.optim.SGD(older.parameters(), lr=0.1)
older(torch.randn(4, 8)).sum().backward()
held = torch.stack([p.grad.norm() for p in older.parameters()]).norm().item()
older.clip_grad_norm_(1e-3)
opt.step()
with open(f"held{dist.get_rank()}.json", "w") as file: json.dump(held, file)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
for layer in (model[0], model[2]): fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(50):
    opt.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    opt.step()
print("after the loop")
"""


def test_sharded_ranks_stop_at_the_same_step(bench: Any) -> None:
    done = bench.torchrun(SHARDED, max_steps=4)
    for rank in (0, 1):
        done.healthy(rank)
        assert [s["step"] for s in done.data("step", rank)] == [1, 2, 3, 4]
        assert all(s["grad_norm"] > 0 for s in done.data("step", rank))
        assert done.end(rank)["reason"] == "step_cap"
        older, model = done.data("model", rank)
        assert (older["name"], older["fsdp"], older["wrappers"]) == (
            "Sequential",
            "fsdp1",
            ["FSDP1"],
        )
        held = json.loads((bench.folder / f"held{rank}.json").read_text())  # before clipping
        assert done.data("step", rank)[0]["grad_norm"] == pytest.approx(held, rel=1e-5)
        assert (model["name"], model["fsdp"]) == ("Sequential", "fsdp2")
        assert model["wrappers"] == ["FSDP2"]
        assert model["parameters"] == 8 * 8 + 8 + 8 * 2 + 2
        assert any("Shard" in text for text in model["placements"])
    assert "after the loop" not in done.out
    # The script's own destroy_process_group() was not reached: the probe's stop closed the group.
    assert done.out.count("group open: False") == 2


def test_a_wall_is_seen_by_two_ranks_at_one_step(bench: Any) -> None:
    """Without a group: the note of the first rank to be late is what both obey."""
    env = {"WORLD_SIZE": "2", "RANK": "0"}
    done = bench.run(LOOP, "slow", env=env, deadline=time.monotonic() - 1).healthy()
    assert done.end()["reason"] == "wall"
    note = json.loads((done.record / "run" / "ranks_stop.json").read_text())
    assert note == {"at_step": 2, "reason": "wall"}
    assert done.end()["steps_done"] == 2
