"""Load a checkpoint in a fresh process, prove what was loaded, answer cases greedily.

Run as a file by the interpreter that trained; one JSON line a question, one JSON line an answer.

1. What to load: ``path``, ``kind``, ``weights`` (names), ``loader`` (file and function, or null),
   ``base``, ``tokenizers`` (folders), ``max_new_tokens``, ``seed``, ``device``. The answer is
   ``{"ready": true, ...proof}`` or ``{"error": text}``.
2. ``{"look": case, "prompt": text or null}``: how the case would be asked, without asking it:
   ``{"prompt": text, "own_prompt": text or null}`` or ``{"error": text}``.
3. ``{"case": object, "prompt": text or null}``: ``{"raw": text, "stopped", "seconds",
   "prompt_tokens", "new_tokens"}`` or ``{"error": text}``.

Every question carries ``limit_s``, after which its asker kills this process.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

_MAX_NAMES = 20
_SMALL = 20_000_000
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")


def beside(name: str) -> Any:
    """A module of this folder: the folder itself is no package where this file runs."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_seatrial_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from seatrial.child import answering, stored_tensors
    from seatrial.child.stored_tensors import Stored
else:
    answering, stored_tensors = beside("answering"), beside("stored_tensors")


def torch_or_none() -> Any:
    """torch, or None where it is not installed: a loader may need none."""
    try:
        import torch
    except ImportError:
        return None
    return torch


class Loaded:
    """A model that answers, and the tensors behind it by the names of the file."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.request = request
        self.model: Any = None
        self.tokenizer: Any = None
        self.missing: List[str] = []
        self.unexpected: List[str] = []
        self.kind = request["kind"]
        self.stored: Dict[str, Stored] = {}

    def load(self) -> None:
        """By the user's loader, or by the format of the folder.

        Raises:
            Exception: whatever the libraries raise.
        """
        self._seed(0)
        if self.request.get("loader"):
            self._by_loader()
        elif self.kind in ("peft", "hf"):
            (self._peft if self.kind == "peft" else self._hf)(self.request["path"])
            self.model.to(self.request.get("device") or "cpu")
        else:
            raise ValueError(f"a checkpoint of kind {self.kind!r} needs a loader in [heldout]")
        self._quiet()
        self._settle_threads()

    def _settle_threads(self) -> None:
        """One thread for a small model, which gains nothing by more.

        On a busy machine its threads wait for each other: ten times as long, measured on two cores
        with half a million weights.
        """
        torch, module = torch_or_none(), self._module()
        if torch is not None and isinstance(module, torch.nn.Module):
            held = list(module.parameters())
            on_cpu = all(one.device.type == "cpu" for one in held)
            if on_cpu and sum(one.numel() for one in held) < _SMALL:
                torch.set_num_threads(1)

    def _seed(self, more: int) -> None:
        torch = torch_or_none()
        seed = int(self.request.get("seed") or 0) + more
        random.seed(seed)
        if torch is not None:
            torch.manual_seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed % 2**32)

    def _quiet(self) -> None:
        """No dropout and no batch statistics in what answers."""
        for one in (self.model, self._module()):
            if callable(getattr(one, "eval", None)):
                one.eval()

    def _module(self) -> Any:
        """What has tensors: the model itself, or what it calls its model."""
        inner = getattr(self.model, "model", None)
        return self.model if hasattr(self.model, "state_dict") else inner

    def _by_loader(self) -> None:
        path, name = self.request["loader"]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        spec = importlib.util.spec_from_file_location("_seatrial_loader", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules["_seatrial_loader"] = module
        spec.loader.exec_module(module)
        load = getattr(module, name)
        self.model = load(self.request["path"])
        answers = callable(getattr(self.model, "answer", None))
        if not answers and not callable(getattr(self.model, "generate", None)):
            kind = type(self.model).__name__
            raise TypeError(f"{name}() returned {kind}, which has neither answer() nor generate()")
        if not answers:
            self._find_tokenizer()
        with contextlib.suppress(Exception):  # the proof says what is wrong with the files
            self._read_stored()
        foreign = self._foreign()
        if foreign:
            # Weights that no file holds: from elsewhere, or made up? Those differ the next time.
            self.model = None
            self._seed(1)
            self.model = load(self.request["path"])
            again = self._foreign()
            self.missing = sorted(n for n, digest in foreign.items() if again.get(n) != digest)

    def _foreign(self) -> Dict[str, Optional[str]]:
        """Parameters whose bytes are in none of the files, with their hash."""
        module = self._module()
        if not self.stored or not hasattr(module, "named_parameters"):
            return {}
        known = {one.digest for one in self.stored.values()}
        found = {
            name: stored_tensors.tensor_digest(value) for name, value in module.named_parameters()
        }
        return {
            name: digest
            for name, digest in found.items()
            if name not in self.stored and digest not in known
        }

    def _hf(self, path: str) -> None:
        import transformers

        # The name of the argument changed with release 5.
        name = "dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype"
        self.model, info = transformers.AutoModelForCausalLM.from_pretrained(
            path, local_files_only=True, output_loading_info=True, **{name: "auto"}
        )
        self.missing = sorted(map(str, info.get("missing_keys") or ()))
        self.missing += sorted(str(item) for item in info.get("mismatched_keys") or ())
        self.unexpected = sorted(map(str, info.get("unexpected_keys") or ()))
        self._find_tokenizer()

    def _peft(self, path: str) -> None:
        from peft import PeftModel

        base = self.request.get("base")
        if not base:
            raise ValueError("the adapter's base model is not known: name it as an input of role"
                             " model")  # fmt: skip
        self._hf(base)
        self.model = PeftModel.from_pretrained(self.model, path, local_files_only=True)
        self._read_stored()
        adapter = self._adapter()
        self.missing += sorted(set(adapter) - set(self.stored))
        self.unexpected += sorted(set(self.stored) - set(adapter) - set(self.model.state_dict()))

    def _adapter(self) -> Dict[str, Any]:
        """The adapter's tensors by the names of its file."""
        from peft import get_peft_model_state_dict

        found: Dict[str, Any] = get_peft_model_state_dict(self.model, save_embedding_layers=False)
        return found

    def _find_tokenizer(self) -> None:
        from transformers import AutoTokenizer

        self.tokenizer = getattr(self.model, "tokenizer", None)
        fault: Optional[BaseException] = None
        for place in self.request.get("tokenizers") or ():
            if self.tokenizer is not None:
                return
            try:
                self.tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
            except Exception as error:  # noqa: BLE001 - the next place may have one
                fault = fault or error
        if self.tokenizer is None:
            raise ValueError(f"no tokenizer was found beside the checkpoint ({fault})")

    def _read_stored(self) -> None:
        path = self.request["path"]
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        for name in self.request.get("weights") or ():
            file = os.path.join(folder, name)
            if name.endswith(".safetensors"):
                self.stored.update(stored_tensors.saved_tensors(file))
            elif name.endswith(_PICKLED):
                self.stored.update(stored_tensors.pickled_tensors(file))

    def proof(self) -> Dict[str, Any]:
        """What is in memory, against what is in the files; ``error`` when it cannot be told."""
        try:
            if not self.stored:
                self._read_stored()
            module = self._module()
            tensors = dict(module.state_dict()) if hasattr(module, "state_dict") else {}
            if self.kind == "peft" and not self.request.get("loader"):
                tensors.update(self._adapter())
            return stored_tensors.compare(tensors, self.stored)
        except Exception as error:  # noqa: BLE001 - a file of the user's may be anything
            return {"compared": 0, "equal": 0, "error": answering.told(error)}

    def state(self) -> Optional[str]:
        """One hash over the weights in memory; None for a model without any."""
        module = self._module()
        if not hasattr(module, "state_dict"):
            return None
        return stored_tensors.state_digest(dict(module.state_dict()))

    def prompt_of(self, case: Dict[str, Any], prompt: Optional[str]) -> Tuple[str, bool]:
        """The text that the model is given, and whether special tokens are in it already.

        Raises:
            ValueError: the case cannot be asked.
        """
        if prompt is not None:
            return prompt, True
        own = self.rendered(case)
        if own is not None:
            return own, True
        if isinstance(case.get("prompt"), str):
            return str(case["prompt"]), False
        raise ValueError(
            "it has messages, and no chat template turns them into text: name a prompt file in "
            "[heldout]"
        )

    def rendered(self, case: Dict[str, Any]) -> Optional[str]:
        """The case by the tokenizer's own chat template; None without one or without messages."""
        if not case.get("messages") or not getattr(self.tokenizer, "chat_template", None):
            return None
        text = self.tokenizer.apply_chat_template(
            case["messages"], add_generation_prompt=True, tokenize=False
        )
        return str(text)

    def look(self, case: Dict[str, Any], prompt: Optional[str]) -> Dict[str, Any]:
        """How a case would be asked, and what the chat template would have made of it."""
        own: Optional[str] = None
        if prompt is not None:
            with contextlib.suppress(Exception):  # the prompt file counts; this one is a remark
                own = self.rendered(case)
        return {"prompt": self.prompt_of(case, prompt)[0], "own_prompt": own}

    def answer(self, case: Dict[str, Any], prompt: Optional[str]) -> Dict[str, Any]:
        """One case, greedily."""
        torch = torch_or_none()
        text, whole = self.prompt_of(case, prompt)
        self._seed(0)  # an answer() that draws numbers gives each case the same ones
        with contextlib.nullcontext() if torch is None else torch.no_grad():
            if not callable(getattr(self.model, "answer", None)):
                return self._generate(text, whole)
            began = time.perf_counter()
            raw = self.model.answer(text)
        if not isinstance(raw, str):
            raise TypeError(f"answer() returned {type(raw).__name__}, not a text")
        return {"raw": raw, "stopped": "", "seconds": time.perf_counter() - began,
                "prompt_tokens": None, "new_tokens": None}  # fmt: skip

    def _generate(self, text: str, whole: bool) -> Dict[str, Any]:
        import torch
        from transformers import GenerationConfig

        # A rendered prompt has its special tokens in it already.
        inputs = self.tokenizer(text, return_tensors="pt", add_special_tokens=not whole)
        ids = inputs["input_ids"].to(next(self.model.parameters()).device)
        longest = getattr(getattr(self.model, "config", None), "max_position_embeddings", None)
        if isinstance(longest, int) and ids.shape[1] >= longest:
            raise ValueError(f"the prompt has {ids.shape[1]} tokens, the model takes {longest}")
        ends = self._ends()
        # Made anew, and put in the model's place: sampling or a penalty that was saved beside the
        # weights is not greedy decoding, and what is left open is taken from the model's own.
        config = GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=int(self.request["max_new_tokens"]),
            eos_token_id=ends or None,
            pad_token_id=self._pad(ends),
        )
        inner = self.model
        while inner is not None:  # PEFT wraps a model that has one, too
            if hasattr(inner, "generation_config"):
                inner.generation_config = config
            inner = getattr(inner, "base_model", None) if hasattr(inner, "peft_config") else None
        began = time.perf_counter()
        output = self.model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config
        )
        seconds = time.perf_counter() - began
        new = output[0, ids.shape[1] :].tolist()
        return {
            "raw": self.tokenizer.decode(new, skip_special_tokens=True),
            "stopped": "eos" if new and new[-1] in ends else "length",
            "seconds": seconds,
            "prompt_tokens": int(ids.shape[1]),
            "new_tokens": len(new),
        }

    def _ends(self) -> List[int]:
        found: List[int] = []
        config = getattr(self.model, "generation_config", None)
        for value in (getattr(config, "eos_token_id", None), self.tokenizer.eos_token_id):
            found += value if isinstance(value, list) else [] if value is None else [value]
        return sorted(set(found))

    def _pad(self, ends: List[int]) -> Optional[int]:
        pad: Optional[int] = self.tokenizer.pad_token_id
        return pad if pad is not None else ends[0] if ends else None


def begin(request: Dict[str, Any]) -> Tuple[Loaded, Dict[str, Any]]:
    """A loaded model and what there is to say of it."""
    began = time.perf_counter()
    loaded = Loaded(request)
    loaded.load()
    proof = loaded.proof()
    return loaded, {
        "ready": True,
        "class": type(loaded.model).__name__,
        "missing": loaded.missing[:_MAX_NAMES],
        "unexpected": loaded.unexpected[:_MAX_NAMES],
        "proof": proof,
        "state": loaded.state(),
        "load_seconds": round(time.perf_counter() - began, 3),
        "pid": os.getpid(),
    }


def answer_to(loaded: Loaded, question: Dict[str, Any]) -> Dict[str, Any]:
    """The answer to one question; whatever the user's code raises is one."""
    try:
        if "state" in question:
            return {"state": loaded.state()}
        if "look" in question:
            return loaded.look(question["look"], question.get("prompt"))
        return loaded.answer(question["case"], question.get("prompt"))
    except BaseException as error:  # noqa: BLE001 - SystemExit in an answer() is a failed case, too
        return {"error": answering.told(error)}


def main() -> int:
    """Answer questions until there are no more."""
    loaded: Optional[Loaded] = None

    def answer(question: Dict[str, Any]) -> Tuple[Dict[str, Any], bool]:
        nonlocal loaded
        if loaded is not None:
            return answer_to(loaded, question), True
        try:
            loaded, value = begin(question)
        except BaseException as error:  # noqa: BLE001 - sys.exit in a loader is an answer, too
            return {"error": answering.told(error)}, False
        return value, True

    answering.answer_all(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
