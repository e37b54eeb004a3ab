"""Where the probe attaches, where it stays silent, and that it leaves no trace in the script's things."""

# ruff: noqa: E501 - lines of the scripts that are run
from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest


def test_a_plain_interpreter_says_that_it_is_here_and_no_more(bench: Any) -> None:
    done = bench.command(
        [sys.executable, "-c", "import sys; print(*sorted(sys.modules))"]
    ).healthy()
    (entry,) = done.attached()
    assert (entry["role"], entry["torch"], entry["python"]) == (
        "interpreter", None, ".".join(map(str, sys.version_info[:3])),
    )  # fmt: skip
    assert done.events() == []
    costly = {"json", "re", "dataclasses", "logging", "subprocess", "ctypes", "hashlib"}
    assert not costly & set(done.out.split())
    assert "seatrial.probe.install" in done.out.split()


@pytest.mark.parametrize("flag", ["-S", "-I", "-E"])
def test_an_interpreter_that_looks_at_no_path_is_left_alone(bench: Any, flag: str) -> None:
    done = bench.command(
        [sys.executable, flag, "-c", "import sys; print('seatrial' in sys.modules)"]
    )
    assert (done.code, done.out, done.err) == (0, "False\n", "")
    assert done.attached() == []


def test_the_users_own_sitecustomize_runs(bench: Any) -> None:
    folder = bench.folder / "theirs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("print('theirs', __name__, __file__)\nMARK = 7\n")
    code = "import sitecustomize; print(sitecustomize.MARK)"
    done = bench.command([sys.executable, "-c", code], env={"PYTHONPATH": str(folder)}).healthy()
    assert done.out == f"theirs sitecustomize {folder / 'sitecustomize.py'}\n7\n"
    assert len(done.attached()) == 1


def test_a_sitecustomize_that_raises_does_so_as_without_us(bench: Any) -> None:
    folder = bench.folder / "theirs"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("raise ValueError('their own fault')\n")
    command, env = [sys.executable, "-c", "print('goes on')"], {"PYTHONPATH": str(folder)}
    probed = bench.command(command, env=env)
    bare = bench.command(command, probe=False, env=env)
    assert (probed.code, probed.out) == (bare.code, bare.out) == (0, "goes on\n")
    assert probed.err == bare.err
    assert len(probed.attached()) == 1


def test_a_record_that_is_gone_is_no_fault_of_the_run(bench: Any) -> None:
    env = bench.environment(bench.folder / "r", {})
    shutil.rmtree(bench.folder / "r")
    done = bench.command(
        [sys.executable, "-c", "print('fine')"],
        probe=False,
        env={k: v for k, v in env.items() if k.startswith("SEATRIAL") or k == "PYTHONPATH"},
    )
    assert (done.code, done.out, done.err) == (0, "fine\n", "")
    assert not (bench.folder / "r").exists()


TRACES = """
import copy, importlib, inspect, io, json, os, pickle, shutil, sys, multiprocessing, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
told = {}

class Rows(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        with torch.enable_grad():
            helper = nn.Linear(2, 2)  # a worker that runs a model of its own
            helper(torch.ones(1, 2)).sum().backward()
            torch.save({"i": torch.tensor(i)}, io.BytesIO())
        return torch.full((4,), float(i))

def child(queue):
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad(); model(torch.ones(2, 4)).sum().backward(); opt.step()
    queue.put(os.getpid())

def train(model, loader):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        opt.zero_grad(); model(batch).sum().backward(); opt.step()
    return opt

if __name__ == "__main__":
    kind = sys.argv[1]
    if kind == "child":
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start(); told["child"] = queue.get(); process.join()
        context = multiprocessing.get_context("fork")
        process = context.Process(target=child, args=(queue,))
        process.start(); told["fork"] = queue.get(); process.join()
        told["codes"] = process.exitcode
        os.environ["RANK"] = "1"
        child(queue)
        print(json.dumps(told)); sys.exit()
    os.chdir("/"); os.environ["SEATRIAL_RECORD"] = "/nowhere"; os.environ["SEATRIAL_MAX_STEPS"] = "1"
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    for context in ("fork", "spawn"):
        opt = train(model, DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context=context))
    twin = copy.deepcopy(model); copy.deepcopy(opt)
    functions = [torch.save, torch.autograd.backward, nn.utils.clip_grad_norm_, nn.functional.cross_entropy,
                 torch.nn.utils.clip_grad_value_, torch.compile, torch.optim.Optimizer.__init__,
                 torch.amp.GradScaler.step, torch.amp.GradScaler.scale, nn.Module.compile]
    told["signatures"] = [str(inspect.signature(f)) for f in functions]
    told["names"] = [f"{f.__module__}.{f.__qualname__}" for f in functions]
    told["pickled"] = [pickle.loads(pickle.dumps(f)) is f for f in functions]
    told["scripted"] = torch.jit.trace(model, torch.ones(2, 4)).code.count("ne(")
    folder = sys.argv[2]
    torch.save(model, folder + "/whole.pt"); torch.save(opt, folder + "/opt.pt")
    torch.save(model.state_dict(), folder + "/state.pt")
    import functools, gc
    told["hooks"] = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()]
    told["weights"] = [p.sum().item().hex() for p in model.parameters() if torch.manual_seed(0)]
    importlib.reload(sys.modules["torch.optim.sgd"]); importlib.reload(sys.modules["torch.nn.utils.clip_grad"])
    torch.nn.utils.clip_grad.clip_grad_norm_(model.parameters(), 1.0)
    print(json.dumps(told))
"""


@pytest.mark.torch
def test_nothing_of_ours_travels_into_what_the_script_makes(bench: Any) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    folders = {}
    for probe in (False, True):
        folder = folders[probe] = bench.folder / f"out{probe}"
        folder.mkdir()
    script = bench.write(TRACES)
    with ThreadPoolExecutor(2) as pool:
        bare, done = pool.map(
            lambda probe: bench.command([sys.executable, script, "traces", folders[probe]], probe),
            (False, True),
        )
    done.healthy()
    assert bare.code == 0, bare.err
    for key in ("signatures", "names", "scripted", "hooks"):
        assert done.told[key] == bare.told[key], key
    assert done.told["pickled"] == bare.told["pickled"]
    assert done.err == bare.err
    assert len(done.data("step")) == 8  # the cap that the script invented is not obeyed
    assert sorted(p.name for p in (done.record / "run").glob("events*")) == ["events.rank0.jsonl"]
    ranks = [entry for entry in done.attached() if entry["role"] == "rank"]
    assert len(ranks) == 1
    for name in ("whole.pt", "opt.pt", "state.pt"):
        assert b"seatrial" not in (folders[True] / name).read_bytes()
    load = (
        "import sys, torch; m = torch.load(sys.argv[1], weights_only=False); print(m(torch.ones(1, 4)))"
        "; print([n for n in sys.modules if 'seatrial' in n])"
    )
    fresh = bench.command([sys.executable, "-c", load, folders[True] / "whole.pt"], probe=False)
    assert fresh.code == 0, fresh.err
    assert fresh.out.endswith("[]\n")


@pytest.mark.torch
def test_children_that_train_are_seen_each_under_its_own_process(bench: Any) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = bench.command([sys.executable, bench.write(TRACES), "child"])
    done.healthy()
    pids = {event["pid"] for event in done.events("step")}
    assert pids == {done.told["child"], done.told["fork"]}
    for pid in pids:
        mine = [event for event in done.events() if event["pid"] == pid]
        assert [e["data"]["step"] for e in mine if e["event"] == "step"] == [1, 2, 3]
        assert mine[-1]["event"] == "train.end"
        assert mine[0]["event"] == "env"
    assert len(done.data("step", rank=1)) == 3
    by_pid = {entry["pid"]: entry for entry in done.attached()}
    assert all(by_pid[pid]["role"] == "rank" for pid in pids)


@pytest.mark.torch
def test_a_script_that_only_saves_is_no_rank_and_a_module_is_run_as_such(bench: Any) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    package = bench.folder / "package"
    package.mkdir()
    (package / "__main__.py").write_text(
        "import sys, torch, torch.distributed\n"
        "torch.save({'a': torch.ones(2)}, 'x.pt')\n"
        "print(sys.argv[1:], __name__, __package__)\n"
        "if 'train' in sys.argv:\n"
        "    w = torch.nn.Parameter(torch.ones(2))\n"
        "    opt = torch.optim.SGD([w], lr=0.1)\n"
        "    w.sum().backward(); opt.step()\n"
    )
    quiet = bench.command([sys.executable, "-m", "package", "save"]).healthy()
    assert quiet.events() == []
    assert quiet.attached()[0]["role"] == "interpreter"
    assert quiet.attached()[0]["torch"]
    loud = bench.command([sys.executable, "-m", "package", "train"]).healthy()
    assert loud.out == "['train'] __main__ package\n"
    assert [event["event"] for event in loud.events()] == [
        "env",
        "save",
        "model",
        "step",
        "train.end",
    ]
    (model,) = loud.data("model")
    assert (model["name"], model["parameters"]) == (None, 2)
    assert Path(loud.data("save")[0]["path"]).name == "x.pt"
    assert json.dumps(loud.attached()[0]["argv"]).endswith('__main__.py", "train"]')
