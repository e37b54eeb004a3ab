"""Labels of the first rows: real tokenizers, real templates, and TRL's own trainer to compare."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seatrial.child.chat_labels import BEGAN, Labeller
from seatrial.child.chat_labels import judge as judge_here
from seatrial.core.child import EXITED, TIMEOUT, Ask, ChildAnswer, ChildRequest
from seatrial.core.finding import Finding, NotJudged
from seatrial.core.trial import Trial
from seatrial.preflight.ask_child import Asked
from seatrial.preflight.labels import label_findings
from seatrial.preflight.sft_facts import sft_facts

pytestmark = pytest.mark.hf
Make = Callable[..., Trial]
Judge = Callable[..., tuple[list[Finding], list[NotJudged]]]

BODY = "{{ '<|start|>' + message['role'] + '\n' }}"
GOOD = (
    "{% for message in messages %}" + BODY + "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)
END_OUTSIDE = GOOD.replace("+ '<|end|>' }}{% endgeneration %}", "}}{% endgeneration %}<|end|>")
NO_END = GOOD.replace("message['content'] + '<|end|>'", "message['content']")
NO_MARKS = GOOD.replace("{% generation %}", "").replace("{% endgeneration %}", "")
OTHER_END = GOOD.replace("'<|end|>' }}{% endgeneration", "'<|turn|>' }}{% endgeneration")
RAISES = "{{ raise_exception('roles must alternate') }}"
LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
ALLOCATES = (
    "{% set ns = namespace(x='xxxxxxxx') %}{% for a in range(40) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}"
)
DOUBLE_BOS = "<|begin|><|begin|>" + GOOD

SFT = """
from trl import SFTConfig, SFTTrainer
trainer = SFTTrainer(model="m", args=SFTConfig(output_dir="o", SETTINGS), train_dataset=rows)
"""
TALK = [
    {
        "messages": [
            {"role": "user", "content": f"what is {n} plus one"},
            {"role": "assistant", "content": f"it is {n + 1}"},
        ]
    }
    for n in range(10)
]
PAIRS = [{"prompt": f"what is {n} ", "completion": f"it is {n + 1}"} for n in range(10)]


def make_tokenizer(folder: Path, template: str | None, **special: str) -> None:
    """A small byte-level tokenizer in a folder."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\w+|\s|[^\w\s]"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        [json.dumps(TALK)],
        trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=["<|pad|>", "<|start|>", "<|end|>", "<|begin|>", "<|turn|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **{"pad_token": "<|pad|>", "eos_token": "<|end|>", "bos_token": "<|begin|>", **special},
    )
    made.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|turn|>"]})
    if template is not None:
        made.chat_template = template
    made.save_pretrained(str(folder))


def ask_here(request: ChildRequest) -> ChildAnswer:
    """The program's own answer, made in this process: importing transformers takes seconds."""
    answer = judge_here(json.loads(request.stdin), lambda _request: None)
    return ChildAnswer(EXITED, 0, stdout=json.dumps(answer).encode())


@pytest.fixture
def judge(make_trial: Make, tmp_path: Path, ask: Ask, how: Asked) -> Judge:
    def run(
        template: str | None,
        rows: list[Any] | bytes,
        settings: str = "",
        script: str = SFT,
        *,
        in_child: bool = False,
        **special: str,
    ) -> tuple[list[Finding], list[NotJudged]]:
        make_tokenizer(tmp_path / "tok", template, **special)
        data = (
            rows
            if isinstance(rows, bytes)
            else b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        )
        (tmp_path / "train.jsonl").write_bytes(data)
        facts = sft_facts(ast.parse(script.replace("SETTINGS", settings)), {})
        trial = make_trial(("train", "train.jsonl"), ("tokenizer", "tok"))
        return label_findings(trial, "train.py", facts, ask if in_child else ask_here, how)

    return run


@pytest.mark.parametrize(
    ("template", "rows", "settings"),
    [
        (GOOD, TALK, "assistant_only_loss=True"),
        (GOOD, PAIRS, ""),
        (None, PAIRS, ""),
        (None, [{"text": f"row {n}"} for n in range(9)], ""),
    ],
    ids=["assistant", "pairs", "pairs without a template", "text"],
)
def test_healthy_labels_are_silent(
    judge: Judge, template: str | None, rows: list[Any], settings: str
) -> None:
    assert judge(template, rows, settings) == ([], [])


@pytest.mark.parametrize(
    ("template", "rows", "settings", "code", "severity", "said"),
    [
        (NO_MARKS, TALK, "assistant_only_loss=True", "empty_mask", "error", "generation %} marks"),
        (GOOD, TALK, "", "whole_row", "warning", "SFTConfig says neither way"),
        (GOOD, TALK, "assistant_only_loss=False", "whole_row", "note", "the script asks for it"),
        (END_OUTSIDE, TALK, "assistant_only_loss=True", "end_outside", "error", "'<|end|>'"),
        (NO_END, TALK, "assistant_only_loss=True", "no_end", "error", "without an end token"),
        (OTHER_END, TALK, "assistant_only_loss=True", "other_end", "warning", "'<|turn|>'"),
        (None, TALK, "assistant_only_loss=True", "no_template", "error", "no chat template"),
        (RAISES, TALK, "assistant_only_loss=True", "template_failed", "error", "must alternate"),
        (DOUBLE_BOS, TALK, "assistant_only_loss=True", "double_bos", "warning", "two start"),
        (GOOD, PAIRS, "completion_only_loss=False", "whole_row", "note", "asks for it"),
        (GOOD, PAIRS, "max_length=4", "answer_cut_off", "error", "lose their whole answer"),
        (GOOD, TALK, "assistant_only_loss=True, max_length=10", "answer_cut_off", "error", "lose"),
        (GOOD, TALK, "assistant_only_loss=True, eos_token='no'", "eos_unknown", "error", "'no'"),
        (
            GOOD,
            [{"prompt": "it is pl", "completion": "us one"}] * 3,
            "",
            "prompt_not_prefix",
            "warning",
            "not how the whole row begins",
        ),
    ],
)
def test_a_planted_fault_is_found(
    judge: Judge,
    template: str | None,
    rows: list[Any],
    settings: str,
    code: str,
    severity: str,
    said: str,
) -> None:
    findings, unjudged = judge(template, rows, settings)
    (found,) = findings
    assert (found.code, found.severity, unjudged) == (f"labels.{code}", severity, [])
    assert said in found.message


def test_an_end_that_the_whole_row_lacks(judge: Judge) -> None:
    last = [
        {"prompt": turns["messages"][:1], "completion": turns["messages"][1:]} for turns in TALK
    ]
    (found,), _ = judge(NO_END, last)
    assert (found.code, found.severity) == ("labels.no_end", "error")
    assert judge(GOOD, last) == ([], [])


def test_a_few_rows_that_lose_their_answer_are_a_warning(judge: Judge) -> None:
    rows = [*PAIRS, *PAIRS, {"prompt": "what " * 100, "completion": "so"}]
    (found,), _ = judge(GOOD, rows, "max_length=64")
    assert (found.code, found.severity) == ("labels.answer_cut_off", "warning")
    assert found.place.row == 21
    assert judge(GOOD, rows, "max_length=64, packing=True") == ([], [])
    assert judge(GOOD, rows) == ([], [])


def test_the_end_token_of_the_script_counts(judge: Judge) -> None:
    settings = "assistant_only_loss=True, eos_token='<|turn|>'"
    assert judge(OTHER_END, TALK, settings) == ([], [])


def test_a_generation_configuration_beside_the_tokenizer_counts(
    judge: Judge, tmp_path: Path
) -> None:
    (tmp_path / "tok").mkdir()
    (tmp_path / "tok" / "generation_config.json").write_text('{"eos_token_id": [2, 4]}')
    assert judge(OTHER_END, TALK, "assistant_only_loss=True") == ([], [])


def test_a_known_template_gets_the_twin_that_trl_has_for_it(judge: Judge) -> None:
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    known = (folder / "qwen2_5.jinja").read_text()
    settings = "assistant_only_loss=True, eos_token='<|im_end|>'"
    special = {"eos_token": "<|im_end|>"}
    assert judge(known, TALK, settings, **special) == ([], [])


def test_a_template_that_does_not_end(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.preflight.labels.TEMPLATE_SECONDS", 1.0)
    (found,), _ = judge(LOOPS, TALK, "assistant_only_loss=False", in_child=True)
    assert (found.code, found.severity) == ("labels.template_endless", "error")
    assert found.place.row == 1


def test_a_template_that_takes_all_memory(judge: Judge) -> None:
    (found,), _ = judge(ALLOCATES, TALK, "assistant_only_loss=True", in_child=True)
    assert found.code == "labels.template_endless"
    assert "memory" in found.message


def test_a_child_that_is_ended_before_the_templates_accuses_none(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seatrial.preflight.labels.TIMEOUT_S", 0.3)
    findings, (entry,) = judge(LOOPS, TALK, in_child=True)
    assert findings == []
    assert "longer than 0.3s" in entry.reason


def test_a_child_that_is_ended_during_the_templates_accuses_them(
    make_trial: Make, tmp_path: Path, how: Asked
) -> None:
    make_tokenizer(tmp_path / "tok", GOOD)
    (tmp_path / "train.jsonl").write_text(json.dumps(TALK[0]))
    facts = sft_facts(ast.parse(SFT.replace("SETTINGS", "")), {})
    trial = make_trial(("train", "train.jsonl"), ("tokenizer", "tok"))
    (found,), _ = label_findings(
        trial, "train.py", facts, lambda _: ChildAnswer(TIMEOUT, stdout=BEGAN), how
    )
    assert found.code == "labels.template_endless"


def test_the_child_says_the_same(judge: Judge) -> None:
    assert judge(GOOD, TALK, "assistant_only_loss=True", in_child=True) == ([], [])
    (found,), _ = judge(END_OUTSIDE, TALK, "assistant_only_loss=True", in_child=True)
    assert found.code == "labels.end_outside"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import torch\n", "makes no SFTTrainer"),
        (SFT + "rows = rows.map(f)\n", "rewrites rows with .map()"),
        (SFT.replace("SETTINGS", "formatting_func=f"), "formatting_func"),
        (SFT + "tokenizer.chat_template = pick()\n", "chooses the chat template"),
        (SFT.replace("SETTINGS", "assistant_only_loss=args.only"), "is computed"),
        (SFT.replace("SETTINGS", "**settings"), "computed|formatting_func|dataset_kwargs"),
    ],
)
def test_what_the_text_does_not_tell_is_not_judged(judge: Judge, script: str, said: str) -> None:
    import re

    findings, (entry,) = judge(GOOD, TALK, "", script)
    assert findings == []
    assert re.search(said, entry.reason), entry.reason


def test_a_template_in_the_script_is_used(judge: Judge) -> None:
    script = f"{SFT}TEMPLATE = {END_OUTSIDE!r}\ntokenizer.chat_template = TEMPLATE\n"
    (found,), _ = judge(GOOD, TALK, "assistant_only_loss=True", script)
    assert found.code == "labels.end_outside"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (b"no json\n" * 3, "none of the first 3 rows"),
        (b"", "it has no rows"),
        (b'{"question": "x"}\n', "none of messages, prompt and completion"),
        (b'{"prompt": "x"}\n', "a prompt and no completion"),
    ],
)
def test_rows_that_are_none(judge: Judge, rows: bytes, said: str) -> None:
    findings, (entry,) = judge(GOOD, rows)
    assert findings == []
    assert said in entry.reason


def test_some_rows_that_are_none_are_said(judge: Judge) -> None:
    rows = b"no json\n" + b"".join(json.dumps(row).encode() + b"\n" for row in PAIRS)
    findings, (entry,) = judge(GOOD, rows)
    assert findings == []
    assert "1 of the first 11 rows are of no kind of TRL's (row 1)" in entry.reason


def test_another_trl_makes_it_likely_and_leaves_the_rest_open(
    make_trial: Make, tmp_path: Path, how: Asked
) -> None:
    def older(request: ChildRequest) -> ChildAnswer:
        value = judge_here(json.loads(request.stdin), lambda _request: None)
        return ChildAnswer(EXITED, 0, stdout=json.dumps({**value, "trl": "0.12.2"}).encode())

    make_tokenizer(tmp_path / "tok", END_OUTSIDE)
    (tmp_path / "train.jsonl").write_text(json.dumps(TALK[0]))
    facts = sft_facts(ast.parse(SFT.replace("SETTINGS", "assistant_only_loss=True")), {})
    trial = make_trial(("train", "train.jsonl"), ("tokenizer", "tok"))
    (found,), (entry,) = label_findings(trial, "train.py", facts, older, how)
    assert found.confidence == "likely"
    assert "the runner has TRL 0.12.2" in entry.reason


def test_a_train_input_that_is_no_file(
    make_trial: Make, tmp_path: Path, ask: Ask, how: Asked
) -> None:
    make_tokenizer(tmp_path / "tok", GOOD)
    os.mkfifo(tmp_path / "train.jsonl")
    facts = sft_facts(ast.parse(SFT.replace("SETTINGS", "")), {})
    trial = make_trial(("train", "train.jsonl"), ("tokenizer", "tok"))
    findings, (entry,) = label_findings(trial, "train.py", facts, ask, how)
    assert (findings, "is no file of rows" in entry.reason) == ([], True)


def test_a_folder_that_is_no_tokenizer(
    make_trial: Make, tmp_path: Path, ask: Ask, how: Asked
) -> None:
    facts = sft_facts(ast.parse(SFT.replace("SETTINGS", "")), {})
    (tmp_path / "train.jsonl").write_text(json.dumps(TALK[0]))
    trial = make_trial(("train", "train.jsonl"), ("tokenizer", "tok"))
    _, (entry,) = label_findings(trial, "train.py", facts, ask, how)
    assert "names no local tokenizer" in entry.reason
    (tmp_path / "tok").mkdir()
    (tmp_path / "tok" / "tokenizer.json").write_text("{}")
    _, (entry,) = label_findings(trial, "train.py", facts, ask, how)
    assert "cannot be loaded as a tokenizer" in entry.reason


COLLATOR = """
from transformers import DataCollatorForLanguageModeling, Trainer
tokenizer.pad_token = tokenizer.eos_token
Trainer(model=m, data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
"""


def test_padding_with_the_end_token(make_trial: Make, tmp_path: Path, ask: Ask, how: Asked) -> None:
    trial = make_trial(("tokenizer", "tok"))

    def codes(script: str) -> list[str]:
        facts = sft_facts(ast.parse(script), {})
        return [f.code for f in label_findings(trial, "train.py", facts, ask, how)[0]]

    assert codes(COLLATOR) == ["labels.pad_is_eos"]
    assert codes(COLLATOR.replace("tokenizer.eos_token", "'<pad>'")) == []
    assert codes(COLLATOR.replace("mlm=False", "mlm=True")) == []
    assert codes(COLLATOR.replace("from transformers", "from trl")) == []
    assert codes(COLLATOR.replace("data_collator=DataCollatorForLanguageModeling", "x=f")) == []
    own = COLLATOR.replace("tokenizer.pad_token = tokenizer.eos_token", "")
    make_tokenizer(tmp_path / "tok", None)
    assert codes(own) == []
    make_tokenizer(tmp_path / "tok", None, pad_token="<|end|>")
    assert codes(own) == ["labels.pad_is_eos"]


def test_the_collator_of_transformers_masks_what_pads(tmp_path: Path) -> None:
    """The ground of the rule above, with the real collator."""
    from transformers import AutoTokenizer, DataCollatorForLanguageModeling

    labels = {}
    for name, pad in (("one", "<|pad|>"), ("two", "<|end|>")):
        make_tokenizer(tmp_path / name, None, pad_token=pad)
        tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / name))
        rows = [{"input_ids": tokenizer("what is 1<|end|>")["input_ids"]}]
        batch = DataCollatorForLanguageModeling(tokenizer, mlm=False)(rows)
        labels[name] = batch["labels"][0].tolist()
    assert labels["one"][-1] != -100
    assert labels["two"][-1] == -100


@pytest.mark.parametrize(
    ("rows", "settings"),
    [
        (TALK, {"assistant_only_loss": True}),
        (TALK, {}),
        (PAIRS, {}),
        (PAIRS, {"completion_only_loss": False}),
        (
            [{"prompt": r["messages"][:1], "completion": r["messages"][1:]} for r in TALK],
            {"assistant_only_loss": True},
        ),
        ([{"text": f"row {n}"} for n in range(5)], {}),
        ([{"prompt": "it is pl", "completion": "us one"}] * 3, {}),
    ],
)
def test_labels_are_those_of_the_real_trainer(
    tmp_path: Path, rows: list[Any], settings: dict[str, Any]
) -> None:
    from datasets import Dataset
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from trl import SFTConfig, SFTTrainer

    make_tokenizer(tmp_path / "tok", GOOD)
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path / "tok"))
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
        )
    )
    trainer = SFTTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows),
        args=SFTConfig(
            output_dir=str(tmp_path / "o"), use_cpu=True, bf16=False, report_to="none", **settings
        ),
    )
    request = {
        "tokenizer": str(tmp_path / "tok"),
        "assistant_only": settings.get("assistant_only_loss", False),
        "completion_only": settings.get("completion_only_loss"),
        "text_field": "text",
        "max_length": None,
    }
    labeller = Labeller(tokenizer, request, tokenizer.chat_template)
    for number, (row, real) in enumerate(zip(rows, trainer.train_dataset, strict=True)):
        ids, labels, _ = labeller.ids_and_labels(row, number)
        assert ids == real["input_ids"]
        assert [i if held else -100 for i, held in zip(ids, labels, strict=True)] == real["labels"]
    assert os.path.isdir(tmp_path / "tok")
