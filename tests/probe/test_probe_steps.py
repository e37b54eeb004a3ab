"""What a step event says, against what the script computes for itself.

One script, one process: each way to train is a stage with optimizers of its own, and so a segment.
"""

# ruff: noqa: E501 - lines of the scripts that are run
from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

SCRIPT = """
import json, math, torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(1)
told = {}

def norm_of(parameters):
    return torch.stack([p.grad.double().norm() for p in parameters if p.grad is not None]).norm().item()

def net(n=8, out=4):
    return nn.Sequential(nn.Linear(n, 16), nn.ReLU(), nn.Linear(16, out))

# -- 1 values clipped, one odd norm, two groups
model = net()
opt = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.1},
                       {"params": model[2].parameters(), "lr": 0.2}])
rows = []
for clip in ("value", "inf", "none", "subset"):
    opt.zero_grad()
    loss = F.mse_loss(model(torch.randn(5, 8)), torch.randn(5, 4))
    loss.backward()
    before = norm_of(model.parameters())
    if clip == "value": nn.utils.clip_grad_value_(model.parameters(), 1e-3)
    if clip == "inf": nn.utils.clip_grad_norm_(model.parameters(), 1e-3, norm_type=math.inf)
    if clip == "subset": nn.utils.clip_grad_norm_(model[0].parameters(), 1e-3)
    opt.step()
    rows.append([loss.item(), before])
told["clips"] = rows

# -- 2 a scaler: one overflow, then good steps; once unscaled by hand
model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
rows = []
for step in range(4):
    opt.zero_grad()
    loss = F.mse_loss(model(torch.randn(5, 8)), torch.randn(5, 4))
    if step == 1: loss = loss * torch.tensor(float("inf"))
    scaled = scaler.scale(loss)
    scaled.backward()
    factor = scaler.get_scale()
    before = norm_of(model.parameters()) / factor
    if step == 3:
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    scaler.step(opt); scaler.update()
    if step != 1: rows.append([loss.item(), before])
told["scaler"] = rows

# -- 3 a NaN is consumed
model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(2, 8)).sum() * float("nan")
loss.backward(); opt.step()

# -- 4 two optimizers in one loop
g, d = net(4, 8), net(8, 1)
og, od = torch.optim.Adam(g.parameters(), 1e-3), torch.optim.Adam(d.parameters(), 1e-3)
rows = []
for _ in range(3):
    loss = d(torch.randn(4, 8)).mean() - d(g(torch.randn(4, 4)).detach()).mean()
    od.zero_grad(); loss.backward(); od.step()
    other = -d(g(torch.randn(4, 4))).mean()
    og.zero_grad(); other.backward(); og.step()
    rows += [loss.item(), other.item()]
told["gan"] = rows

# -- 5 LBFGS
model = net(); opt = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
x, y = torch.randn(6, 8), torch.randn(6, 4)
rows = []
for _ in range(2):
    seen = []
    def closure():
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        seen.append(loss.item())
        return loss
    opt.step(closure)
    rows.append(seen[0])
told["lbfgs"] = rows

# -- 6 an optimizer for each parameter, stepped in the backward pass
model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(8)])
opts = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}
def now(p):
    opts[p].step(); opts[p].zero_grad()
for p in model.parameters(): p.register_post_accumulate_grad_hook(now)
for _ in range(2): model(torch.randn(2, 4)).sum().backward()
del opts, model

# -- 7 bfloat16, in evaluation mode, labels by hand with a mark of their own
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(10, 8), nn.Linear(8, 5)
    def forward(self, tokens):
        return self.head(self.emb(tokens))
model = Tagger().to(torch.bfloat16).eval()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
ids = torch.randint(10, (3, 7)); labels = torch.randint(1, 5, (3, 7)); labels[:, :3] = 0
for again in range(2):
    with torch.no_grad(): model(ids)
    loss = F.cross_entropy(model(ids).flatten(0, 1).float(), labels.flatten(), ignore_index=0)
    opt.zero_grad(); loss.backward(); opt.step()

# -- 8 batches: equal, equal, other; a forward that raises; gradients by hand
class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Tagger()
    def forward(self, input_ids, labels=None, attention_mask=None):
        if input_ids.shape[0] == 9: raise ValueError("nine rows")
        out = self.inner(input_ids)
        return F.cross_entropy(out[:, :-1].flatten(0, 1), labels[:, 1:].flatten() % 5)
class TinyForCausalLM(Causal): pass
model = TinyForCausalLM(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
marked = labels.clone(); marked[:, :3] = -100
mask = torch.ones_like(ids); mask[:, 6] = 0
for batch in (ids, ids, ids.flip(0)):
    try: model(ids[:1].repeat(9, 1))
    except ValueError: pass
    opt.zero_grad()
    model(input_ids=batch, labels=marked, attention_mask=mask).backward()
    opt.step()
grads = torch.autograd.grad(model(input_ids=ids, labels=marked), list(model.parameters()))
for p, grad in zip(model.parameters(), grads): p.grad = grad
opt.step()

# -- saves
from safetensors.torch import save_file
named = {"token.weight": torch.arange(6.0).reshape(2, 3), "half": torch.ones(3, dtype=torch.bfloat16)}
torch.save({"model": named, "step": 3}, "state.pt")
save_file(named, "state.safetensors")
torch.save(model, "whole.pt")
try: torch.save(named, "no/such/folder/state.pt")
except Exception as error: told["failed"] = type(error).__name__
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, bench_in: Callable[[Path], Any]) -> Any:
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    return bench_in(tmp_path_factory.mktemp("steps")).run(SCRIPT).healthy()


def of(done: Any, segment: int) -> list[dict[str, Any]]:
    return [step for step in done.data("step") if step["segment"] == segment]


def number(value: Any) -> float:
    return float(value)


def close(a: Any, b: float) -> bool:
    return math.isclose(number(a), b, rel_tol=2e-5)


def test_the_norm_is_that_before_clipping_by_value_or_by_another_norm(done: Any) -> None:
    steps = of(done, 1)
    assert [s["loss_raw"] for s in steps] == [row[0] for row in done.told["clips"]]
    assert all(close(s["grad_norm"], row[1]) for s, row in zip(steps, done.told["clips"]))
    assert {tuple(s["lr"]) for s in steps} == {(0.1, 0.2)}


def test_a_scaler_is_taken_out_and_its_skips_are_counted(done: Any) -> None:
    steps = of(done, 2)
    assert [s["loss_raw"] for s in steps] == pytest.approx([r[0] for r in done.told["scaler"]])
    assert all(close(s["grad_norm"], row[1]) for s, row in zip(steps, done.told["scaler"]))
    assert [s.get("skipped_before", 0) for s in steps] == [0, 1, 0]
    assert done.end()["skipped"] == 1


def test_a_consumed_nan_is_seen(done: Any) -> None:
    (step,) = of(done, 3)
    assert (step["loss_raw"], step["grad_norm"]) == ("nan", "nan")


def test_two_optimizers_of_one_loop_share_rounds(done: Any) -> None:
    steps = of(done, 4)
    assert [s["loss_raw"] for s in steps] == done.told["gan"]
    first = steps[0]["step"]
    assert [s["step"] - first for s in steps] == [0, 0, 1, 1, 2, 2]
    assert [s["optimizer"] for s in steps] == [0, 1] * 3


def test_lbfgs_reports_the_first_evaluation_of_each_step(done: Any) -> None:
    steps = of(done, 5)
    assert [s["loss_raw"] for s in steps] == done.told["lbfgs"]
    assert all(s["grad_norm"] > 0 for s in steps)


def test_an_optimizer_for_each_parameter_writes_eight_events_a_round(done: Any) -> None:
    steps = of(done, 6)
    rounds = sorted({s["step"] for s in steps})
    assert len(rounds) == 2
    assert [sum(s["step"] == r for s in steps) for r in rounds] == [8, 8]


def test_a_model_in_evaluation_mode_is_counted_when_it_is_trained(done: Any) -> None:
    steps = of(done, 7)
    assert [(s["tokens"], s["supervised_tokens"]) for s in steps] == [(21, 12)] * 2
    described = [m for m in done.data("model") if m["name"] == "Tagger"]
    assert described[0]["dtypes"] == {"bfloat16": described[0]["parameters"]}
    assert described[0]["training"] is False


def test_labels_of_causal_models_are_shifted_and_batches_are_named_by_content(done: Any) -> None:
    steps = of(done, 8)
    assert [(s["tokens"], s["supervised_tokens"]) for s in steps[:3]] == [(18, 12)] * 3
    assert steps[3]["loss_raw"] is None
    assert steps[3]["grad_norm"] > 0
    batches = [b for b in done.data("data.batch") if "labels" in b["shapes"]]
    assert batches[0]["shapes"]["input_ids"] == [3, 7]
    assert batches[0]["digest"] == batches[1]["digest"] != batches[2]["digest"]


def test_saves_carry_the_digests_of_what_the_file_holds(done: Any) -> None:
    import hashlib

    torch = pytest.importorskip("torch")
    first, second, whole, failed = done.data("save")
    state = torch.load(first["path"], weights_only=True)
    expected = {
        name: hashlib.sha256(
            bytes(tensor.contiguous().flatten().view(torch.uint8).numpy())
        ).hexdigest()
        for name, tensor in state["model"].items()
    }
    assert second["digests"] == expected
    assert first["digests"] == {f"model.{name}": digest for name, digest in expected.items()}
    assert (first["kind"], second["kind"]) == ("torch.save", "safetensors")
    assert first["bytes"] == 6 * 4 + 3 * 2
    assert whole["tensors"] == 3
    assert done.told["failed"] in failed["error"]
    assert failed["path"].endswith("no/such/folder/state.pt")


def test_segments_are_closed_in_order_and_steps_never_reset(done: Any) -> None:
    steps = done.data("step")
    rounds = [s["step"] for s in steps]
    assert rounds == sorted(rounds)
    assert sorted({s["segment"] for s in steps}) == list(range(1, 9))
    ends = [e for e in done.data("train.end") if e["scope"] == "segment"]
    assert [e["segment"] for e in ends] == list(range(1, 8))
    for end in ends:
        mine = {s["step"] for s in steps if s["segment"] == end["segment"]}
        assert end["steps_done"] == len(mine)
    assert done.end()["steps_done"] == rounds[-1]
