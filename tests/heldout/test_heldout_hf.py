"""Hugging Face folders through the whole evaluation: prompt contract, adapter and base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="Hugging Face folders need transformers")
pytestmark = pytest.mark.torch

from seatrial.core.trial import InputSpec  # noqa: E402

CONTRACT = "{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}assistant :"


def talk(bench: Any) -> None:
    bench.kind, bench.gates = "hf", ()
    rows = [
        {"id": f"c{i}", "messages": [{"role": "user", "content": f"{i} {i + 1}"}], "expected": "x"}
        for i in range(4)
    ]
    bench.cases(rows)


def test_a_contract_like_the_template_is_silent_and_another_is_told(
    bench: Any, llama: Path
) -> None:
    talk(bench)
    bench.path = str(llama)
    bench.inputs = (InputSpec("start", "model", str(llama)),)
    bench.changes = {"prompt": bench.write("prompt.jinja", CONTRACT)}
    healthy = bench.evaluate()
    assert (healthy.findings, healthy.not_judged) == ((), ())
    trained, base = (healthy.facts["models"][role] for role in ("trained", "base"))
    assert trained["pid"] != base["pid"]
    assert trained["proof"]["equal"] == base["proof"]["equal"] == 21
    answers = [[row["raw"] for row in bench.lines(role)] for role in ("trained", "base")]
    assert answers[0] == answers[1]  # the same weights, decoded greedily in two processes
    assert all(row["new_tokens"] <= 5 for row in bench.lines("trained"))

    bench.changes = {"prompt": bench.write("prompt.jinja", CONTRACT.replace(" :", ":"))}
    bench.run_id, bench.use, bench.inputs = "run-2", 2, ()
    report = bench.evaluate()
    finding, again = report.findings
    assert again.code == "eval_mode.heldout_used_again"
    assert (finding.code, finding.severity) == ("tokenizer.prompt_differs", "warning")
    assert "at character 4 of case 'c0'" in finding.message
    assert (report.facts["use"], report.facts["reason"]) == (2, "because")


def test_an_adapter_is_compared_with_the_base_that_it_names(bench: Any, llama: Path) -> None:
    peft = pytest.importorskip("peft")
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(llama, local_files_only=True)
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    wrapped = peft.get_peft_model(model, config)
    for name, value in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value)
    wrapped.save_pretrained(bench.folder / "adapter")
    talk(bench)
    bench.kind, bench.path = "peft", str(bench.folder / "adapter")
    report = bench.evaluate()
    assert (report.findings, report.not_judged) == ((), ())
    assert report.facts["models"]["base"]["path"] == str(llama)
    assert report.facts["models"]["trained"]["class"].startswith("Peft")

    told = json.loads((bench.folder / "adapter" / "adapter_config.json").read_text())
    told["base_model_name_or_path"] = "somebody/a-model"
    bench.write("adapter/adapter_config.json", json.dumps(told))
    bench.run_id, bench.use = "run-2", 2
    (entry,) = bench.evaluate().not_judged
    assert entry.required
    assert "role model" in entry.reason
    assert "no case was used" in entry.reason
