"""The prompt contract: rendered like a chat template, in a process that is capped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seatrial.heldout.remarks import first_difference
from seatrial.heldout.special_tokens import special_tokens
from seatrial.workflows import heldout_prompts
from seatrial.workflows.heldout_children import EvaluationEndedError
from seatrial.workflows.heldout_prompts import render_prompts

CASES = [
    {"id": "a", "messages": [{"role": "user", "content": "x < y"}], "board": {"k": "ä"}},
    {"id": "b", "prompt": "plain"},
]


def render(folder: Path, text: str, cases: Any = None, **tokens: str) -> list[str]:
    (folder / "prompt.jinja").write_text(text, encoding="utf-8")
    path = str(folder / "prompt.jinja")
    return render_prompts(path, CASES if cases is None else cases, tokens, lambda: False)


def test_a_contract_sees_the_case_its_fields_and_the_special_tokens(tmp_path: Path) -> None:
    text = (
        "{{ bos_token }}{% if messages %}\n"
        "{% for m in messages %}\n{{ m.role }}:{{ m['content'] }}\n{% endfor %}\n"
        "{{ board | tojson }}\n{% else %}\n{{ prompt }}{{ case.id }}{% endif %}"
        "{% if add_generation_prompt %}>{% endif %}"
    )
    found = render(tmp_path, text, bos_token="<s>")
    assert found == ['<s>user:x < y\n{"k": "ä"}\n>', "<s>plainb>"]


FAULTS = [
    ("{{ boared }}", "'boared' is undefined"),
    ("{{ bos_token }}", "'bos_token' is undefined"),
    ("{% if %}", "TemplateSyntaxError"),
    ("{{ case.__class__.__mro__ }}", "SecurityError"),
    ("{{ case.update({'id': 1}) }}", "SecurityError"),
    ("{{ raise_exception('only users') }}", "only users"),
    ("{% include '/etc/passwd' %}", "TypeError"),
    ("{% for i in range(999999) %}{% endfor %}", "OverflowError"),
]


@pytest.mark.parametrize(("text", "said"), FAULTS, ids=[row[1] for row in FAULTS])
def test_a_template_that_fails_is_said_with_its_case(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(EvaluationEndedError) as caught:
        render(tmp_path, text)
    assert said in caught.value.reason
    assert "prompt.jinja" in caught.value.reason
    if "Syntax" not in said:
        assert "for case 'a'" in caught.value.reason


def test_a_template_that_loops_or_grows_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout_prompts, "RENDER_S", 2.0)
    loop = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
    with pytest.raises(EvaluationEndedError, match="did not come to an end"):
        render(tmp_path, loop)
    with pytest.raises(EvaluationEndedError, match=r"MemoryError|did not come to an end"):
        render(tmp_path, "{{ 'x' * 9000000000 }}")


def test_a_stop_ends_it(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("{{ id }}")
    with pytest.raises(EvaluationEndedError, match="a stop was asked for"):
        render_prompts(str(tmp_path / "p"), CASES, {}, lambda: True)


def test_odd_characters_come_through(tmp_path: Path) -> None:
    assert render(tmp_path, "{{ x }}", [{"id": "a", "x": "\ud800\x00\u2028"}]) == [
        "\ud800\x00\u2028"
    ]


def test_special_tokens_are_those_of_the_first_folder_that_names_any(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    (first / "tokenizer_config.json").write_text("no json")
    told = {"eos_token": {"content": "</s>"}, "bos_token": None, "model_max_length": 3}
    (second / "tokenizer_config.json").write_text(json.dumps(told))
    assert special_tokens([str(first), str(second)]) == {"eos_token": "</s>"}
    assert special_tokens([str(tmp_path / "none")]) == {}


def test_where_two_renderings_part_is_told() -> None:
    assert "at character 2 of case 'a'" in first_difference("a", "ab1", "ab2")
    assert "at character 2 of case 'a'" in first_difference("a", "ab", "ab2")


@pytest.mark.torch
def test_a_chat_template_is_a_contract_as_it_is(tmp_path: Path, llama: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(llama, local_files_only=True)
    template = (
        "{{ bos_token }}{%- if tools %}\ntools{% endif %}\n{% for m in messages %}\n"
        "    {% if loop.index > 3 %}{% break %}{% endif %}\n{{ m | tojson }}\n  {% endfor %}\n"
        "{% if add_generation_prompt is defined and add_generation_prompt %}go{% endif %}"
    )
    own = tokenizer.apply_chat_template(
        CASES[0]["messages"], chat_template=template, tokenize=False, add_generation_prompt=True
    )
    tokens = special_tokens([str(llama)])
    assert render(tmp_path, template, CASES[:1], **tokens) == [own]


@pytest.mark.parametrize(
    ("template", "words"),
    [("{# nothing #}", "an empty text"), ("Answer now.", "every case to the same text")],
)
def test_a_template_that_says_nothing_of_the_case_is_not_judged(
    tmp_path: Path, template: str, words: str
) -> None:
    path = tmp_path / "p.jinja"
    path.write_text(template)
    cases = [{"id": "a", "prompt": "1"}, {"id": "b", "prompt": "2"}]
    with pytest.raises(EvaluationEndedError, match=words):
        render_prompts(str(path), cases, {}, lambda: False)
