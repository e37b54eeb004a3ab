"""State and arguments of a Trainer: read with limits, and never run."""

from __future__ import annotations

import enum
import io
import json
import math
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.checkpoints.open_file import UnreadableError
from seatrial.checkpoints.plain_pickle import Thing, plain_value, read_training_args
from seatrial.checkpoints.trainer_files import newest_state, read_state, read_wish
from seatrial.core.best import Recorded, Wish


class Saves(str, enum.Enum):
    """As transformers has its strategies."""

    STEPS = "steps"


class Arguments:
    """Stands for TrainingArguments: any object with fields."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class Evil:
    """Makes a file when a real unpickler reads it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def written(folder: Path, value: Any, protocol: int = 2) -> str:
    """As torch.save writes: a zip with one pickle."""
    path = folder / "training_args.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("training_args/data.pkl", pickle.dumps(value, protocol))
        archive.writestr("training_args/version", "3\n")
    return str(path)


FIELDS = {
    "metric_for_best_model": "eval_loss", "greater_is_better": False, "save_total_limit": 2,
    "load_best_model_at_end": True, "save_strategy": Saves.STEPS, "learning_rate": 3e-3,
    "names": ["a", "b"], "nested": {"x": (1, 2, 3, 4)}, "big": 2**70, "none": None,
}  # fmt: skip


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_fields_are_read_and_nothing_is_run(tmp_path: Path, protocol: int) -> None:
    trap = str(tmp_path / "trap")
    value = Arguments(**FIELDS, evil=Evil(trap))
    fields = read_training_args(written(tmp_path, value, protocol))
    assert not os.path.exists(trap)
    assert {name: fields[name] for name in FIELDS} == {**FIELDS, "save_strategy": "steps"}
    assert read_wish(str(tmp_path)) == Wish("eval_loss", False, True, 2, "steps")


def test_arguments_that_are_none_say_nothing(tmp_path: Path) -> None:
    assert read_wish(str(tmp_path)) is None
    written(tmp_path, Arguments(metric_for_best_model=None, load_best_model_at_end=False))
    assert read_wish(str(tmp_path)) == Wish(load_best=False)
    for data in (b"", b"PK\x03\x04", b"\x80\x02."):
        (tmp_path / "training_args.bin").write_bytes(data)
        assert read_wish(str(tmp_path)) is None
    written(tmp_path, {"a": 1})
    assert read_wish(str(tmp_path)) is None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200))
def test_no_pickle_raises_anything_else(patch: bytes, at: int) -> None:
    sound = bytearray(pickle.dumps(Arguments(**FIELDS), 4))
    sound[at : at + len(patch)] = patch
    for program in (patch, bytes(sound)):
        try:
            plain_value(program)
        except UnreadableError:  # noqa: PERF203 - two programs
            pass


def test_a_pickle_bomb_stays_small() -> None:
    # Lists of lists of lists by reference: huge when walked, small when kept.
    program = b"(lp0\n" + b"".join(b"(l" + b"h\x00" * 10 + b"a" for _ in range(50)) + b"."
    with pytest.raises(UnreadableError):
        plain_value(program[:-1] + b"\x94" * 300_000)
    assert isinstance(plain_value(pickle.dumps(Evil("/x"), 4)), Thing)


def state(folder: Path, step: int, **fields: Any) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    value = {
        "global_step": step,
        "log_history": [
            {"step": 5, "loss": 1.0},
            {"step": 5, "eval_loss": 0.9, "eval_runtime": 1, "epoch": 1.0},
            {"step": step, "eval_loss": math.nan, "eval_accuracy": 10**400},
        ],
        **fields,
    }
    path = folder / "trainer_state.json"
    path.write_text(json.dumps(value))
    return str(path)


def test_a_state_is_read_with_its_nan(tmp_path: Path) -> None:
    path = state(
        tmp_path, 10, best_metric=math.inf, best_global_step=5, best_model_checkpoint="out/c-5"
    )
    assert "Infinity" in Path(path).read_text() and "NaN" in Path(path).read_text()
    read = read_state(path)
    assert read.recorded == Recorded(math.inf, 5, "out/c-5")
    assert [item.step for item in read.evaluations] == [5, 10]
    assert read.evaluations[0].metrics == {"eval_loss": 0.9, "eval_runtime": 1.0}
    assert math.isnan(read.evaluations[1].metrics["eval_loss"])
    assert "eval_accuracy" not in read.evaluations[1].metrics


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"global_step": true, "log_history": []}', '{"global_step": 1}',
     "[" * 100_000, '{"a":' * 200 + "1" + "}" * 200, "\xff", '{"global_step": ' + "9" * 5000],
)  # fmt: skip
def test_a_state_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "trainer_state.json").write_text(text, encoding="latin-1")
    with pytest.raises(UnreadableError):
        read_state(str(tmp_path / "trainer_state.json"))


def test_the_newest_state_counts_and_broken_ones_are_named(tmp_path: Path) -> None:
    state(tmp_path / "checkpoint-10", 10)
    state(tmp_path / "checkpoint-20", 20)
    state(tmp_path, 20, log_history=[{"step": 20, "eval_loss": 1.0}] * 5)
    (tmp_path / "checkpoint-30").mkdir()
    (tmp_path / "checkpoint-30" / "trainer_state.json").write_text("{")
    folders = [str(tmp_path / name) for name in ("checkpoint-30", "checkpoint-10", "checkpoint-20")]
    found, problems = newest_state([*folders, str(tmp_path)])
    assert found is not None and found.path == str(tmp_path / "trainer_state.json")
    assert [os.path.dirname(path) for path, _why in problems] == [folders[0]]
    assert newest_state([]) == (None, [])


def test_a_linked_state_is_not_followed(tmp_path: Path) -> None:
    real = state(tmp_path / "elsewhere", 99)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "trainer_state.json").symlink_to(real)
    assert newest_state([str(tmp_path / "run")]) == (None, [])


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", bytes(50 * 2**20))
    (tmp_path / "training_args.bin").write_bytes(buffer.getvalue())
    assert len(buffer.getvalue()) < 2**20
    with pytest.raises(UnreadableError):
        read_training_args(str(tmp_path / "training_args.bin"))
