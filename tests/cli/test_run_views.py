"""The terminal is only a view: it may die, be joined, and stop a run from elsewhere."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from seatrial.schemas import load_schema

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch

SLOW_LOOP = """
import time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range({steps}):
    loss = (model(torch.randn(8, 4)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("step", step, flush=True)
    time.sleep({pause})
"""


def _events(place: Any) -> int:
    path = place.record() / "run" / "events.rank0.jsonl"
    return path.read_text().count('"event":"step"') if path.exists() else 0


def _launch(place: Any, wait_until: Any, steps: int = 400, pause: float = 0.1) -> Any:
    place.write("train.py", SLOW_LOOP.format(steps=steps, pause=pause))
    view = place.start("run", "--json", "--", sys.executable, "train.py")
    runs = place.folder / ".seatrial" / "runs"
    wait_until(lambda: runs.exists() and list(runs.iterdir()))
    wait_until(lambda: _events(place) >= 2)
    return view


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_killing_the_view_changes_nothing_and_another_may_watch(
    place: Any, wait_until: Any
) -> None:
    view = _launch(place, wait_until, steps=40, pause=0.05)
    view.kill()
    status = json.loads(place.seatrial("status", "--json").out)["result"]
    assert status["state"] in ("running", "finalizing", "ended")
    watched = place.seatrial("watch", "--json")
    lines = [json.loads(line) for line in watched.out.splitlines()]
    for line in lines:
        jsonschema.validate(line, load_schema("watch"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**lines[-1], "kind": "output"}, load_schema("watch"))
    result = lines[-1]["result"]
    assert (watched.code, result["outcome"], result["steps"]["done"]) == (0, "completed", 40)
    shown = "".join(line["text"] for line in lines if line["kind"] == "output")
    assert "step 39" in shown


def test_killing_the_supervisor_ends_the_training_and_the_record_says_so(
    place: Any, wait_until: Any
) -> None:
    view = _launch(place, wait_until)
    status = json.loads(place.seatrial("status", "--json").out)["result"]
    os.kill(status["supervisor_pid"], signal.SIGKILL)
    wait_until(lambda: not _alive(status["pid"]), 10)
    out, _ = view.communicate(timeout=30)
    result = json.loads(out)
    assert (view.returncode, result["outcome"], result["verdict"]) == (3, "lost", "inconclusive")
    assert place.left_running() == []


def test_killing_every_keeper_still_leaves_a_true_record(place: Any, wait_until: Any) -> None:
    view = _launch(place, wait_until, steps=100)
    view.kill()
    status = json.loads(place.seatrial("status", "--json").out)["result"]
    for name in ("guard_pid", "supervisor_pid"):
        os.kill(status[name], signal.SIGKILL)
    wait_until(lambda: place.left_running() == [], 60)
    listed = json.loads(place.seatrial("list", "--json").out)["result"]
    assert [(run["state"], run["outcome"]) for run in listed] == [("ended", "lost")]


def test_ctrl_c_asks_for_a_clean_stop(place: Any, wait_until: Any) -> None:
    view = _launch(place, wait_until)
    view.send_signal(signal.SIGINT)
    out, err = view.communicate(timeout=60)
    result = json.loads(out)
    assert (view.returncode, result["exit_code"], result["outcome"]) == (130, 130, "interrupted")
    assert "Traceback" not in err
    assert place.left_running() == []


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["clean", "force"])
def test_stop_from_another_terminal(place: Any, wait_until: Any, force: tuple[str, ...]) -> None:
    view = _launch(place, wait_until)
    assert place.seatrial("stop", *force).code == 0
    out, _ = view.communicate(timeout=60)
    assert json.loads(out)["outcome"] == "interrupted"
    assert place.left_running() == []


def test_the_same_trial_does_not_run_twice_at_once(place: Any, wait_until: Any) -> None:
    place.write("train.py", SLOW_LOOP.format(steps=400, pause=0.1))
    place.write(
        "trial.toml",
        f'schema = 1\nname = "t"\n[bounds]\nmax_steps = 400\nwall = "2m"\n'
        f'[runner]\ncommand = ["{sys.executable}", "train.py"]\n',
    )
    place.start("run", "trial.toml")
    runs = place.folder / ".seatrial" / "runs"
    wait_until(lambda: runs.exists() and list(runs.iterdir()))
    first = place.record().name
    second = place.seatrial("run", "trial.toml")
    assert second.code == 2
    assert first in second.err
    assert [path.name for path in runs.iterdir()] == [first]


def test_clean_removes_ended_runs_and_never_a_live_one(place: Any, wait_until: Any) -> None:
    place.write("quick.py", "print(1)\n")
    place.seatrial("run", "--", sys.executable, "quick.py")
    ended = place.record().name
    place.write("train.py", SLOW_LOOP.format(steps=400, pause=0.1))
    place.start("run", "--", sys.executable, "train.py")
    runs = place.folder / ".seatrial" / "runs"
    wait_until(lambda: len(list(runs.iterdir())) == 2)
    answer = json.loads(place.seatrial("clean", "--all", "--json").out)["result"]
    assert answer["removed"] == [ended]
    assert len(answer["kept_live"]) == 1
    assert place.seatrial("open", "--json", answer["kept_live"][0]).code == 3
