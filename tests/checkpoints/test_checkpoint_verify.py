"""The whole check on small folders written by hand: what a real Trainer cannot be made to do."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.check_report import CheckReport
from seatrial.core.child import ChildAnswer, ChildRequest
from seatrial.core.curve import Curve
from seatrial.core.finding import Finding
from seatrial.core.launch import Started
from seatrial.core.observation import Observation
from seatrial.core.observation.values import (
    EvaluationView,
    ModelView,
    RankView,
    SaveView,
    SegmentView,
)
from seatrial.core.plan import Plan
from seatrial.core.trial import OutputSpec, Trial
from seatrial.core.trial_json import trial_of_plan
from seatrial.workflows.verify import verify_checkpoints

from .conftest import LLAMA, llama, safetensors

START = 1_700_000_000.0
STARTED = Started(1, datetime.fromtimestamp(START, timezone.utc).isoformat(), 0.0)
DIP = {1: 1.0, 2: 0.9, 3: 0.5, 4: 0.7}


def no_child(_request: ChildRequest) -> ChildAnswer:
    raise AssertionError("a child was started")


class Run:
    """A run that saved at every step, as its files and events tell it."""

    def __init__(self, folder: Path, losses: dict[int, float] | None = None) -> None:
        self.out = folder / "out"
        self.losses = DIP if losses is None else losses
        self.saves: list[SaveView] = []
        self.evaluations: list[EvaluationView] = []
        self.log: list[dict[str, Any]] = []
        for step, loss in self.losses.items():
            self.log.append({"step": step, "eval_loss": loss})
            self.evaluations.append(EvaluationView(0, step, 1, {"eval_loss": loss}, "trainer"))
            self.save(step)
        best = min(self.losses, key=lambda step: self.losses[step]) if self.losses else None
        self.best: dict[str, Any] | None = best and {
            "metric": "eval_loss", "value": self.losses[best], "step": best,
            "path": str(self.out / f"checkpoint-{best}"),
        }  # fmt: skip
        self.ended, self.resumes = True, ()
        self.trial: dict[str, Any] = {}

    def save(self, step: int, mtime: float = START + 10) -> Path:
        folder = self.out / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        tensors = {name: (d, s, bytes([step]) * len(raw)) for name, (d, s, raw) in llama().items()}
        path = folder / "model.safetensors"
        path.write_bytes(safetensors(tensors))
        (folder / "config.json").write_text(json.dumps(LLAMA))
        state = {"global_step": step, "log_history": list(self.log)}
        (folder / "trainer_state.json").write_text(json.dumps(state))
        os.utime(path, (mtime, mtime))
        digests = {name: hashlib.sha256(raw).hexdigest() for name, (_, _, raw) in tensors.items()}
        self.saves.append(SaveView(0, step, str(path), "safetensors", 9, digests=digests))
        self.saves.append(SaveView(0, step, str(folder), "trainer"))
        return folder

    def observation(self) -> Observation:
        last = max(self.losses, default=4)
        reason = "completed" if self.ended else None
        return Observation(
            ranks=(RankView(0, (1,), last, self.ended),),
            segments=(SegmentView(0, 1, 1, last, last, 1, last, reason, best=self.best),),
            saves=tuple(self.saves),
            evaluations=tuple(self.evaluations),
            resumes=tuple(self.resumes),
            curves=(Curve("lr", "step", ((1.0, 0.1), (2.0, 0.1)), rank=0),),
            best=self.best,
        )

    def verify(self, **rest: Any) -> tuple[CheckReport, CheckReport]:
        plan = Plan("r", "/r", ("python",), str(self.out.parent), 10, 60, 2**30, True)
        trial: Trial = replace(trial_of_plan(plan), output=OutputSpec(**self.trial))
        given: dict[str, Any] = {
            "observation": self.observation(), "started": STARTED, "ask": no_child,
            "stop": lambda: False, "deadline_s": 60.0,
        }  # fmt: skip
        checked, best = verify_checkpoints(plan, trial, **{**given, **rest})
        return checked, best


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def told(*reports: CheckReport) -> list[tuple[str, str]]:
    return [(item.code, item.severity) for report in reports for item in report.findings]


def only(*reports: CheckReport) -> Finding:
    (found,) = [item for report in reports for item in report.findings]
    return found


def test_a_sound_run_is_silent_and_names_its_best(run: Run) -> None:
    checked, best = run.verify()
    assert told(checked, best) == []
    assert (checked.not_judged, best.not_judged) == ((), ())
    facts = best.facts["best"]
    assert (facts["step"], facts["metric"], facts["value"]) == (3, "eval_loss", 0.5)
    whole = (run.out / "checkpoint-3" / "model.safetensors").read_bytes()
    assert facts["sha256"] == hashlib.sha256(whole).hexdigest()
    assert facts["files"] == {"model.safetensors": facts["sha256"]}
    assert best.facts["recorded"]["step"] == 3
    assert [row["value"] for row in best.facts["table"]] == [1.0, 0.9, 0.5, 0.7]


def test_a_run_without_any_checkpoint_is_not_judged_and_no_finding(tmp_path: Path) -> None:
    checked, best = Run(tmp_path, {}).verify()
    assert told(checked, best) == []
    assert [entry.code for entry in checked.not_judged] == ["checkpoint.none"]
    assert [entry.code for entry in best.not_judged] == ["best_checkpoint.none"]
    assert best.facts["best"] is None


def test_a_wrong_record_is_an_error_of_the_folder(run: Run) -> None:
    assert run.best is not None
    run.best = {**run.best, "path": str(run.out / "checkpoint-4")}
    found = only(*run.verify())
    assert (found.code, found.severity) == ("best_checkpoint.not_best", "error")


def test_a_run_that_was_cut_off_is_judged_by_its_newest_state(run: Run) -> None:
    run.ended, run.best = False, None
    state = run.out / "checkpoint-4" / "trainer_state.json"
    value = {"best_metric": 0.5, "best_global_step": 3, "best_model_checkpoint": "out/checkpoint-3"}
    state.write_text(json.dumps({**json.loads(state.read_text()), **value}))
    assert told(*run.verify()) == []
    run.evaluations.append(EvaluationView(0, 5, 1, {"eval_loss": 0.1}, "trainer"))
    assert told(*run.verify()) == [("best_checkpoint.not_best", "error")]


def test_a_save_that_the_end_interrupted_is_a_warning(run: Run) -> None:
    run.ended, run.best = False, None
    cut = run.out / "checkpoint-5"
    cut.mkdir()
    (cut / "model.safetensors").write_bytes(b"\x10\0\0")
    checked, _best = run.verify()
    assert told(checked) == [("checkpoint.broken_file", "warning")]
    run.ended = True
    assert ("checkpoint.broken_file", "error") in told(run.verify()[0])


def test_what_an_earlier_run_left_is_not_judged_as_ours(run: Run) -> None:
    old = run.save(50, mtime=START - 1000)
    run.saves = run.saves[:-2]
    (old / "model.safetensors").write_bytes(b"broken")
    os.utime(old / "model.safetensors", (START - 1000, START - 1000))
    (old / "trainer_state.json").write_text(json.dumps({"global_step": 50, "log_history": []}))
    checked, best = run.verify()
    assert told(checked, best) == [("checkpoint.stale", "warning")]
    assert best.facts["best"]["step"] == 3
    assert run.best is not None
    run.best = {**run.best, "step": 50, "value": 0.1, "path": str(old)}
    assert ("best_checkpoint.stale", "error") in told(*run.verify())
    run.resumes = ({"segment": 1, "step": 50},)
    assert ("checkpoint.stale", "warning") not in told(*run.verify())


def test_an_old_file_in_the_declared_folder_is_a_note(run: Run) -> None:
    run.trial = {"dir": str(run.out)}
    old = run.out / "pretrained.pt"
    old.write_bytes(b"anything")
    os.utime(old, (START - 1000, START - 1000))
    assert told(*run.verify()) == [("checkpoint.earlier", "note")]


def test_a_failed_save_is_named(run: Run) -> None:
    path = run.out / "checkpoint-4" / "model.safetensors"
    failure = SaveView(0, 4, str(path), "safetensors", 9, error="OSError: No space left on device")
    run.saves.append(failure)
    found = only(*run.verify())
    assert (found.code, found.severity) == ("checkpoint.save_failed", "error")
    gone = SaveView(0, 4, str(run.out / "x.pt"), "torch.save", 9, error="OSError: no")
    run.saves[-1] = gone
    assert told(*run.verify()) == [("checkpoint.save_failed", "warning")]


def test_a_nan_that_the_log_left_out_is_an_error(run: Run) -> None:
    run.evaluations.append(EvaluationView(0, 3, 1, {"eval_loss": float("nan")}, "emit"))
    found = only(*run.verify())
    assert (found.code, found.severity) == ("best_checkpoint.nan_filtered", "error")
    run.evaluations[-1] = EvaluationView(0, 3, 1, {"eval_loss": 0.5}, "emit")
    assert told(*run.verify()) == []


def test_one_fault_of_many_checkpoints_is_one_finding(run: Run) -> None:
    for step in (2, 3, 4):
        path = run.out / f"checkpoint-{step}" / "config.json"
        path.write_text(json.dumps({**LLAMA, "hidden_size": 5}))
    checked, best = run.verify()
    found = only(checked)
    assert found.place.step == 2 and "2 more places" in found.message
    assert told(best) == [("best_checkpoint.unusable", "error")]


def test_no_time_and_a_stop_leave_everything_open(run: Run) -> None:
    for rest in ({"deadline_s": 0.0}, {"stop": lambda: True}):
        checked, best = run.verify(**rest)
        assert "error" not in [severity for _code, severity in told(checked)]
        assert checked.not_judged
        assert best.facts["best"] is None or best.facts["best"]["sha256"] is None


def test_a_single_file_without_an_interpreter_is_not_judged(run: Run) -> None:
    path = run.out / "last.pt"
    path.write_bytes(b"x")
    run.saves.append(SaveView(0, 4, str(path), "torch.save", 2, digests={"w": "0" * 64}))
    checked, best = run.verify()
    assert told(checked, best) == []
    assert [entry.code for entry in checked.not_judged] == ["checkpoint.torch_file"]


def test_of_several_files_the_last_whole_model_is_taken(tmp_path: Path) -> None:
    run = Run(tmp_path, {})
    run.out.mkdir()
    shapes = {"model.safetensors": 1000, "metrics.safetensors": 1}
    for name, size in shapes.items():
        tensors = {"w.weight": ("F32", [size], bytes(4 * size))}
        (run.out / name).write_bytes(safetensors(tensors))
        run.saves.append(SaveView(0, 4, str(run.out / name), "safetensors", 1))
    seen = replace(
        run.observation(),
        models=(ModelView(0, {"parameters": 1000, "trainable": 1000}),),
    )
    _checked, best = run.verify(observation=seen)
    assert best.facts["best"]["path"] == str(run.out)
    assert best.facts["why"] == "last checkpoint; no evaluation decides"


def test_a_test_set_that_is_evaluated_after_a_capped_training_is_no_candidate(run: Run) -> None:
    """A cap ended training between two saves; what is evaluated then is another set."""
    view = EvaluationView(0, 5, 1, {"eval_loss": 0.1}, "trainer", 5)
    run.losses = {**DIP, 5: 0.1}  # one step more was made, and neither evaluated nor saved
    run.evaluations.append(replace(view, in_training=False))
    assert told(*run.verify()) == []
    state = {"global_step": 5, "log_history": [*run.log, {"step": 5, "eval_loss": 0.1}]}
    best = {"best_metric": 0.5, "best_global_step": 3}
    state.update(best, best_model_checkpoint=str(run.out / "checkpoint-3"))
    (run.out / "trainer_state.json").write_text(json.dumps(state))
    assert told(*run.verify()) == []
    # Its twin: the same evaluation in training is one that the record must know.
    run.evaluations[-1] = view
    assert told(*run.verify()) == [("best_checkpoint.not_best", "error")]
