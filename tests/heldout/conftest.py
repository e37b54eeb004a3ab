"""Tiny real models, and an evaluation of them by the workflow itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.check_report import CheckReport
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.redaction import from_environment
from seatrial.core.trial import Bounds, HeldoutGate, HeldoutSpec, InputSpec, RunnerSpec, Trial
from seatrial.workflows.heldout import evaluate_heldout

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "yes", "no", *"0123456789-.:", "user", "assistant"]
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)


def make_tokenizer(folder: Path) -> None:
    """A tokenizer of a few words, with a chat template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        pad_token="<pad>",
    )  # fmt: skip
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)


def make_llama(folder: Path, seed: int = 0, **config: Any) -> Any:
    """A two-layer Llama with random weights, saved with its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    values = {
        "vocab_size": len(WORDS), "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**{**values, **config}))
    model.save_pretrained(folder)
    make_tokenizer(folder)
    return model


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a healthy model; copy it before you change it."""
    pytest.importorskip("transformers", reason="Hugging Face folders need transformers")
    folder = tmp_path_factory.mktemp("llama")
    make_llama(folder)
    return folder


@pytest.fixture(scope="session")
def new_llama() -> Callable[..., Any]:
    """``new_llama(folder, **config)`` saves a model with its tokenizer and returns it."""
    return make_llama


JUDGE = """
import torch

class Answers:
    def __init__(self, model):
        self.model = model
    def answer(self, text):
        a, b = text.split()
        BEFORE
        return "yes" if self.model(torch.tensor([float(a), float(b)])).item() > 0 else "no"

def load(path):
    model = torch.nn.Linear(2, 1)
    model.load_state_dict(torch.load(path, weights_only=True))
    return Answers(model)
"""
VALIDATE = """
def validate(case, text):
    FIRST
    return {"parse": text in ("yes", "no"), "right": text == case["expected"], "length": len(text)}
"""


@dataclass
class Bench:
    """A folder with a plain checkpoint, its loader, a validator and cases; see ``evaluate``."""

    folder: Path
    kind: str = "pt"
    path: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    stop: Callable[[], bool] = lambda: False
    said: list[str] = field(default_factory=list)
    run_id: str = "run-1"
    use: int = 1
    inputs: tuple[InputSpec, ...] = ()
    files: dict[str, str] | None = None
    deadline_s: float = 120.0
    interpreter: str | None = sys.executable
    observation: Observation = field(default_factory=Observation)
    gates: tuple[HeldoutGate, ...] = (HeldoutGate("right", ">=", 0.9),)
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def write(self, name: str, text: str) -> str:
        """A file in the folder; its absolute path."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def cases(self, rows: list[dict[str, Any]]) -> None:
        """Other cases."""
        self.write("cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    @property
    def layout(self) -> RecordLayout:
        """The record of the run."""
        return RecordLayout(str(self.folder / "runs" / self.run_id))

    @property
    def ledger(self) -> str:
        """Path of the ledger."""
        return str(self.folder / "ledger.db")

    def lines(self, role: str) -> list[dict[str, Any]]:
        """Answers in the record."""
        path = Path(self.layout.folder) / "heldout" / f"{role}.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    def uses(self) -> int:
        """Rows in the ledger."""
        import sqlite3

        if not os.path.exists(self.ledger):
            return 0
        with sqlite3.connect(self.ledger) as connection:
            (count,) = connection.execute("SELECT count(*) FROM heldout_uses").fetchone()
        return int(count)

    def trial(self) -> Trial:
        """The trial of the run."""
        spec: dict[str, Any] = {
            "cases": str(self.folder / "cases.jsonl"),
            "validator": str(self.folder / "validator.py") + ":validate",
            "loader": str(self.folder / "judge.py") + ":load" if self.kind == "pt" else None,
            "max_new_tokens": 5,
            "gates": self.gates,
        }
        return Trial(
            name="bench",
            runner=RunnerSpec(("python", "train.py"), secrets=("THE_SECRET",)),
            bounds=Bounds(10, 60.0, 4 << 30),
            inputs=self.inputs,
            heldout=HeldoutSpec(**{**spec, **self.changes}),
            file=str(self.folder / "trial.toml"),
        )

    def evaluate(self) -> CheckReport:
        """All of it, with real children."""
        os.makedirs(self.layout.folder, exist_ok=True)
        plan = Plan(
            run_id=self.run_id, record=self.layout.folder, command=("python", "train.py"),
            cwd=str(self.folder), max_steps=10, wall_s=60.0, memory_bytes=4 << 30, ad_hoc=False,
            heldout_use=self.use, heldout_again="because" if self.use > 1 else None,
        )  # fmt: skip
        best: dict[str, Any] = {
            "path": self.path or str(self.folder / "model.pt"), "step": 7, "kind": self.kind,
        }  # fmt: skip
        if self.files is not None:
            best["files"] = self.files
        return evaluate_heldout(
            plan=plan, trial=self.trial(), lock_sha256="ab" * 32, best=best,
            observation=self.observation, env=self.env, interpreter=self.interpreter,
            layout=self.layout, ledger_path=self.ledger,
            redactor=from_environment(self.env, ("THE_SECRET",), ()), stop=self.stop,
            deadline_s=self.deadline_s, say=self.said.append,
        )  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A healthy plain checkpoint that answers every case right."""
    import torch

    made = Bench(tmp_path)
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.fill_(1.0)
        model.bias.fill_(0.0)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    made.write("judge.py", JUDGE.replace("BEFORE", "pass"))
    made.write("validator.py", VALIDATE.replace("FIRST", "pass"))
    pairs = [(1, 2), (-1, -2), (3, -1), (-3, 1), (2, 2)]
    made.cases(
        [
            {"id": f"c{i}", "prompt": f"{a} {b}", "expected": "yes" if a + b > 0 else "no"}
            for i, (a, b) in enumerate(pairs)
        ]
    )
    yield made
