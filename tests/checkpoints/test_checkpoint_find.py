"""Finding: every layout, odd names, links, limits; and what a run saved outside of a folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from seatrial.checkpoints import find as finding
from seatrial.checkpoints.find import find_checkpoints, is_weight_file, step_of
from seatrial.checkpoints.search import search
from seatrial.core.observation.values import SaveView


def touch(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def kinds(tree: Path) -> dict[str, str]:
    found = find_checkpoints([str(tree)])
    return {os.path.relpath(path, tree): item.kind for path, item in found.checkpoints.items()}


def test_every_layout_is_known(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "optimizer.pt", "training_args.bin"):
        touch(tmp_path / "checkpoint-10" / name)
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                 "model.safetensors.index.json"):  # fmt: skip
        touch(tmp_path / "checkpoint-20" / name)
    touch(tmp_path / "checkpoint-30" / "adapter_model.safetensors")
    touch(tmp_path / "checkpoint-30" / "adapter_config.json")
    touch(tmp_path / "checkpoint-40" / "mine" / "adapter_model.safetensors")
    touch(tmp_path / "checkpoint-50" / "pytorch_model_fsdp_0" / "__0_0.distcp")
    touch(tmp_path / "checkpoint-60" / "trainer_state.json")
    touch(tmp_path / "dcp" / ".metadata")
    touch(tmp_path / "dcp" / "__0_0.distcp")
    touch(tmp_path / "old" / "pytorch_model.bin")
    touch(tmp_path / "plain" / "epoch 1 \u00fc.pt")
    touch(tmp_path / "plain" / "optimizer.pt")
    touch(tmp_path / "plain" / "ema.safetensors")
    touch(tmp_path / "text" / "notes.txt")
    assert kinds(tmp_path) == {
        "checkpoint-10": "hf", "checkpoint-20": "hf", "checkpoint-30": "peft",
        "checkpoint-40": "peft", "checkpoint-50": "dcp", "checkpoint-60": "none", "dcp": "dcp",
        "old": "hf", "plain/epoch 1 \u00fc.pt": "pt", "plain/ema.safetensors": "pt",
    }  # fmt: skip
    named = find_checkpoints([str(tmp_path)]).checkpoints[str(tmp_path / "checkpoint-40")]
    assert named.adapter == "mine" and named.home.endswith("checkpoint-40/mine")
    sharded = find_checkpoints([str(tmp_path)]).checkpoints[str(tmp_path / "checkpoint-20")]
    assert len(sharded.weights) == 2 and sharded.index is not None


def test_checkpoints_inside_a_model_folder_are_found(tmp_path: Path) -> None:
    touch(tmp_path / "model.safetensors")
    touch(tmp_path / "checkpoint-5" / "model.safetensors")
    assert kinds(tmp_path) == {".": "hf", "checkpoint-5": "hf"}


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    outside = touch(tmp_path / "outside" / "model.safetensors")
    tree = tmp_path / "tree"
    touch(tree / "checkpoint-1" / "config.json")
    (tree / "checkpoint-1" / "model.safetensors").symlink_to(outside)
    (tree / "away").symlink_to(tmp_path / "outside")
    (tree / "loop").symlink_to(tree)
    found = find_checkpoints([str(tree)]).checkpoints
    assert [(item.kind, item.outside) for item in found.values()] == [
        ("none", ("model.safetensors",))
    ]
    inside = touch(tree / "blobs" / "b")
    (tree / "checkpoint-1" / "model.safetensors").unlink()
    (tree / "checkpoint-1" / "model.safetensors").symlink_to(inside)
    found = find_checkpoints([str(tree)]).checkpoints
    assert [item.kind for item in found.values()] == ["hf"]


def test_depth_and_number_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "a/b/c/d/e/f/model.safetensors")
    deep = find_checkpoints([str(tmp_path)])
    assert not deep.checkpoints and "deeper" in deep.skipped[0][1]
    monkeypatch.setattr(finding, "MAX_ENTRIES", 10)
    for number in range(30):
        touch(tmp_path / f"x{number}.txt")
    assert "entries" in find_checkpoints([str(tmp_path)]).skipped[0][1]


def test_odd_names_and_unreadable_folders_do_no_harm(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/\xff\x1b[31m.pt"
    with open(odd, "wb") as file:
        file.write(b"x")
    os.mkfifo(tmp_path / "pipe.pt")
    found = find_checkpoints([str(tmp_path), str(tmp_path / "missing")])
    assert [os.fsencode(path) for path in found.checkpoints] == [odd]
    assert [path for path, _why in found.skipped] == [str(tmp_path / "missing")]


def test_names() -> None:
    assert step_of("/x/checkpoint-30/") == 30 and step_of("checkpoint-x") is None
    assert step_of("tmp-checkpoint-7") == 7 and step_of("checkpoint-30-old") is None
    beside = ("optimizer.pt", "rng_state_0.pth", "training_args.bin", "scheduler.pt", "notes.txt")
    assert not any(map(is_weight_file, beside))
    assert all(map(is_weight_file, ("model.pt", "a.pth", "b.safetensors", "pytorch_model.bin")))


def test_of_a_plain_save_only_the_file_counts(tmp_path: Path) -> None:
    saved = touch(tmp_path / "mine.pt")
    touch(tmp_path / "somebody-elses.pt")
    save = SaveView(0, 3, str(saved), "torch.save", 2)
    listed = SaveView(0, 3, str(touch(tmp_path / "list.pt")), "torch.save", 0)
    gone = SaveView(0, 3, str(tmp_path / "gone.pt"), "torch.save", 2)
    assert list(search([save, listed, gone], None).checkpoints) == [str(saved)]
    assert len(search([save], str(tmp_path)).checkpoints) == 3


def test_a_trainers_folder_is_searched_as_a_whole(tmp_path: Path) -> None:
    for step in (5, 10):
        touch(tmp_path / f"checkpoint-{step}" / "model.safetensors")
    touch(tmp_path / "checkpoint-10" / "trainer_state.json", json.dumps({}).encode())
    save = SaveView(0, 10, str(tmp_path / "checkpoint-10"), "trainer")
    assert len(search([save], None).checkpoints) == 2
