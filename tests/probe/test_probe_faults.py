"""A fault planted in each hook is noted, switched off after three, and changes no number."""

# ruff: noqa: E501 - lines of the scripts that are run
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.torch

SCRIPT = """
import hashlib, json, os, random, torch
from torch import nn
from safetensors.torch import save_file

if os.environ.get("PLANT"):
    def broken(*args, **kwargs): raise OverflowError("planted")
    import importlib
    for plant in os.environ["PLANT"].split(","):
        module, _, name = plant.rpartition(".")
        owner = importlib.import_module(module.partition(":")[0])
        if ":" in module: owner = getattr(owner, module.partition(":")[2])
        assert hasattr(owner, name), plant
        setattr(owner, name, broken)

torch.manual_seed(2)
model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 20))
opt = torch.optim.AdamW(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
losses = []
for step in range(6):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randint(20, (4, 4))), torch.randint(20, (4,)))
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(opt); scaler.update()
    losses.append(loss.item())
    torch.save(model.state_dict(), "state.pt")
digest = hashlib.sha256(b"".join(bytes(p.detach().flatten().view(torch.uint8).numpy())
                                 for p in model.parameters())).hexdigest()
print(json.dumps({"losses": losses, "weights": digest, "luck": torch.rand(1).item().hex()}))
"""

# Groups of hooks that do not hide each other, and where the fault of each is noted.
GROUPS: list[dict[str, str]] = [
    {
        "seatrial.probe.inputs.tokens_of": "forward.end",
        "seatrial.probe.backward._roots": "backward",
        "seatrial.probe.tensors.digests": "save",
        "seatrial.probe.environment.process_group": "env",
        "seatrial.probe.model_summary.summarize": "model",
        "seatrial.probe.stopping:StopControl._due": "stop",
    },
    {
        "seatrial.probe.tensors.total_norm": "clip",
        "seatrial.probe.rounds:Rounds.begins_round": "step.before",
    },
    {
        "seatrial.probe.tally:Tally.loss": "step.values",
        "seatrial.probe.rounds:Rounds.round_is_complete": "step.after",
    },
    {
        "seatrial.probe.optimizer_steps.rss_bytes": "step.end",
        "seatrial.probe.backward:Scales.scale_of_gradients": "clip",
    },
]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, bench_in: Any) -> Any:
    return bench_in(tmp_path_factory.mktemp("bare")).run(SCRIPT, probe=False)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: "+".join(group.values()))
def test_planted_faults_are_noted_and_the_numbers_stay(
    bench: Any, bare: Any, group: dict[str, str]
) -> None:
    done = bench.run(SCRIPT, env={"PLANT": ",".join(group)})
    assert done.code == 0, done.err
    assert done.told == bare.told
    assert done.err == bare.err == ""
    for where in group.values():
        errors = [error for error in done.data("probe.error") if error["where"] == where]
        assert errors, where
        assert all("planted" in error["error"] for error in errors)
        assert [error["count"] for error in errors] == list(range(1, len(errors) + 1))
        assert len(errors) <= 3  # then it is switched off
    assert done.events()[-1]["event"] == "train.end"


def test_a_full_or_vanished_record_ends_the_writing_not_the_run(bench: Any, bare: Any) -> None:
    text = SCRIPT.replace(
        "losses.append(loss.item())",
        "losses.append(loss.item()); import shutil; shutil.rmtree(os.environ['SEATRIAL_RECORD'], True)",
    )
    done = bench.run(text)
    assert done.code == 0, done.err
    assert done.told == bare.told
    assert not Path(done.record).exists()
