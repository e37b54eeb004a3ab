"""With and without the probe: the same losses, weights, logs and random numbers, bit for bit.

The runs are also looked at from the other side: what the probe says about them must be what the
scripts say about themselves.
"""

# ruff: noqa: E501 - lines of the scripts that are run
from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

COMMON = """
import hashlib, json, random, sys
import numpy, torch
random.seed(1)
numpy.random.seed(1)

def weights(model):
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode() + bytes(tensor.detach().cpu().contiguous().view(torch.uint8).numpy()))
    return digest.hexdigest()

def luck():
    return [torch.rand(1).item().hex(), random.random().hex(), float(numpy.random.rand()).hex()]
"""

PLAIN = (
    COMMON
    + """
from torch import nn
torch.manual_seed(3)
def net():
    return nn.Sequential(nn.Embedding(50, 32), nn.Flatten(), nn.Dropout(0.2),
                         nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 50))
def train(model, call, steps):
    losses, norms = [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    for step in range(steps):
        total = 0.0
        for _ in range(2):
            loss = criterion(call(torch.randint(50, (16, 8))), torch.randint(50, (16,))) / 2
            loss.backward()
            total += loss.item()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        optimizer.step(); schedule.step(); optimizer.zero_grad()
        losses.append(total)
    return losses, norms
model = net()
losses, norms = train(model, model, 8)
second = net()
compiled, _ = train(second, torch.compile(second, backend="eager"), 4)
third = net(); optimizer = torch.optim.SGD(third.parameters(), lr=0.1)
@torch.compile(backend="eager")
def update(): optimizer.step()
for _ in range(2):
    optimizer.zero_grad(); third(torch.randint(50, (4, 8))).sum().backward(); update()
print(json.dumps({"losses": losses, "norms": norms, "compiled": compiled, "luck": luck(),
                  "weights": [weights(model), weights(second), weights(third)]}))
"""
)


def same(bare: Any, probed: Any) -> None:
    """Both ended well and told the same."""
    assert bare.code == 0, bare.err[-3000:]
    probed.healthy()
    assert bare.told
    assert probed.told == bare.told
    assert bare.data("step") == []


def timeless(text: str) -> str:
    """Output without what a clock wrote in it."""
    text = re.sub(r"W\d+ [\d:.]+ \d+ ", "", text)  # torch's own log lines
    text = re.sub(r"'?[a-z_]*(runtime|per_second)'?: '?[\d.e-]+'?,? ?", "", text)
    return re.sub(r"\d+(\.\d+)?\s?(s|ms|it/s|s/it)\b|\d\d:\d\d", "", text)


def test_a_plain_loop_is_the_same_also_when_compiled(bench: Any) -> None:
    bare, probed = bench.twins("run", PLAIN)
    same(bare, probed)
    assert timeless(probed.err) == timeless(bare.err)
    assert probed.out == bare.out
    steps = probed.data("step")
    assert [s["step"] for s in steps] == list(range(1, 13))
    assert [s["segment"] for s in steps] == [1] * 8 + [2] * 4
    told = probed.told
    assert [s["loss_raw"] for s in steps] == told["losses"] + told["compiled"]
    assert [s["grad_norm"] for s in steps[:8]] == told["norms"]
    assert {s["micro_batches"] for s in steps} == {2}
    assert steps[0]["tokens"] == 2 * 16 * 8
    assert all(0 < s["supervised_tokens"] <= 32 for s in steps[:8])
    names = [model["wrappers"] for model in probed.data("model")]
    assert names == [[], []]
    assert [m["name"] for m in probed.data("model")] == ["Sequential", "Sequential"]
    assert probed.end()["reason"] == "script_end"
    assert [e["framework"] for e in probed.data("env")] == [None]


TRAINER = (
    COMMON
    + """
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed
set_seed(5)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=2, max_position_embeddings=32, attention_dropout=0.2))
def rows(n):
    made = []
    for _ in range(n):
        ids = torch.randint(64, (12,)).tolist()
        made.append({"input_ids": ids, "labels": [-100] * 4 + ids[4:], "attention_mask": [1] * 12})
    return made
losses = []
class Mine(Trainer):
    def training_step(self, *args, **kwargs):
        loss = super().training_step(*args, **kwargs)
        losses.append(loss.item())
        return loss
trainer = Mine(model=model, train_dataset=rows(64), eval_dataset=rows(16), args=TrainingArguments(
    output_dir="out", max_steps=6, per_device_train_batch_size=4, gradient_accumulation_steps=2,
    max_grad_norm=0.3, learning_rate=1e-2, eval_strategy="steps", eval_steps=3, save_steps=3,
    logging_steps=1, report_to="none", use_cpu=True, seed=5, disable_tqdm=True))
trainer.train()
print(json.dumps({"losses": losses, "luck": luck(), "weights": weights(model)}))
"""
)


@pytest.mark.hf
def test_a_trainer_is_the_same_with_its_state_and_its_log(bench: Any) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    bare, probed = bench.twins("run", TRAINER)
    same(bare, probed)
    assert timeless(probed.out) == timeless(bare.out)
    assert timeless(probed.err) == timeless(bare.err)
    states = [
        json.loads((done.folder / "out/checkpoint-6/trainer_state.json").read_text())
        for done in (bare, probed)
    ]
    for state in states:
        for line in state["log_history"]:
            for key in [k for k in line if "runtime" in k or "per_second" in k]:
                del line[key]
    assert states[0] == states[1]

    steps = probed.data("step")
    told = probed.told["losses"]
    pairs = [told[i] + told[i + 1] for i in range(0, 12, 2)]
    assert [s["loss_raw"] for s in steps] == pairs
    norms = [line["grad_norm"] for line in states[1]["log_history"] if "grad_norm" in line]
    assert [s["grad_norm"] for s in steps] == norms
    assert next(s["lr"][0] for s in steps) == states[1]["log_history"][0]["learning_rate"]
    assert {(s["tokens"], s["supervised_tokens"], s["micro_batches"]) for s in steps} == {
        (96, 8 * 8, 2)
    }
    assert steps[0]["steps_planned"] == 6
    assert {s["source"] for s in steps} == {"trainer"}
    assert {env["framework"] for env in probed.data("env")} == {"transformers"}
    evaluations = [e for e in probed.data("eval") if e["source"] == "trainer"]
    assert [e["step"] for e in evaluations] == [3, 6]
    assert all("eval_loss" in e["metrics"] for e in evaluations)
    weights_saved = [s for s in probed.data("save") if s["kind"] == "safetensors"]
    assert [Path(s["path"]).parent.name for s in weights_saved] == ["checkpoint-3", "checkpoint-6"]
    assert_digests(weights_saved[-1])
    folders = [s["path"] for s in probed.data("save") if s["kind"] == "trainer"]
    assert folders == [str(probed.folder / f"out/checkpoint-{n}") for n in (3, 6)]
    segment, process = probed.data("train.end")
    assert (segment["reason"], segment["steps_done"], segment["steps_planned"]) == (
        "completed", 6, 6,
    )  # fmt: skip
    assert (process["reason"], process["steps_planned"]) == ("script_end", 6)


SFT = (
    COMMON
    + """
from datasets import Dataset, disable_progress_bars
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer
disable_progress_bars()
set_seed(7)
texts = [f"{a} plus {b} is {a + b}" for a in range(8) for b in range(8)]
core = Tokenizer(models.WordLevel(unk_token="<unk>"))
core.pre_tokenizer = pre_tokenizers.Whitespace()
core.train_from_iterator(texts, trainers.WordLevelTrainer(
    special_tokens=["<pad>", "<unk>", "<end>"], show_progress=False))
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", eos_token="<end>")
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=2, max_position_embeddings=32, pad_token_id=0, eos_token_id=2,
    bos_token_id=None))
trainer = SFTTrainer(
    model=model, processing_class=tokenizer,
    train_dataset=Dataset.from_list([{"text": text} for text in texts]),
    peft_config=LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj"],
                           task_type="CAUSAL_LM"),
    args=SFTConfig(output_dir="out", max_steps=4, per_device_train_batch_size=4, max_length=16,
                   logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, bf16=False,
                   gradient_checkpointing=True, learning_rate=1e-2, disable_tqdm=True, seed=7))
trainer.train()
trainer.save_model("out/adapter")
history = [line["loss"] for line in trainer.state.log_history if "loss" in line]
print(json.dumps({"losses": history, "luck": luck(), "weights": weights(trainer.model),
    "trainable": sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)}))
"""
)


@pytest.mark.hf
def test_trl_with_lora_is_the_same(bench: Any) -> None:
    pytest.importorskip("trl", reason="trl is not installed")
    pytest.importorskip("peft", reason="peft is not installed")
    bare, probed = bench.twins("run", SFT)
    same(bare, probed)
    assert timeless(probed.out) == timeless(bare.out)
    assert timeless(probed.err) == timeless(bare.err)
    assert {env["framework"] for env in probed.data("env")} == {"trl"}
    (model,) = probed.data("model")
    assert model["trainable"] == probed.told["trainable"]
    assert model["lora"]["rank"] == {"default": 4}
    assert model["lora"]["layers"] == 4
    assert model["lora"]["other_trainable"] == 0
    assert model["checkpointing"] is True
    (saved,) = [s for s in probed.data("save") if s["kind"] == "safetensors"]
    assert saved["path"].endswith("out/adapter/adapter_model.safetensors")
    assert saved["tensors"] == 8
    assert_digests(saved)
    assert all(s["supervised_tokens"] for s in probed.data("step"))


def assert_digests(saved: dict[str, Any]) -> None:
    """The digests are those of the bytes in the file that lies there now."""
    raw = Path(saved["path"]).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        found[name] = hashlib.sha256(raw[8 + size + begin : 8 + size + end]).hexdigest()
    assert found
    assert saved["digests"] == found


DDP = (
    COMMON
    + """
import os, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(11)
model = nn.parallel.DistributedDataParallel(nn.Sequential(
    nn.Linear(16, 32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch.manual_seed(100 + rank)
losses = []
for _ in range(5):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    losses.append(loss.item())
mine = {"losses": losses, "weights": weights(model), "luck": luck()}
both = [None, None]
dist.all_gather_object(both, mine)
dist.destroy_process_group()
if rank == 0:
    print(json.dumps({"ranks": both}))
"""
)


def test_two_ranks_are_the_same(bench: Any) -> None:
    bare, probed = bench.twins("torchrun", DDP)
    same(bare, probed)
    for rank in (0, 1):
        probed.healthy(rank)
        told = probed.told["ranks"][rank]
        assert [s["loss_raw"] for s in probed.data("step", rank)] == told["losses"]
        (env,) = probed.data("env", rank)
        assert (env["world_size"], env["backend"]) == (2, "gloo")
        assert (env["env"]["RANK"], env["env"]["WORLD_SIZE"]) == (str(rank), "2")
        (model,) = probed.data("model", rank)
        assert (model["wrappers"], model["name"]) == (["DDP"], "Sequential")
    files = sorted(path.name for path in (probed.record / "run").glob("events*"))
    assert files == ["events.rank0.jsonl", "events.rank1.jsonl"]  # the launcher is no rank
    roles = sorted(entry["role"] for entry in probed.attached() if entry["torch"])
    assert roles == ["interpreter", "rank", "rank"]
