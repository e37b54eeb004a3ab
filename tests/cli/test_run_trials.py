"""Trials: declared plans, gates of the project's own, a strict environment, required checks."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch

HEAD = """schema = 1
name = "a trial"
hypothesis = "the metric stays low"
seed = 3
[bounds]
max_steps = 40
wall = "90s"
memory = "4GiB"
"""
EMITS = """
import json, os, torch
from seatrial.emit import emit
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(1, 21):
    loss = ((model(torch.randn(8, 4)) - 1) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    emit({"safety/refusal_rate": 0.99 if step < LIMIT else 0.2})
    print(json.dumps({"step": step, "quality": 0.5 if step < LIMIT else 0.1}), flush=True)
    __import__("time").sleep(0.05)
"""


def _trial(place: Any, script: str, rest: str = "", env: str = "") -> Any:
    place.write("train.py", script)
    place.write(
        "trial.toml",
        f'{HEAD}[runner]\ncommand = ["{sys.executable}", "train.py"]\n{env}\n{rest}\n',
    )
    return place.seatrial("run", "--json", "trial.toml")


@pytest.mark.parametrize("metric", ["safety/refusal_rate", "quality"], ids=["emit", "stdout"])
def test_a_gate_on_an_emitted_metric_stops_the_trial(place: Any, metric: str) -> None:
    gate = f'[[gate]]\nmetric = "{metric}"\nop = ">"\nvalue = 0.4\nfrom_step = 5\nwindow = 2\n'
    answer = _trial(place, EMITS.replace("LIMIT", "10"), gate)
    result = answer.result
    assert (answer.code, result["outcome"]) == (1, "gate"), answer.err
    assert answer.codes() == ["gate.project"]
    finding = result["findings"][0]
    assert metric in finding["message"]
    assert finding["place"]["step"] in (10, 11)
    assert result["hypothesis"] == "disproved"


def test_the_healthy_twin_of_both_gates_passes(place: Any) -> None:
    gates = "".join(
        f'[[gate]]\nmetric = "{metric}"\nop = ">"\nvalue = 0.4\nfrom_step = 5\nwindow = 2\n'
        for metric in ("safety/refusal_rate", "quality")
    )
    answer = _trial(place, EMITS.replace("LIMIT", "99"), gates)
    result = answer.result
    assert (answer.code, result["outcome"]) == (0, "completed")
    assert answer.codes() == answer.codes("warning") == []
    assert result["hypothesis"] == "not disproved"


def test_a_required_check_that_this_version_lacks_is_no_pass(place: Any) -> None:
    answer = _trial(place, EMITS.replace("LIMIT", "99"), '[checks]\nrequire = ["heldout"]\n')
    assert (answer.code, answer.result["verdict"]) == (3, "inconclusive")
    assert [item["code"] for item in answer.result["not_judged"] if item["required"]] == ["heldout"]


def test_a_trial_sees_an_allowlist_its_own_variables_and_its_secrets(place: Any) -> None:
    script = (
        "import os\n"
        "assert 'STRAY_VARIABLE' not in os.environ\n"
        "assert os.environ['MINE'] == 'yes'\n"
        "assert os.environ['SERVICE_TOKEN'] == 'tok-12345678'\n"
        "assert os.environ['OMP_NUM_THREADS'] == '1' and os.environ['PYTHONHASHSEED'] == '3'\n"
    ) + EMITS.replace("LIMIT", "99")
    place.write("train.py", script)
    runner = 'env = { MINE = "yes", OMP_NUM_THREADS = "1" }\nsecrets = ["SERVICE_TOKEN"]\n'
    place.write(
        "trial.toml", f'{HEAD}[runner]\ncommand = ["{sys.executable}", "train.py"]\n{runner}'
    )
    answer = place.seatrial(
        "run", "--json", "trial.toml", env={"STRAY_VARIABLE": "1", "SERVICE_TOKEN": "tok-12345678"}
    )
    assert answer.code == 0, answer.err
    for path in place.record().rglob("*"):
        assert not path.is_file() or b"tok-12345678" not in path.read_bytes()


SHORT = """
import torch
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainingArguments, TrainerCallback
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
    def forward(self, x, labels):
        logits = self.layer(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}
class Once(IterableDataset):
    def __init__(self):
        self.rows = iter([{"x": torch.randn(4), "labels": torch.tensor(i % 2)} for i in range(24)])
    def __iter__(self):
        return self.rows
class Early(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if EARLY and state.global_step == 5:
            control.should_training_stop = True
args = TrainingArguments("out", max_steps=20, per_device_train_batch_size=4, use_cpu=True,
                         report_to="none", save_strategy="no")
try:
    Trainer(model=Model(), args=args, train_dataset=Once(), callbacks=[Early()]).train()
except ValueError as error:
    print("never mind:", error)  # the stream ended; the script leaves with 0 all the same
"""


@pytest.mark.hf
@pytest.mark.parametrize(
    ("early", "code", "outcome"), [("False", 1, "stopped_short"), ("True", 0, "completed")]
)
def test_fewer_steps_than_the_trainer_declared(
    place: Any, early: str, code: int, outcome: str
) -> None:
    pytest.importorskip("transformers", reason="a declared plan needs a Trainer")
    answer = place.run_script(SHORT.replace("EARLY", early))
    result = answer.result
    assert (answer.code, result["outcome"]) == (code, outcome), answer.err
    assert result["steps"] == {"planned": 20, "done": 5 if early == "True" else 6}
    assert answer.codes() == ([] if code == 0 else ["run.stopped_short"])


@pytest.mark.slow
def test_a_process_that_will_not_leave_after_its_work_is_a_pass_with_a_warning(place: Any) -> None:
    end = "import threading, time\nthreading.Thread(target=time.sleep, args=(300,)).start()\n"
    answer = place.run_script(place.loop(10, end=end))
    result = answer.result
    assert (answer.code, result["outcome"]) == (0, "hung_after_success")
    assert answer.codes("warning") == ["run.hung_after_success"]
    assert place.left_running() == []


def test_a_gate_on_a_metric_that_never_comes_says_what_was_seen_and_how_to_emit(
    place: Any,
) -> None:
    gate = '[[gate]]\nmetric = "acc"\nop = ">"\nvalue = 0.4\n'
    answer = _trial(place, EMITS.replace("LIMIT", "99"), gate)
    assert answer.code == 3
    (entry,) = [item for item in answer.result["not_judged"] if item["required"]]
    for part in ("acc was never emitted", "quality", "safety/refusal_rate", "emit"):
        assert part in entry["reason"]


def test_the_hypothesis_stands_beside_the_verdict_everywhere(place: Any) -> None:
    answer = _trial(place, EMITS.replace("LIMIT", "99"))
    record = place.record()
    for text in (
        answer.err,
        (record / "summary.md").read_text(encoding="utf-8"),
        (record / "report.html").read_text(encoding="utf-8"),
    ):
        assert "the metric stays low" in text


def test_a_variable_that_a_trial_does_not_pass_on_is_the_environments_fault(place: Any) -> None:
    place.write("train.py", "import os\nos.environ['DATA_DIR']\n" + EMITS.replace("LIMIT", "99"))
    place.write("trial.toml", f'{HEAD}[runner]\ncommand = ["{sys.executable}", "train.py"]\n')
    missed = place.seatrial("run", "--json", "trial.toml", env={"DATA_DIR": "/data"})
    assert (missed.code, missed.result["outcome"]) == (3, "never_started")
    assert missed.codes("warning") == ["environment.variable_left_out"]
    assert "DATA_DIR" in missed.result["findings"][0]["remedy"]
    # A key that nobody has is the script's own fault.
    own = place.seatrial("run", "--json", "trial.toml")
    assert (own.code, own.codes()) == (1, ["run.exception"])
