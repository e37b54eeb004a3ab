"""Loading by a checkpoint's own format: what is proven, and each fault of a reload."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="Hugging Face folders need transformers")
pytestmark = pytest.mark.torch

import torch  # noqa: E402

from seatrial.child import generate, stored_tensors  # noqa: E402
from seatrial.heldout.base_model import adapter_folder, weight_files  # noqa: E402
from seatrial.heldout.reload import (  # noqa: E402
    changed_while_answering,
    reload_findings,
    reload_open_points,
)


def begin(path: Path, kind: str = "hf", **more: Any) -> tuple[Any, dict[str, Any]]:
    request = {
        "path": str(path), "kind": kind, "weights": list(weight_files(str(path))), "loader": None,
        "base": None, "tokenizers": [str(path)], "max_new_tokens": 6, "seed": 0, "device": "cpu",
        **more,
    }  # fmt: skip
    loaded, ready = generate.begin(request)
    return loaded, json.loads(json.dumps(ready))


def told(ready: dict[str, Any]) -> tuple[list[str], list[str]]:
    found = [finding.code for finding in reload_findings(ready, "/m")]
    return found, [entry.reason for entry in reload_open_points(ready)]


def edit(folder: Path, change: Any) -> None:
    """Rewrite the tensors of a folder's one safetensors file."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    """A healthy folder of one's own."""
    return Path(shutil.copytree(llama, tmp_path / "model"))


def test_a_healthy_folder_is_proven_tensor_by_tensor(llama: Path) -> None:
    _, ready = begin(llama)
    assert told(ready) == ([], [])
    proof = ready["proof"]
    assert proof["tensors_in_files"] == proof["equal"] == 21
    assert proof["different"] == []


def test_tied_weights_are_no_fault(tmp_path: Path, new_llama: Any) -> None:
    new_llama(tmp_path, tie_word_embeddings=True)
    _, ready = begin(tmp_path)
    assert told(ready) == ([], [])
    assert ready["proof"]["equal"] == 20


def test_shards_are_proven_and_a_missing_one_is_not_loaded(tmp_path: Path, new_llama: Any) -> None:
    model = new_llama(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    model.save_pretrained(tmp_path, max_shard_size="8KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 1
    _, ready = begin(tmp_path)
    assert told(ready) == ([], [])
    assert ready["proof"]["equal"] == 21
    shards[1].unlink()
    with pytest.raises(OSError, match=shards[1].name):
        begin(tmp_path)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_compared_in_its_own_bytes(
    tmp_path: Path, new_llama: Any, dtype: str
) -> None:
    import torch

    model = new_llama(tmp_path).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path)
    loaded, ready = begin(tmp_path)
    assert told(ready) == ([], [])
    assert (ready["proof"]["equal"], ready["proof"]["cast"]) == (21, 0)
    assert loaded.model.dtype == getattr(torch, dtype)


def test_a_tensor_in_another_precision_than_the_rest_is_no_fault(copy: Path) -> None:
    import torch

    edit(copy, lambda t: t.update({"model.norm.weight": t["model.norm.weight"].to(torch.float64)}))
    _, ready = begin(copy)
    assert told(ready) == ([], [])
    assert (ready["proof"]["equal"], ready["proof"]["cast"]) == (21, 1)


def test_a_weight_that_is_not_in_the_file_was_made_up(copy: Path) -> None:
    edit(copy, lambda tensors: tensors.pop("lm_head.weight"))
    _, ready = begin(copy)
    found, _ = told(ready)
    assert found == ["checkpoint.reload_incomplete"]
    assert ready["missing"] == ["lm_head.weight"]


def test_a_wrapper_that_was_saved_is_told_by_its_names(copy: Path) -> None:
    def wrap(tensors: dict[str, Any]) -> None:
        for name in list(tensors):
            tensors["_orig_mod." + name] = tensors.pop(name)

    edit(copy, wrap)
    _, ready = begin(copy)
    assert "checkpoint.reload_incomplete" in told(ready)[0]
    assert "checkpoint.reload_unused" in told(ready)[0]


def test_weights_that_differ_in_memory_are_told(llama: Path) -> None:
    loaded, _ = begin(llama)
    loaded.model.model.norm.weight.data += 1
    proof = loaded.proof()
    assert proof["different"] == ["model.norm.weight"]
    ready = {"proof": proof}
    assert told(ready)[0] == ["checkpoint.reload_differs"]


def test_greedy_decoding_is_what_the_weights_say_whatever_was_saved_beside_them(
    copy: Path,
) -> None:
    import torch

    told_beside = {
        "do_sample": True, "temperature": 5.0, "top_k": 2, "repetition_penalty": 9.0,
        "no_repeat_ngram_size": 1, "num_beams": 4, "min_new_tokens": 6, "max_length": 3,
        "suppress_tokens": [5], "eos_token_id": 2,
    }  # fmt: skip
    (copy / "generation_config.json").write_text(json.dumps(told_beside))
    loaded, _ = begin(copy)
    case = {"id": "a", "messages": [{"role": "user", "content": "1 2"}]}
    answers = [loaded.answer(case, None) for _ in range(2)]
    ids = loaded.tokenizer("user : 1 2 assistant :", return_tensors="pt", add_special_tokens=False)
    row = ids["input_ids"]
    new: list[int] = []
    with torch.no_grad():
        while len(new) < 6 and (not new or new[-1] != 2):
            new.append(int(loaded.model(row).logits[0, -1].argmax()))
            row = torch.cat([row, torch.tensor([[new[-1]]])], dim=1)
    wanted = loaded.tokenizer.decode(new, skip_special_tokens=True)
    assert [answer["raw"] for answer in answers] == [wanted, wanted]
    assert answers[0]["new_tokens"] == len(new)
    assert answers[0]["prompt_tokens"] == row.shape[1] - len(new)


def test_the_end_token_stops_an_answer_and_the_length_says_so(llama: Path) -> None:
    loaded, _ = begin(llama)
    loaded.model.generation_config.eos_token_id = loaded.tokenizer.eos_token = None
    case = {"id": "a", "prompt": "1 2 3"}
    first = loaded.answer(case, None)
    assert (first["stopped"], first["new_tokens"]) == ("length", 6)
    import torch

    ids = loaded.tokenizer("1 2 3", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        following = int(loaded.model(ids).logits[0, -1].argmax())
    loaded.tokenizer.eos_token = loaded.tokenizer.convert_ids_to_tokens(following)
    second = loaded.answer(case, None)
    assert (second["stopped"], second["new_tokens"]) == ("eos", 1)


def test_a_prompt_longer_than_the_model_takes_is_a_failed_case(llama: Path) -> None:
    loaded, _ = begin(llama)
    value = generate.answer_to(loaded, {"case": {"id": "a", "prompt": "1 " * 70}})
    assert "70 tokens" in value["error"]
    assert "64" in value["error"]
    assert "error" in generate.answer_to(loaded, {"case": {"id": "b", "prompt": "\ud800"}})


def test_a_case_is_asked_by_contract_else_template_else_as_it_is(llama: Path) -> None:
    loaded, _ = begin(llama)
    talk = {"id": "a", "messages": [{"role": "user", "content": "1"}]}
    assert loaded.look(talk, None) == {"prompt": "user : 1 assistant :", "own_prompt": None}
    asked = loaded.look(talk, "mine")
    assert asked == {"prompt": "mine", "own_prompt": "user : 1 assistant :"}
    assert loaded.look({"id": "b", "prompt": "1"}, None)["prompt"] == "1"
    loaded.tokenizer.chat_template = None
    assert "prompt file" in generate.answer_to(loaded, {"look": talk})["error"]


def test_a_folder_without_a_tokenizer_is_said_to_have_none(copy: Path, llama: Path) -> None:
    for file in copy.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(ValueError, match="no tokenizer"):
        begin(copy)
    _, ready = begin(copy, tokenizers=[str(copy), str(llama)])
    assert told(ready) == ([], [])


def adapter(base: Path, folder: Path) -> None:
    peft = pytest.importorskip("peft")
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base, local_files_only=True)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    wrapped = peft.get_peft_model(model, config)
    torch.manual_seed(1)
    for name, value in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value)
    wrapped.save_pretrained(folder)


def test_an_adapter_is_proven_and_changes_what_is_answered(llama: Path, tmp_path: Path) -> None:
    adapter(llama, tmp_path)
    more = {"base": str(llama), "tokenizers": [str(tmp_path), str(llama)]}
    loaded, ready = begin(tmp_path, "peft", **more)
    assert told(ready) == ([], [])
    assert ready["proof"]["equal"] == 8
    plain, _ = begin(llama)
    case = {"id": "a", "prompt": "1 2 3"}
    assert loaded.answer(case, None)["raw"] != plain.answer(case, None)["raw"]
    with pytest.raises(ValueError, match="base model is not known"):
        begin(tmp_path, "peft", **{**more, "base": None})


def test_an_adapter_that_lacks_a_matrix_is_incomplete(llama: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    adapter(llama, tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    tensors = load_file(file)
    lost = next(name for name in tensors if "lora_B" in name)
    kept = tensors.pop(lost)
    save_file(tensors, file, metadata={"format": "pt"})
    more = {"base": str(llama), "tokenizers": [str(llama)]}
    _, ready = begin(tmp_path, "peft", **more)
    assert told(ready)[0] == ["checkpoint.reload_incomplete"]
    assert ready["missing"] == [lost]
    save_file(
        {**tensors, lost: kept, "strange.weight": kept.clone()}, file, metadata={"format": "pt"}
    )
    _, ready = begin(tmp_path, "peft", **more)
    assert told(ready)[0] == ["checkpoint.reload_unused"]


LOADERS = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 1)
    def answer(self, text):
        return "x"

def renamed(path):
    model = Model()
    state = torch.load(path, weights_only=True)["model"]
    model.load_state_dict({"inner." + name: value for name, value in state.items()})
    return model

class Opaque:
    def answer(self, text):
        return "x"

def opaque(path):
    return Opaque()
"""


def test_a_loader_may_rename_and_an_opaque_model_is_not_proven(tmp_path: Path) -> None:
    import torch

    (tmp_path / "load.py").write_text(LOADERS)
    model = torch.nn.Linear(2, 1)
    steps = {"step": 7, "exp_avg": torch.ones(3)}
    torch.save({"model": model.state_dict(), "optimizer": steps}, tmp_path / "all.pt")
    file = str(tmp_path / "load.py")
    _, ready = begin(tmp_path / "all.pt", "pt", loader=[file, "renamed"])
    assert told(ready) == ([], [])
    assert ready["proof"]["equal"] == 2
    _, ready = begin(tmp_path / "all.pt", "pt", loader=[file, "opaque"])
    found, reasons = told(ready)
    assert found == []
    assert "no tensor of the files was found" in reasons[0]


def test_a_file_of_more_than_tensors_is_not_unpickled(tmp_path: Path) -> None:
    import torch

    (tmp_path / "load.py").write_text(LOADERS)
    torch.save({"model": torch.nn.Linear(2, 1)}, tmp_path / "whole.pt")
    _, ready = begin(tmp_path / "whole.pt", "pt", loader=[str(tmp_path / "load.py"), "opaque"])
    found, reasons = told(ready)
    assert found == []
    assert "could not be read" in reasons[0]


def test_a_loader_of_the_users_own_may_change_tensors() -> None:
    ready = {"ready": True, "proof": {"compared": 2, "equal": 1, "different": ["w"]}}
    (strict,) = reload_findings(ready, "/m")
    (own,) = reload_findings(ready, "/m", own_loader=True)
    assert (strict.severity, own.severity) == ("error", "warning")


def test_the_average_beside_the_model_is_a_tensor_of_the_file(tmp_path: Path) -> None:
    model, average = {"w": torch.zeros(3)}, {"w": torch.ones(3)}
    torch.save({"model": model, "ema": average}, tmp_path / "both.pt")
    stored = dict(stored_tensors.pickled_tensors(str(tmp_path / "both.pt")))
    assert stored_tensors.compare(average, stored)["different"] == []
    assert stored_tensors.compare({"w": torch.full((3,), 2.0)}, stored)["different"] == ["w"]


def test_a_named_adapter_is_found_below_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert adapter_folder(str(tmp_path)) == str(tmp_path)
    (tmp_path / "mine" / "adapter_config.json").write_text("{}")
    assert adapter_folder(str(tmp_path)) == str(tmp_path / "mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "adapter_config.json").write_text("{}")
    assert adapter_folder(str(tmp_path)) == str(tmp_path)  # which one is not known


def test_weights_that_change_while_answering_are_told() -> None:
    def codes(after: object, **rest: bool) -> list[tuple[str, str]]:
        given = {"own_loader": False, **rest}
        found = changed_while_answering("a", after, "/m", **given)
        return [(one.code, one.severity) for one in found]

    assert codes("a") == []
    assert codes("b") == [("checkpoint.changed_while_answering", "error")]
    assert codes("b", own_loader=True) == [("checkpoint.changed_while_answering", "warning")]
    layer = torch.nn.BatchNorm1d(2)
    before = stored_tensors.state_digest(layer.state_dict())
    layer.num_batches_tracked += 1  # a counter is no weight
    assert stored_tensors.state_digest(layer.state_dict()) == before
    with torch.no_grad():
        layer.weight.fill_(7.0)
    assert stored_tensors.state_digest(layer.state_dict()) != before
