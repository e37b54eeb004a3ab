"""Secrets are removed in every form that they come in, and nothing else is touched."""

from __future__ import annotations

import base64
import json
import random
import time
import urllib.parse
from typing import Iterable

from seatrial.core.redaction import (
    Redactor,
    StreamRedactor,
    from_environment,
    looks_secret_name,
)

VALUE = "S3cr/et+va=lue-\u00e9\"'\\x"
LINES = "first line of it\nand the second\nok"
SHAPES = (
    "hf_AbcdEfghIjklMnopQrst",
    "sk-proj-abc123DEF456ghi789",
    "ghp_abcdefghijklmnopqrst0123",
    "github_pat_11ABCDEFG0abcdefghijklmnop",
    "glpat-abcDEF123456789",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
)
ORDINARY = (
    "commit d6bd3f9fd6bd3f9fd6bd3f9fd6bd3f9fd6bd3f9f",
    "tokens=128 max_tokens: 5 num_tokens=12000 eos_token: </s> pad_token_id=0",
    "key=value sort_key=created_at primary_key: user_name",
    "from huggingface_hub import hf_hub_download; hf_transfer_enabled",
    "Missing key: model.layers.0.self_attn.q_proj.weight",
    "KeyError: 'labels_missing'",
    "scikit-learn risk-adjusted-returns-2024-model task-specific-heads",
    "author: somebody tokenizer=AutoTokenizer keyboard: qwerty-layout",
    "https://example.org:8080/path?x=1 and user@example.org",
    "bearer of the message",
    "step 10 loss=0.1234 lr=1e-4 epoch: 0.5",
)


def _streamed(redactor: Redactor, data: bytes, sizes: Iterable[int]) -> bytes:
    stream, out, at = StreamRedactor(redactor), [], 0
    for size in sizes:
        if at >= len(data):
            break
        out.append(stream.feed(data[at : at + size]))
        at += size
    out.append(stream.feed(data[at:]))
    return b"".join(out) + stream.flush()


def test_names_that_hold_secrets_are_told_from_those_that_do_not() -> None:
    secret = (
        "HF_TOKEN WANDB_API_KEY AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID DB_PASSWORD"
        " hubToken MYSECRET"
        " GITHUB_PAT SENTRY_DSN HFTOKEN API_KEYS token api-key COOKIE PRIVATE_KEY CREDENTIALS"
    )
    harmless = (
        "KEYBOARD TOKENIZERS_PARALLELISM XAUTHORITY SSH_AUTH_SOCK max_tokens num_tokens eos_token"
        " pad_token_id PWD OLDPWD PATH AUTHOR tokenizer MONKEY HOTKEYS LANG TOKEN_LIMIT"
    )
    assert [name for name in secret.split() if not looks_secret_name(name)] == []
    assert [name for name in harmless.split() if looks_secret_name(name)] == []


def test_a_value_is_found_in_every_form_that_text_gives_it() -> None:
    redactor = Redactor([VALUE], {VALUE: "MINE"})
    raw = VALUE.encode()
    forms = [
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        repr(VALUE)[1:-1],
        repr(raw)[2:-1],
        urllib.parse.quote(VALUE, safe=""),
        urllib.parse.quote_plus(VALUE),
    ]
    for form in forms:
        assert redactor.text(f"a {form} b") == "a [secret MINE] b", form
    for before in (b"", b"u", b"us"):  # the alignment inside base64 hides a plain search
        encoded = base64.b64encode(before + raw + b"tail").decode()
        shown = redactor.text(encoded)
        assert "[secret MINE]" in shown and len(shown) < len(encoded), before


def test_each_line_of_a_value_is_a_secret_but_short_ones_are_too_common() -> None:
    redactor = Redactor([LINES, "short"])
    assert redactor.text("x and the second y") == "x [secret] y"
    assert redactor.text("ok, that was short") == "ok, that was short"


def test_shapes_are_found_without_being_told() -> None:
    redactor = Redactor([])
    for shape in SHAPES:
        assert redactor.text(f"using {shape}.") in ("using [secret].", "using [secret]"), shape
    hexadecimal = "d6bd3f9f" * 5
    assert hexadecimal not in redactor.text(f"WANDB_API_KEY={hexadecimal}")
    assert "abc123def456" not in redactor.text("Authorization: Bearer abc123def456")
    assert redactor.text("postgres://me:letmein@host/db") == "postgres://me:[secret]@host/db"
    assert "hunter22" not in redactor.text("password: hunter22")
    assert "abcdefgh" not in redactor.text('{"api_key": "abcdefgh"}')
    assert "abcdefg1" not in redactor.text("python train.py --hub-token abcdefg1 --lr 1")
    key = "-----BEGIN RSA PRIVATE KEY-----\nQUJDREVGR0hJSktM\n-----END RSA PRIVATE KEY-----"
    assert redactor.text(f"a\n{key}\nb") == "a\n[secret]\nb"
    assert "QUJDREVG" not in redactor.text(json.dumps(key))


def test_ordinary_text_stays_as_it_is() -> None:
    redactor = Redactor(["an-unrelated-secret"])
    for text in ORDINARY:
        assert redactor.text(text) == text


def test_json_values_are_cleaned_in_keys_too() -> None:
    redactor = Redactor(["deep-secret"])
    value = {"deep-secret": [1, "x deep-secret", {"api_key": "abcdefgh", "tokens": 5}], "n": None}
    assert redactor.value(value) == {
        "[secret]": [1, "x [secret]", {"api_key": "[secret api_key]", "tokens": 5}],
        "n": None,
    }


def test_a_command_line_hides_what_follows_a_secret_flag() -> None:
    argv = [
        "run",
        "--token",
        "abc",
        "--hub_token=xyz",
        "--tokenizer",
        "gpt2",
        "-x",
        "TOKEN=abcdefg",
    ]
    assert Redactor([]).argv(argv) == (
        "run",
        "--token",
        "[secret token]",
        "--hub_token=[secret hub_token]",
        "--tokenizer",
        "gpt2",
        "-x",
        "TOKEN=[secret TOKEN]",
    )


def test_an_environment_tells_its_secrets_by_name_declaration_and_address() -> None:
    env = {
        "HF_TOKEN": "plainwordsecret",
        "NOTES": "declared-one",
        "DATABASE_URL": "postgres://u:inthe-url@h/d",
        "USE_AUTH_TOKEN": "true",
        "HOME": "/home/somebody",
    }
    redactor = from_environment(env, ["NOTES"])
    text = "plainwordsecret declared-one inthe-url true /home/somebody"
    assert redactor.text(text) == (
        "[secret HF_TOKEN] [secret NOTES] [secret DATABASE_URL] true /home/somebody"
    )


def test_a_stream_without_secrets_passes_byte_by_byte() -> None:
    redactor = Redactor([VALUE, LINES])
    draw = random.Random(1)
    for data in (
        bytes(draw.randrange(256) for _ in range(100_000)),
        b"\xff\xfe ok\r\n" * 3_000,
        b"no line end " * 20_000,
        ("\n".join(ORDINARY) + "\n").encode(),
        b"",
    ):
        assert (
            _streamed(redactor, data, [draw.choice([1, 7, 999, 70_000]) for _ in range(500)])
            == data
        )


def _noise(draw: random.Random) -> bytes:
    return draw.choice(
        [
            b"hello\r\n",
            b" word" * draw.choice([1, 20_000]),
            b"\xff\x00\x80\n" * 3,
            b" " + SHAPES[0].encode() + b" ",
            b"\n-----BEGIN RSA PRIVATE KEY-----\n"
            + b"QUJDREVGR0hJSktM\n" * draw.choice([3, 9_000])
            + b"-----END RSA PRIVATE KEY-----\n",
        ]
    )


def test_no_cut_of_a_stream_lets_a_secret_through() -> None:
    secrets = [VALUE, LINES, "y" * 5_000 + "1", "ab\ncd\nef\ngh"]
    redactor = Redactor(secrets)
    forbidden = [s.encode() for s in secrets] + [b"hf_Abcd", b"QUJDREVG", b"and the second"]
    for seed in range(60):
        draw = random.Random(seed)
        parts = [
            draw.choice(secrets).encode() if draw.random() < 0.4 else _noise(draw)
            for _ in range(draw.randint(1, 8))
        ]
        data = b"".join(parts)
        small = [1, 7, 1_000] if len(data) < 20_000 else [1_000, 4_096, 70_000]
        out = _streamed(redactor, data, (draw.choice(small) for _ in range(len(data))))
        for secret in forbidden:
            assert secret not in out, (seed, secret[:20])


def test_what_a_stream_holds_back_is_bounded() -> None:
    stream = StreamRedactor(Redactor([VALUE]))
    passed = sum(len(stream.feed(b"a" * 4_096)) for _ in range(1_000))
    assert 4_096_000 - passed < 200_000
    stream = StreamRedactor(Redactor([]))
    endless = b"sk-1" + b"b" * 4_096_000
    out = b"".join(stream.feed(endless[i : i + 4_096]) for i in range(0, len(endless), 4_096))
    out += stream.feed(b" end\n") + stream.flush()
    assert out == b"[secret] end\n"


def test_a_paused_stream_shows_a_prompt_but_no_beginning_of_a_secret() -> None:
    stream = StreamRedactor(Redactor(["opensesame door"]))
    assert stream.feed(b"Continue? [y/n] ") == b""
    assert stream.idle() == b"Continue? [y/n] "
    assert stream.feed(b"say opensesame ") + stream.idle() == b"say "
    assert stream.feed(b"door now\n") == b"[secret] now\n"


def test_large_output_is_cleaned_quickly() -> None:
    names = {f"K{index}_TOKEN": f"{index}" * 20 for index in range(5)}
    redactor = from_environment(names)
    data = b"step 10 loss=0.1234 lr=1e-4 tokens=128 epoch: 0.5 of ordinary output\n" * 30_000
    started = time.process_time()
    assert _streamed(redactor, data, [65_536] * 100) == data
    assert time.process_time() - started < 2.5  # about 2 MB: well under a second when idle
