"""The child that reads files of torch.save: the real torch, real files, one process for all."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.torch_files import Asker, TorchFile, read_torch_files
from seatrial.core.child import MEMORY, OUTPUT, TIMEOUT, ChildAnswer, ChildRequest
from seatrial.process.child import run_child

torch = pytest.importorskip("torch", reason="reads files of torch.save")
pytestmark = pytest.mark.torch


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def asker(ask: Any = run_child, seconds: float = 60) -> Asker:
    return Asker(ask, sys.executable, dict(os.environ), 4 * 2**30, lambda: seconds)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, TorchFile]]:
    """A few files, all read by one child."""
    folder = tmp_path_factory.mktemp("torch-files")
    weight = torch.arange(12.0).reshape(3, 4)
    bad = weight.clone()
    bad[1, 2], bad[2, 0] = float("nan"), float("inf")
    torch.save(
        {
            "model": {"w": weight.t(), "half": torch.ones(3, dtype=torch.bfloat16)},
            "list": [torch.zeros(2), 5],
            "step": 7,
        },
        folder / "sound.pt",
    )
    torch.save({"w": bad, "f8": torch.ones(4).to(torch.float8_e5m2)}, folder / "bad.pt")
    torch.save({"w": weight}, folder / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(2, 2), folder / "module.pt")
    torch.save({"w": weight, "x": Evil(str(folder / "trap"))}, folder / "evil.pt")
    whole = (folder / "sound.pt").read_bytes()
    (folder / "cut.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "text.pt").write_text("hello")
    names = ["sound", "bad", "legacy", "module", "evil", "cut", "text"]
    return folder, read_torch_files(asker(), [str(folder / f"{name}.pt") for name in names])


def of(files: tuple[Path, dict[str, TorchFile]], name: str) -> TorchFile:
    return files[1][str(files[0] / f"{name}.pt")]


def test_digests_are_those_of_the_elements_in_order(files: Any) -> None:
    sound = of(files, "sound")
    assert (sound.refused, sound.broken, sound.changed) == ("", "", False)
    assert set(sound.tensors) == {"model.w", "model.half", "list.0"}
    order = torch.arange(12.0).reshape(3, 4).t().contiguous().numpy().tobytes()
    assert sound.tensors["model.w"].sha256 == hashlib.sha256(order).hexdigest()
    assert sound.tensors["model.w"].shape == (4, 3)
    assert sound.tensors["list.0"].zero and not sound.tensors["model.w"].zero
    assert all(tensor.nonfinite == 0 for tensor in sound.tensors.values())
    assert of(files, "legacy").tensors["w"].nonfinite == 0


def test_nan_and_infinity_are_counted(files: Any) -> None:
    bad = of(files, "bad").tensors
    seen = bad["w"]
    assert (seen.nonfinite, seen.infinite, seen.first, seen.word) == (2, 1, 6, "NaN")
    assert seen.index() == (1, 2)
    assert bad["f8"].nonfinite == 0


def test_what_needs_more_than_weights_only_is_refused_and_not_run(files: Any) -> None:
    for name in ("module", "evil"):
        assert of(files, name).refused and not of(files, name).tensors
    assert not (files[0] / "trap").exists()


def test_broken_files_are_broken(files: Any) -> None:
    assert of(files, "cut").broken
    assert of(files, "text").broken or of(files, "text").refused


@pytest.mark.parametrize("reason", [TIMEOUT, MEMORY, OUTPUT])
def test_a_child_that_was_ended_refuses_what_it_did_not_reach(reason: str) -> None:
    asked = []

    def ask(request: ChildRequest) -> ChildAnswer:
        asked.append(request)
        return ChildAnswer(reason, stdout=b'{"path": "/a.pt", "tensors": {}}\n{"path": "/b.p')

    told = read_torch_files(asker(ask), ["/a.pt", "/b.pt"])
    assert told["/a.pt"].refused == "" and told["/b.pt"].refused
    assert asked[0].memory_bytes == 4 * 2**30 and asked[0].timeout_s == 60


def test_without_time_no_child_is_started() -> None:
    def ask(_request: ChildRequest) -> ChildAnswer:
        raise AssertionError("started")

    assert read_torch_files(asker(ask, 0.5), ["/a.pt"])["/a.pt"].refused
    assert read_torch_files(asker(ask), []) == {}


def test_an_answer_that_is_none_is_refused() -> None:
    lines = b'nonsense\n[1]\n{"path": 5}\n{"path": "/other", "tensors": {}}\n\xff\n'
    answer = ChildAnswer("exited", 1, lines, b"boom\n")
    told = read_torch_files(asker(lambda _request: answer), ["/a.pt"])
    assert list(told) == ["/a.pt"] and "boom" in told["/a.pt"].refused
