"""Faults around the best checkpoint, made with the real Trainer under `seatrial run`, and caught.

One script makes many trainings, each in a folder of its own, so that torch and transformers are
imported once: seventeen with a fault, seventeen sound ones. What cannot be made on one CPU is not
here: folders on several nodes' disks, FSDP and ZeRO shards, pushes to the Hub.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.best_facts import weights_sha256
from seatrial.core.check_report import CheckReport
from seatrial.core.observation import observe
from seatrial.core.record_layout import RecordLayout
from seatrial.core.trial_json import trial_of_plan
from seatrial.process.child import run_child
from seatrial.readers import record as records
from seatrial.readers.events import read_all_events
from seatrial.workflows.verify import verify_checkpoints

pytest.importorskip("transformers", reason="real trainings need transformers and peft")
pytest.importorskip("peft", reason="real trainings need transformers and peft")
pytestmark = [pytest.mark.torch, pytest.mark.hf]

SCRIPT = Path(__file__).with_name("best_variants.py")

# Folder of the training: codes of the findings that name it, with their severity.
FAULTS: dict[str, set[tuple[str, str]]] = {
    "cadence": {("best_checkpoint.not_best", "error")},
    "unsaved": {("best_checkpoint.not_saved", "error")},
    "all_nan": {("best_checkpoint.all_nan", "error")},
    "direction": {("best_checkpoint.wrong_direction", "error")},
    "rotated": {("best_checkpoint.folder_gone", "error")},
    "moved": {("best_checkpoint.moved", "note")},
    "old_best": {("best_checkpoint.old_best", "error")},
    "stale": {("checkpoint.stale", "warning")},
    "last_weights": {("best_checkpoint.final_is_not_best", "note")},
    "named_best": {("best_checkpoint.named_best", "error")},
    "not_reloaded": {("best_checkpoint.not_reloaded", "error")},
    "broken_best": {
        ("checkpoint.not_finite", "error"),
        ("best_checkpoint.not_finite", "error"),
    },
    "missing_key": {
        ("checkpoint.memory_differs", "error"),
        ("best_checkpoint.unusable", "error"),
    },
    "hollow": {("checkpoint.no_weights", "warning"), ("best_checkpoint.unusable", "error")},
    "incomplete": {("checkpoint.incomplete", "warning"), ("best_checkpoint.unusable", "error")},
    "unlimited": {("best_checkpoint.limit_exceeded", "warning")},
    "frozen_b": {
        ("adapter.untrained", "error"),
        ("adapter.no_base", "note"),
        ("best_checkpoint.unusable", "error"),
    },
}
SOUND = (
    "sound", "no_eval", "no_save", "by_accuracy", "whole_loss", "early", "limit_one", "only_better",
    "aligned", "resumed", "resumed_old_is_best", "tied", "half", "sharded", "lora", "plain",
    "tested_after",
)  # fmt: skip


def verified(record: Path, **rest: Any) -> tuple[CheckReport, CheckReport]:
    """Both reports about the record of a run."""
    layout = RecordLayout(str(record))
    plan = records.read_plan(layout)
    events, _problems = read_all_events(layout)
    given = {"stop": lambda: False, "deadline_s": 60.0, **rest}
    checked, best = verify_checkpoints(
        plan, trial_of_plan(plan), observe(events), records.read_started(layout), run_child, **given
    )
    for report in (checked, best):
        assert CheckReport.from_json(report.to_json()) == report
    return checked, best


def by_training(out: Path, *reports: CheckReport) -> dict[str, set[tuple[str, str]]]:
    """Codes of the findings by the folder of the training that they are about."""
    told: dict[str, set[tuple[str, str]]] = {}
    for report in reports:
        for finding in report.findings:
            place = Path(str(finding.place.file)).relative_to(out).parts[0]
            told.setdefault(place, set()).add((finding.code, finding.severity))
    return told


def test_every_fault_is_caught(place: Any) -> None:
    out = place.folder / "out"
    (out / "stale" / "checkpoint-50").mkdir(parents=True)
    (out / "stale" / "checkpoint-50" / "model.safetensors").write_bytes(b"old")
    for path in (out / "stale" / "checkpoint-50" / "model.safetensors", out / "stale"):
        os.utime(path, (1.0e9, 1.0e9))
    answer = place.run(sys.executable, str(SCRIPT), str(out), *FAULTS)
    assert answer.result["outcome"] == "completed", answer.err
    checked, best = verified(place.record())
    told = by_training(out, checked, best)
    assert told == FAULTS
    cadence = next(f for f in best.findings if f.code == "best_checkpoint.not_best")
    assert "step 2" in cadence.message and "step 3" in cadence.message
    assert (cadence.evidence.observed["step"], cadence.evidence.expected["step"]) == (2, 3)
    broken = next(f for f in checked.findings if f.code == "checkpoint.not_finite")
    assert broken.place.parameter == "model.embed_tokens.weight" and "[15, 3]" in broken.message
    reloaded = next(f for f in best.findings if f.code == "best_checkpoint.not_reloaded")
    assert "step 6" in reloaded.message and "step 3" in reloaded.message


def test_sound_trainings_are_silent(place: Any) -> None:
    out = place.folder / "out"
    answer = place.run(sys.executable, str(SCRIPT), str(out), *SOUND)
    assert answer.result["outcome"] == "completed", answer.err
    checked, best = verified(place.record())
    assert by_training(out, checked, best) == {}
    # A whole module needs more than weights_only=True, so it was not opened; all else was.
    assert [entry.code for entry in checked.not_judged] == ["checkpoint.torch_file"]
    assert "whole-module.pt" in checked.not_judged[0].reason
    assert best.not_judged == ()
    assert checked.facts["compared_tensors"] > 500
    rows = {os.path.relpath(row["path"], out): row for row in best.facts["table"]}
    assert rows["sound/checkpoint-3"]["value"] == 0.5
    assert rows["sound/checkpoint-3"]["finite"] is True
    assert rows["sound/final"]["sha256"] == rows["sound/checkpoint-3"]["sha256"]
    assert rows["plain/step-4.pt"]["step"] and rows["plain/latest.pt"]["finite"] is True
    assert rows["plain/whole-module.pt"]["finite"] is None


TRAINER = str(Path(__file__).parents[2] / "examples" / "trainer" / "train.py")
PLAIN = str(Path(__file__).parents[2] / "examples" / "plain-loop" / "train.py")


def test_the_facts_of_a_best_and_of_a_last_checkpoint(place: Any) -> None:
    place.run(sys.executable, PLAIN, "--steps", "6", "--eval-every", "3", "--out", "out")
    checked, best = verified(place.record())
    assert (checked.findings, checked.not_judged, best.findings, best.not_judged) == ((),) * 4
    facts = best.facts["best"]
    path = place.folder / "out" / "checkpoint-6.pt"
    assert (facts["metric"], facts["value"], facts["step"]) == (None, None, 6)
    assert (facts["path"], facts["kind"]) == (str(path), "pt")
    assert facts["sha256"] == facts["files"]["checkpoint-6.pt"]
    assert best.facts["why"] == "last checkpoint; no evaluation decides"
    assert best.facts["recorded"] is None
    # What is rewritten after the run is not what was in memory.
    import torch

    state = torch.load(path, weights_only=True)
    state["model"]["head.bias"] += 1
    torch.save(state, path)
    checked, _best = verified(place.record())
    assert [f.code for f in checked.findings] == ["checkpoint.memory_differs"]
    assert checked.findings[0].place.parameter == "model.head.bias"
    stopped, best = verified(place.record(), stop=lambda: True)
    assert not stopped.findings and len(stopped.not_judged) >= 1
    assert {entry.code for entry in best.not_judged} >= {"best_checkpoint.none"}
    late, _best = verified(place.record(), deadline_s=0.0)
    assert not late.findings and late.not_judged


def test_one_hash_for_several_files() -> None:
    assert weights_sha256({}) is None
    assert weights_sha256({"a": "1" * 64}) == "1" * 64
    two = weights_sha256({"b": "2" * 64, "a": "1" * 64})
    assert two is not None and two == weights_sha256({"a": "1" * 64, "b": "2" * 64})
