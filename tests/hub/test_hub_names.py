"""Names on the Hub, asked over real HTTP by the real client from a stand-in on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")

CHILD = """
import json, os, sys
from seatrial import hub
from seatrial.core.errors import SeatrialError
for name, types, revision, changes in json.load(sys.stdin):
    environ = {k: v for k, v in {**os.environ, **changes}.items() if v is not None}
    try:
        timeout = float(environ.get("TEST_TIMEOUT", 5))
        pin = hub.resolve(name, types, revision, environ, timeout)
        print(json.dumps([pin.repo_type, pin.revision]))
    except SeatrialError as error:
        print(json.dumps([error.exit_code, error.message, error.remedy]))
"""
MAIN, DEV = "a" * 40, "b" * 40
Question = tuple[str, list[str], "str | None", dict[str, Any]]


def answers(stand_in: Any, *questions: Question, **env: str) -> list[list[Any]]:
    """All questions in one process: the client is slow to import."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(questions),
        env={**os.environ, "HF_ENDPOINT": stand_in.url, "HF_HUB_OFFLINE": "0", **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert stand_in.token not in done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_names_that_are_there(stand_in: Any) -> None:
    stand_in.asked.clear()
    found = answers(
        stand_in,
        ("org/data", ["dataset"], None, {}),
        ("org/data", ["dataset"], "dev/x", {}),
        ("org/model", ["model"], MAIN[:7], {}),
        ("org/model", ["dataset", "model"], "main", {}),
        ("private/model", ["model"], "main", {"HF_TOKEN": stand_in.token}),
    )
    assert found == [
        ["dataset", MAIN], ["dataset", DEV], ["model", MAIN], ["model", MAIN], ["model", MAIN],
    ]  # fmt: skip
    assert [path for path, _ in stand_in.asked] == [
        "/api/datasets/org/data/revision/main",
        "/api/datasets/org/data/revision/dev/x",
        f"/api/models/org/model/revision/{MAIN[:7]}",
        "/api/datasets/org/model/revision/main",
        "/api/models/org/model/revision/main",
        "/api/models/private/model/revision/main",
    ]
    assert [had_token for _, had_token in stand_in.asked] == [False] * 5 + [True]


def test_a_whole_commit_is_taken_without_a_question(stand_in: Any) -> None:
    stand_in.asked.clear()
    offline = {"HF_HUB_OFFLINE": "1"}
    found = answers(
        stand_in,
        ("org/nowhere", ["model"], "c" * 40, {}),
        ("org/nowhere", ["dataset", "model"], "c" * 40, offline),
    )
    assert found == [["model", "c" * 40], [None, "c" * 40]]
    assert stand_in.asked == []


DATA, MODEL, BOTH = ["dataset"], ["model"], ["dataset", "model"]
OFFLINE = {"HF_HUB_OFFLINE": "1"}
WRONG = {"HF_TOKEN": "hf_WrongToken1234567890ab"}
MINE = {"HF_TOKEN": "mine"}  # replaced by the stand-in's own
REFUSALS: list[tuple[Question, str, str]] = [
    (("org/no", DATA, None, {}), "no dataset org/no that can be read without", "export HF_TOKEN"),
    (("org/no", DATA, None, MINE), "no dataset org/no, or HF_TOKEN may not", "correct the id"),
    (("org/no", BOTH, None, {}), "no dataset or model org/no", "correct the id"),
    (("private/model", MODEL, None, {}), "can be read without a token", "if it is private"),
    (("gated/m", MODEL, None, {}), "is gated, and HF_TOKEN is not set", "accept its terms"),
    (("gated/d", DATA, None, MINE), "HF_TOKEN belongs to somebody", "/datasets/gated/d"),
    (("org/data", DATA, "v9", {}), "has no revision 'v9'", "correct revision"),
    (("org/data", DATA, None, WRONG), "(HTTP 401): HF_TOKEN is not accepted", "export HF_TOKEN"),
    (("broken/503", MODEL, None, {}), "answers HTTP 503", "40-digit commit"),
    (("broken/429", MODEL, None, {}), "HTTP 429", "wait some minutes"),
    (("broken/403", MODEL, None, {}), "(HTTP 403): HF_TOKEN is needed and not set", "export"),
    (("odd/none", MODEL, None, {}), "without a commit", "40-digit"),
    (("odd/main", MODEL, None, {}), "without a commit", "40-digit"),
    (("a b/../c", MODEL, None, {}), "'a b/../c' is no id of the Hub", "owner/name"),
    (("slow/m", MODEL, None, {"TEST_TIMEOUT": "0.5"}), "cannot be reached", "look at the network"),
    (("org/data", DATA, None, {"HF_ENDPOINT": "http://127.0.0.1:9"}), "127.0.0.1:9 cannot", "HF_E"),
    (("org/data", DATA, None, OFFLINE), "set to stay offline", "HF_HUB_OFFLINE=0"),
    (("org/data", DATA, "abc1234", OFFLINE), "'abc1234' is no fixed commit", "40-digit"),
    (("org/data", DATA, None, {"TRANSFORMERS_OFFLINE": "1"}), "set to stay offline", ""),
]


def test_each_refusal_says_what_it_is(stand_in: Any) -> None:
    token = {"HF_TOKEN": stand_in.token}
    questions = [
        (name, types, revision, token if changes is MINE else changes)
        for (name, types, revision, changes), _, _ in REFUSALS
    ]
    found = answers(stand_in, *questions)
    assert len(found) == len(REFUSALS)
    for (question, message, remedy), told in zip(REFUSALS, found, strict=True):
        assert told[0] == 2, (question, told)
        assert message in told[1], (question, told)
        assert remedy in told[2], (question, told)
        assert "WrongToken" not in told[1] + told[2]


def test_an_endpoint_with_a_password_is_shown_without_it(stand_in: Any) -> None:
    url = stand_in.url.replace("http://", "http://ada:hunter2secret@")
    ((_, message, _),) = answers(stand_in, ("broken/503", ["model"], None, {"HF_ENDPOINT": url}))
    assert "hunter2secret" not in message


def test_without_the_library(stand_in: Any, tmp_path: Any) -> None:
    (tmp_path / "huggingface_hub.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    found = answers(
        stand_in,
        ("org/data", ["dataset"], "main", {}),
        ("org/data", ["dataset"], "c" * 40, {}),
        PYTHONPATH=path,
    )
    assert "huggingface_hub, which would ask for it, is not installed" in found[0][1]
    assert "seatrial[hub]" in found[0][2]
    assert found[1] == ["dataset", "c" * 40]
