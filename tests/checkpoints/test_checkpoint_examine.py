"""One checkpoint on disk: each fault is planted in a sound one, which stays silent itself."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seatrial.checkpoints.examine import Examined, Surroundings, examine
from seatrial.checkpoints.find import find_checkpoints
from seatrial.checkpoints.memory_match import saves_by_path
from seatrial.checkpoints.torch_files import TorchFile
from seatrial.checkpoints.weight_faults import changing
from seatrial.core.observation.values import SaveView

from .conftest import LLAMA, floats, llama, packed, safetensors

Tensors = dict[str, tuple[str, list[int], bytes]]


def around(saves: list[SaveView] | None = None, **rest: Any) -> Surroundings:
    saves = saves or []
    moved, still = changing(saves)
    values: dict[str, Any] = {
        "saves": saves_by_path(saves), "moved": moved, "still": still, "models": (), "cwd": "/",
        "rated": lambda _step: False, "cut_short": False, "torch_files": {}, "stop": lambda: False,
    }  # fmt: skip
    return Surroundings(**{**values, **rest})


def looked_at(folder: Path, saves: list[SaveView] | None = None, **rest: Any) -> Examined:
    (checkpoint,) = find_checkpoints([], [str(folder)]).checkpoints.values()
    return examine(checkpoint, around(saves, **rest))


def told(answer: Examined) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in answer.findings]


def saved(path: Path, tensors: Tensors, step: int = 10, rank: int = 0, **rest: Any) -> SaveView:
    digests = {name: hashlib.sha256(data).hexdigest() for name, (_, _, data) in tensors.items()}
    return SaveView(rank, step, str(path), "safetensors", len(tensors), digests=digests, **rest)


def with_value(shape: list[int], value: float) -> tuple[str, list[int], bytes]:
    values = [0.5] * math.prod(shape)
    values[-1] = value
    return "F32", shape, packed("F32", values)


def test_a_sound_checkpoint_is_silent(hf_folder: Path) -> None:
    answer = looked_at(hf_folder, [saved(hf_folder / "model.safetensors", llama())])
    assert (answer.findings, answer.not_judged, answer.fault) == ([], [], "")
    assert answer.finite is True and answer.compared == len(llama())
    whole = (hf_folder / "model.safetensors").read_bytes()
    assert answer.sha256 == {"model.safetensors": hashlib.sha256(whole).hexdigest()}


# -- the weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_weight_that_is_not_finite_is_an_error_with_name_and_index(
    hf_folder: Path, value: float
) -> None:
    tensors = {**llama(), "lm_head.weight": with_value([11, 4], value)}
    (hf_folder / "model.safetensors").write_bytes(safetensors(tensors))
    answer = looked_at(hf_folder)
    assert told(answer) == [("checkpoint.not_finite", "error")]
    assert answer.finite is False
    assert "lm_head.weight[10, 3]" in answer.findings[0].message
    assert answer.findings[0].place.parameter == "lm_head.weight"


def test_infinities_that_are_meant_are_left_alone(hf_folder: Path) -> None:
    path = hf_folder / "model.safetensors"
    for name in ("attn.mask", "causal_buffer", "best_so_far"):
        shape = [1] if name == "best_so_far" else [3, 3]
        path.write_bytes(safetensors({**llama(), name: with_value(shape, -math.inf)}))
        assert told(looked_at(hf_folder)) == [], name
    buffer = {**llama(), "offsets": with_value([3], math.inf)}
    path.write_bytes(safetensors(buffer))
    assert told(looked_at(hf_folder)) == [("checkpoint.not_finite", "warning")]
    twice = [saved(path, buffer, 5), saved(path, buffer, 10)]
    assert told(looked_at(hf_folder, twice)) == []  # the same at both saves: a constant
    other = {**buffer, "offsets": with_value([3], 1.0)}
    trained = [saved(path, other, 5), saved(path, buffer, 10)]
    assert told(looked_at(hf_folder, trained)) == [("checkpoint.not_finite", "error")]


def test_broken_and_empty_files_are_errors(hf_folder: Path) -> None:
    path = hf_folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    answer = looked_at(hf_folder)
    assert told(answer) == [("checkpoint.broken_file", "error")]
    assert answer.finite is None and not answer.looked
    assert told(looked_at(hf_folder, cut_short=True)) == [("checkpoint.broken_file", "warning")]
    finished = [saved(path, llama())]
    assert told(looked_at(hf_folder, finished, cut_short=True)) == [
        ("checkpoint.broken_file", "error")
    ]
    path.write_bytes(b"")
    assert told(looked_at(hf_folder)) == [("checkpoint.empty_file", "error")]


def test_an_unknown_dtype_is_not_judged(hf_folder: Path) -> None:
    tensors = {**llama(), "extra": ("F12", [4], b"\xff" * 6)}
    (hf_folder / "model.safetensors").write_bytes(safetensors(tensors))
    answer = looked_at(hf_folder)
    assert told(answer) == [] and answer.finite is None
    assert [entry.code for entry in answer.not_judged] == ["checkpoint.dtype"]


def test_what_was_not_read_is_not_judged(hf_folder: Path) -> None:
    answer = looked_at(hf_folder, stop=lambda: True)
    assert told(answer) == [] and answer.finite is None and not answer.sha256
    assert [entry.code for entry in answer.not_judged] == ["checkpoint.time"]


# -- memory at the save --------------------------------------------------------------------------


def test_a_tensor_that_differs_from_memory_is_an_error(hf_folder: Path) -> None:
    path = hf_folder / "model.safetensors"
    memory = {**llama(), "lm_head.weight": floats([11, 4], 0.75)}
    answer = looked_at(hf_folder, [saved(path, memory)])
    assert told(answer) == [("checkpoint.memory_differs", "error")]
    assert answer.findings[0].place.parameter == "lm_head.weight"
    zero = {**llama(), "lm_head.weight": floats([11, 4], 0.0)}
    path.write_bytes(safetensors(zero))
    answer = looked_at(hf_folder, [saved(path, llama())])
    assert "all zero" in answer.findings[0].message
    more = {**llama(), "extra.weight": floats([3], 2.0)}
    answer = looked_at(hf_folder, [saved(path, more)])
    assert "2 of 11 tensors differ" in answer.findings[0].message


def test_a_later_save_and_tied_weights_are_no_difference(hf_folder: Path) -> None:
    path = hf_folder / "model.safetensors"
    old = {name: floats(shape, 0.1) for name, (_, shape, _) in llama().items()}
    assert told(looked_at(hf_folder, [saved(path, old, 5), saved(path, llama())])) == []
    tied = {**llama(), "tied.weight": llama()["lm_head.weight"]}
    assert told(looked_at(hf_folder, [saved(path, tied)])) == []
    unknown = saved(path, llama())
    unknown = SaveView(**{**vars(unknown), "digests": dict.fromkeys(unknown.digests, "None")})
    answer = looked_at(hf_folder, [unknown])
    assert told(answer) == [] and answer.compared == 0
    assert [entry.code for entry in answer.not_judged] == ["checkpoint.memory"]


def test_a_copy_of_another_save_is_a_note(hf_folder: Path) -> None:
    path = hf_folder / "model.safetensors"
    old = {name: floats(shape, 0.1) for name, (_, shape, _) in llama().items()}
    elsewhere = saved(Path("/other/model.safetensors"), llama(), 20)
    answer = looked_at(hf_folder, [elsewhere, saved(path, old)])
    assert told(answer) == [("checkpoint.replaced", "note")]


def test_ranks_that_overwrite_each_other_are_an_error(hf_folder: Path) -> None:
    path = hf_folder / "model.safetensors"
    other = {name: floats(shape, 0.1) for name, (_, shape, _) in llama().items()}
    both = [saved(path, other, rank=0), saved(path, llama(), rank=1)]
    assert told(looked_at(hf_folder, both)) == [("checkpoint.two_writers", "error")]
    same = [saved(path, llama(), rank=0), saved(path, llama(), rank=1)]
    assert told(looked_at(hf_folder, same)) == []


# -- shapes, sizes, index ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({"vocab_size": 12}, "embed_tokens"),
        ({"hidden_size": 5}, "shape"),
        ({"intermediate_size": 7}, "gate_proj"),
        ({"num_hidden_layers": 3}, "layer 2 is missing"),
        ({"num_hidden_layers": 1}, "also has layer 1"),
    ],
)
def test_shapes_that_do_not_fit_are_an_error(
    hf_folder: Path, config: dict[str, int], word: str
) -> None:
    (hf_folder / "config.json").write_text(json.dumps({**LLAMA, **config}))
    answer = looked_at(hf_folder)
    assert told(answer) == [("checkpoint.shape", "error")]
    assert word in answer.findings[0].message


def test_padding_ties_and_packing_are_no_shape_faults(hf_folder: Path) -> None:
    path, config = hf_folder / "model.safetensors", hf_folder / "config.json"
    path.write_bytes(safetensors(llama(vocab=16)))
    assert told(looked_at(hf_folder)) == []
    tied = llama()
    del tied["lm_head.weight"]
    path.write_bytes(safetensors(tied))
    assert "lm_head" in looked_at(hf_folder).findings[0].message  # config.json says: not tied
    config.write_text(json.dumps({**LLAMA, "tie_word_embeddings": True}))
    assert told(looked_at(hf_folder)) == []
    packed_weights = {**llama(), "model.layers.0.mlp.gate_proj.weight": floats([12], 1, "U8")}
    path.write_bytes(safetensors(packed_weights))
    config.write_text(json.dumps({**LLAMA, "quantization_config": {"bits": 4}}))
    assert told(looked_at(hf_folder)) == []


def test_an_unknown_architecture_is_not_judged(hf_folder: Path) -> None:
    config = {**LLAMA, "model_type": "new", "vocab_size": 99}
    (hf_folder / "config.json").write_text(json.dumps(config))
    answer = looked_at(hf_folder)
    assert told(answer) == []
    assert [entry.code for entry in answer.not_judged] == ["checkpoint.shapes"]
    (hf_folder / "config.json").write_text("{")
    assert told(looked_at(hf_folder)) == [("checkpoint.broken_config", "error")]


def test_a_gpt2_is_compared_too(hf_folder: Path) -> None:
    tensors = {
        "transformer.wte.weight": floats([9, 4]),
        "transformer.h.0.ln_1.weight": floats([4]),
        "transformer.h.1.ln_1.weight": floats([4]),
    }
    (hf_folder / "model.safetensors").write_bytes(safetensors(tensors))
    config = {"model_type": "gpt2", "vocab_size": 9, "n_embd": 4, "n_layer": 2}
    (hf_folder / "config.json").write_text(json.dumps(config))
    assert told(looked_at(hf_folder)) == []
    for wrong in ({"n_embd": 5}, {"n_layer": 3}, {"vocab_size": 10}):
        (hf_folder / "config.json").write_text(json.dumps({**config, **wrong}))
        assert told(looked_at(hf_folder)) == [("checkpoint.shape", "error")]


def test_sizes_against_the_model_in_memory(hf_folder: Path) -> None:
    elements = sum(math.prod(shape) for _, shape, _ in llama().values())
    for total, code in (
        (elements, None),
        (int(elements * 0.75), None),
        (elements * 3, "checkpoint.too_small"),
        (elements // 3, "checkpoint.too_large"),
    ):
        answer = looked_at(hf_folder, models=({"parameters": total, "trainable": total},))
        assert told(answer) == ([(code, "warning")] if code else [])
    two = ({"parameters": elements * 9}, {"parameters": elements})
    assert told(looked_at(hf_folder, models=two)) == []
    hollow = {name: floats([0]) for name in llama()}
    (hf_folder / "model.safetensors").write_bytes(safetensors(hollow))
    assert ("checkpoint.empty_tensors", "error") in told(looked_at(hf_folder))


@pytest.fixture
def sharded(hf_folder: Path) -> Path:
    tensors = llama()
    names = list(tensors)
    (hf_folder / "model.safetensors").unlink()
    weight_map = {}
    for number, part in enumerate((names[:5], names[5:]), start=1):
        file = f"model-0000{number}-of-00002.safetensors"
        (hf_folder / file).write_bytes(safetensors({name: tensors[name] for name in part}))
        weight_map.update(dict.fromkeys(part, file))
    (hf_folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return hf_folder


def test_a_sharded_checkpoint_and_its_index(sharded: Path) -> None:
    answer = looked_at(sharded)
    assert told(answer) == [] and len(answer.sha256) == 2
    (sharded / "model-00003-of-00003.safetensors").write_bytes(safetensors({"x": floats([1])}))
    assert told(looked_at(sharded)) == [("checkpoint.unnamed_shard", "warning")]
    (sharded / "model-00003-of-00003.safetensors").unlink()
    index = sharded / "model.safetensors.index.json"
    table = json.loads(index.read_text())
    table["weight_map"]["ghost.weight"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(table))
    assert told(looked_at(sharded)) == [("checkpoint.missing_tensor", "error")]
    (sharded / "model-00001-of-00002.safetensors").unlink()
    assert ("checkpoint.missing_shard", "error") in told(looked_at(sharded))
    for text in ("{", '{"weight_map": {"a": "../../etc/passwd"}}', '{"weight_map": [1]}'):
        index.write_text(text)
        assert ("checkpoint.broken_index", "error") in told(looked_at(sharded))


def test_incomplete_folders_and_folders_without_weights(hf_folder: Path) -> None:
    (hf_folder / "checkpoint-is-incomplete.txt").write_text("")
    answer = looked_at(hf_folder)
    assert told(answer) == [("checkpoint.incomplete", "warning")] and answer.fault
    (hf_folder / "checkpoint-is-incomplete.txt").unlink()
    (hf_folder / "model.safetensors").unlink()
    answer = looked_at(hf_folder)
    assert told(answer) == [("checkpoint.no_weights", "warning")] and answer.fault


# -- adapters ------------------------------------------------------------------------------------


@pytest.fixture
def adapter(tmp_path: Path) -> Callable[..., Path]:
    def make(b: float = 0.1, config: dict[str, Any] | None = None, name: str = "") -> Path:
        folder = tmp_path / "checkpoint-8"
        inner = folder / name
        inner.mkdir(parents=True, exist_ok=True)
        base = "base_model.model.model.layers.0.self_attn.q_proj"
        tensors = {
            f"{base}.lora_A.weight": floats([2, 4]),
            f"{base}.lora_B.weight": floats([4, 2], b),
        }
        (inner / "adapter_model.safetensors").write_bytes(safetensors(tensors))
        given = {"peft_type": "LORA", "base_model_name_or_path": str(tmp_path), "revision": None}
        (inner / "adapter_config.json").write_text(json.dumps({**given, **(config or {})}))
        return folder

    return make


def test_an_adapter_that_learnt_is_silent(adapter: Callable[..., Path]) -> None:
    assert told(looked_at(adapter(), rated=lambda step: step >= 1)) == []
    assert (
        told(
            looked_at(adapter(config={"init_lora_weights": "pissa"}), rated=lambda step: step >= 1)
        )
        == []
    )


def test_an_adapter_whose_b_is_zero_is_an_error_after_a_step(adapter: Callable[..., Path]) -> None:
    folder = adapter(b=0.0)
    assert told(looked_at(folder, rated=lambda step: step >= 1)) == [("adapter.untrained", "error")]
    assert (
        told(looked_at(folder, rated=lambda step: False)) == []
    )  # no rate above zero was ever in force
    assert told(looked_at(folder, rated=lambda step: step >= 9)) == []  # it was saved before
    assert (
        told(looked_at(adapter(b=0.0, config={"peft_type": "IA3"}), rated=lambda step: step >= 1))
        == []
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"base_model_name_or_path": None}, ("adapter.no_base", "note")),
        ({"base_model_name_or_path": "/no/such/model"}, ("adapter.base_missing", "error")),
        ({"base_model_name_or_path": "org/model"}, ("adapter.revision_open", "warning")),
        ({"base_model_name_or_path": "org/model", "revision": "a" * 40}, None),
    ],
)
def test_the_base_of_an_adapter(
    adapter: Callable[..., Path], config: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    assert told(looked_at(adapter(config=config), rated=lambda step: step >= 1)) == (
        [expected] if expected else []
    )


def test_a_named_adapter_is_noted(adapter: Callable[..., Path]) -> None:
    assert told(looked_at(adapter(name="mine"), rated=lambda step: step >= 1)) == [
        ("adapter.named", "note")
    ]


def test_an_adapter_that_holds_the_base_is_a_warning(adapter: Callable[..., Path]) -> None:
    small = ({"parameters": 16, "trainable": 4},)
    assert told(looked_at(adapter(), rated=lambda step: step >= 1, models=small)) == [
        ("checkpoint.too_large", "warning")
    ]
    large = ({"parameters": 1000, "trainable": 16},)
    assert told(looked_at(adapter(), rated=lambda step: step >= 1, models=large)) == []


# -- files that this process does not open -------------------------------------------------------


def test_files_of_torch_save_are_what_the_child_says(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(b"not looked into")
    (checkpoint,) = find_checkpoints([], [], [str(path)]).checkpoints.values()
    unread = examine(checkpoint, around())
    assert told(unread) == [] and unread.finite is None and len(unread.sha256) == 1
    assert [entry.code for entry in unread.not_judged] == ["checkpoint.torch_file"]
    refused = {str(path): TorchFile(str(path), refused="Unsupported global")}
    assert [e.code for e in examine(checkpoint, around(torch_files=refused)).not_judged] == [
        "checkpoint.torch_file"
    ]
    broken = {str(path): TorchFile(str(path), broken="no zip")}
    seen = around([SaveView(0, 3, str(path), "torch.save", 2)], torch_files=broken)
    assert told(examine(checkpoint, seen)) == [("checkpoint.broken_file", "error")]
    # A file of that ending that nobody saw being saved may be data.
    unseen = examine(checkpoint, around(torch_files=broken))
    assert told(unseen) == []
    assert [entry.code for entry in unseen.not_judged] == ["checkpoint.torch_file"]


def test_a_distributed_checkpoint_is_hashed_and_not_judged(tmp_path: Path) -> None:
    folder = tmp_path / "step"
    folder.mkdir()
    (folder / ".metadata").write_bytes(b"m")
    (folder / "__0_0.distcp").write_bytes(b"d")
    answer = looked_at(folder)
    assert told(answer) == [] and answer.finite is None and list(answer.sha256) == ["__0_0.distcp"]
    assert [entry.code for entry in answer.not_judged] == ["checkpoint.dcp"]


def test_a_link_out_is_not_judged(hf_folder: Path, tmp_path: Path) -> None:
    os.remove(hf_folder / "config.json")
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "vocab_size": 99}))
    (hf_folder / "config.json").symlink_to(tmp_path / "config.json")
    answer = looked_at(hf_folder)
    assert told(answer) == []  # what lies behind the link was not read
    assert [entry.code for entry in answer.not_judged] == ["checkpoint.link"]
