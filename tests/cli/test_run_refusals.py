"""Bad input: a message with value, place and next command; nothing half-written."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import pytest


def _untouched(place: Any) -> bool:
    runs = place.folder / ".seatrial" / "runs"
    return not runs.exists() or not list(runs.iterdir())


TRIAL = """
schema = 1
name = "t"
[bounds]
max_steps = 5
wall = "1m"
[runner]
command = ["{python}", "train.py"]
"""


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("run",), "nothing to run"),
        (("run", "--"), "no command"),
        (("run", "--", sys.executable, "missing.py"), "missing.py"),
        (("run", "--", sys.executable, "empty.py"), "empty"),
        (("run", "--", sys.executable, "binary.py"), "binary"),
        (("run", "--", "no-such-program-here"), "no-such-program-here"),
        (("run", "missing.toml"), "missing.toml"),
        (("run", "--max-steps", "-3", "--", sys.executable, "ok.py"), "-3"),
        (("run", "--max-steps", "0", "--", sys.executable, "ok.py"), "0"),
        (("run", "--wall", "5", "--", sys.executable, "ok.py"), "5"),
        (("run", "--wall", "-5s", "--", sys.executable, "ok.py"), "-5s"),
        (("run", "--memory", "lots", "--", sys.executable, "ok.py"), "lots"),
        (("run", "--memry", "1GiB", "--", sys.executable, "ok.py"), "--memry"),
        (("run", "--out", "full", "--", sys.executable, "ok.py"), "not empty"),
        (("run", "--out", "ok.py", "--", sys.executable, "ok.py"), "ok.py"),
        (("status", "nothing-like-it"), "nothing-like-it"),
        (("stop",), "no run"),
        (("clean",), "which"),
        (("schema", "nonsense"), "nonsense"),
        (("frobnicate",), "frobnicate"),
        (("status", "--", "x"), "only"),
        (("run", "python", "train.py", "--lr", "3"), "seatrial run -- python train.py --lr 3"),
    ],
)
def test_refused_with_the_value_and_the_next_command(
    place: Any, words: tuple[str, ...], part: str
) -> None:
    place.write("empty.py", "")
    (place.folder / "binary.py").write_bytes(b"\x7fELF\0\0\1\2" * 40)
    place.write("ok.py", "print(1)\n")
    place.write("full/file", "x")
    answer = place.seatrial(*words)
    assert answer.code == 2, answer.err
    assert part in answer.err
    assert "next:" in answer.err
    assert answer.out == ""
    assert _untouched(place)


def test_a_refusal_prints_the_run_object_too(place: Any) -> None:
    answer = place.seatrial("run", "--json", "--", sys.executable, "missing.py")
    result = answer.result
    assert (answer.code, result["exit_code"], result["verdict"]) == (2, 2, "inconclusive")
    assert result["outcome"] is None


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("max_steps", "max_step"), ("max_step", "max_steps")),
        (("max_steps = 5", "max_steps = 5\nmax_steps = 6"), ("max_steps",)),
        (("max_steps = 5\n", ""), ("max_steps",)),
        (('wall = "1m"', 'wall = "-1m"'), ("-1m",)),
        (("max_steps = 5", "max_steps = -5"), ("-5",)),
        (("schema = 1", "schema = 7"), ("7",)),
        (('name = "t"', 'name = "t"\nnmae = "u"'), ("nmae", "name")),
        (("[runner]", '[[gate]]\nmetric = "m"\nop = "=<"\nvalue = 1\n[runner]'), ("=<",)),
        (("[runner]", '[checks]\nrequire = ["heldot"]\n[runner]'), ("heldot", "heldout")),
        (('command = ["{python}", "train.py"]', "command = []"), ("command",)),
        (("[runner]", '[runner]\nsecrets = ["NO_SUCH_SECRET"]'), ("NO_SUCH_SECRET",)),
        (("[runner]", '[engine]\nkind = "moon"\n[runner]'), ("moon", "local")),
    ],
)
def test_a_trial_is_refused_where_it_is_wrong(
    place: Any, change: tuple[str, str], parts: tuple[str, ...]
) -> None:
    place.write("train.py", "print(1)\n")
    assert change[0] in TRIAL
    text = TRIAL.replace(*change, 1).replace("{python}", sys.executable)
    place.write("trial.toml", text)
    answer = place.seatrial("run", "trial.toml")
    assert answer.code == 2, answer.err
    for part in (*parts, "trial.toml"):
        assert part in answer.err
    assert _untouched(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_output_folder_is_refused(place: Any) -> None:
    place.write("ok.py", "print(1)\n")
    closed = place.folder / "closed"
    closed.mkdir(mode=0o500)
    answer = place.seatrial("run", "--out", "closed/out", "--", sys.executable, "ok.py")
    assert answer.code == 2
    assert "closed" in answer.err


def test_the_schemas_are_published(place: Any) -> None:
    names = place.seatrial("schema").out.split()
    assert "run" in names
    for name in names:
        assert json.loads(place.seatrial("schema", name).out)["$schema"].endswith("2020-12/schema")


def test_the_supervisors_own_command_is_nobodys_choice(place: Any) -> None:
    answer = place.seatrial("frobnicate")
    assert "finalize" not in answer.err + place.seatrial("--help").out
    assert "authorize" in answer.err


def test_a_reason_to_use_cases_again_is_one_and_is_for_a_trial(place: Any) -> None:
    empty = place.seatrial("run", "--json", "--heldout-again", "  ", "trial.toml")
    assert (empty.code, "--heldout-again is empty" in empty.err) == (2, True)
    ad_hoc = place.seatrial("run", "--json", "--heldout-again", "why", "--", "true")
    assert (ad_hoc.code, "is for a trial" in ad_hoc.err) == (2, True)
