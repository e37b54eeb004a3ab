"""Commands of every shape, in paths of every shape."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch

LOOP = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    loss = (model(torch.randn(8, 4)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
TWO_RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    loss = (model(torch.randn(8, 4)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
dist.destroy_process_group()
"""


def _passes(answer: Any, steps: int = 6, ranks: int = 1) -> None:
    result = answer.result
    assert answer.code == 0, (result, answer.err)
    assert result["steps"]["done"] == steps
    assert result["probe"]["ranks"] == ranks


@pytest.mark.parametrize(
    "folder", ["with space", "quo'te\"s ünï-日本 a$b;c&d", "new\nline", "-dash"]
)
def test_odd_paths(place: Any, folder: str) -> None:
    place.write(f"{folder}/train it.py", LOOP)
    answer = place.run(sys.executable, f"./{folder}/train it.py", options=(f"--out={folder}/out",))
    _passes(answer)
    assert (place.folder / folder / "out" / "report.html").is_file()


def test_module_shell_script_make_and_dash_c(place: Any) -> None:
    place.write("pkg/__init__.py", "")
    place.write("pkg/train.py", LOOP)
    place.write("go.sh", f"#!/bin/sh\nset -e\n'{sys.executable}' -m pkg.train\n")
    (place.folder / "go.sh").chmod(0o755)
    place.write("Makefile", f"train:\n\t'{sys.executable}' -m pkg.train\n")
    _passes(place.run(sys.executable, "-m", "pkg.train"))
    _passes(place.run("./go.sh"))
    if shutil.which("make"):
        _passes(place.run("make", "train"))


def test_torchrun_attaches_to_every_rank_and_to_no_launcher(place: Any) -> None:
    torchrun = Path(sys.executable).with_name("torchrun")
    if not torchrun.exists():
        pytest.skip("torchrun is not beside this interpreter")
    place.write("train.py", TWO_RANKS)
    answer = place.run(str(torchrun), "--standalone", "--nproc-per-node", "2", "train.py")
    _passes(answer, ranks=2)
    names = sorted(path.name for path in (place.record() / "run").glob("events.rank*"))
    assert names == ["events.rank0.jsonl", "events.rank1.jsonl"]


def test_the_users_own_sitecustomize_still_runs(place: Any) -> None:
    place.write("site/sitecustomize.py", "import builtins\nbuiltins.mine = 'here'\n")
    place.write("train.py", "assert mine == 'here'\n" + LOOP)
    _passes(place.run(sys.executable, "train.py", env={"PYTHONPATH": str(place.folder / "site")}))
