"""`seatrial preflight` and `seatrial rules` as typed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from seatrial.core.child import ChildAnswer, ChildRequest
from seatrial.core.errors import UsageError
from seatrial.core.trial import Bounds, RunnerSpec, Trial
from seatrial.schemas import load_schema
from seatrial.store.state_folder import StateFolder
from seatrial.workflows.preflight import PreflightRequest, preflight_file, preflight_run

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
open("ran", "w").write("it ran")
"""
TRIAL = """
schema = 1
name = "t"
[bounds]
max_steps = 10
wall = "5m"
memory = "1GiB"
[runner]
command = {command}
"""


def result_of(answer: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(answer.out)
    jsonschema.validate(value, load_schema("command"))
    assert value["schema"] == "seatrial.preflight/1"
    assert value["exit_code"] == answer.code
    return value


def never(_request: ChildRequest) -> ChildAnswer:
    raise AssertionError("something was started")


def test_a_clean_script_passes_and_nothing_runs(place: Any) -> None:
    path = place.write("train.py", SCRIPT)
    answer = place.seatrial("preflight", "train.py", "--json", "--", "--steps", "4")
    value = result_of(answer)
    assert answer.code == 0
    assert value["findings"] == []
    facts = value["result"]["facts"]
    assert facts["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert facts["states"]["environment.argv_unknown_flag"] == "found"
    assert not (place.folder / "ran").exists()
    with sqlite3.connect(place.folder / ".seatrial" / "ledger.db") as ledger:
        rows = ledger.execute("SELECT file, sha256, passed FROM preflights").fetchall()
    assert rows == [(str(path.resolve()), facts["sha256"], 1)]


@pytest.mark.parametrize(
    ("words", "code", "finding"),
    [
        (("--", "--stepz", "4"), 1, "environment.argv_unknown_flag"),
        (("--", "--steps", "four"), 1, "environment.argv_rejected"),
        (("--", "--ste", "4"), 0, "environment.argv_abbreviated"),
        (("--require", "not there", "--require", "argparse"), 1, "inputs.required_text_missing"),
        (("--forbid", "it ran"), 1, "inputs.forbidden_text_found"),
        (("--require", "argparse", "--forbid", "never"), 0, None),
    ],
)
def test_a_fault_decides_the_exit_code(
    place: Any, words: tuple[str, ...], code: int, finding: str | None
) -> None:
    place.write("train.py", SCRIPT)
    value = result_of(place.seatrial("preflight", "train.py", "--json", *words))
    assert value["exit_code"] == code
    assert [f["code"] for f in value["findings"]] == ([] if finding is None else [finding])
    if finding == "inputs.forbidden_text_found":
        assert value["findings"][0]["place"]["line"] == 6


def test_any_file_can_be_looked_at(place: Any) -> None:
    place.write("train.sh", "set -e\npython train.py --steps 3\n")
    answer = place.seatrial("preflight", "train.sh", "--require", "set -e", "--forbid", "|| true")
    assert answer.code == 0
    assert "sha256" in answer.out
    assert "no Python script" in answer.out
    (place.folder / "weights.bin").write_bytes(b"\0\1\2" * 1000)
    assert place.seatrial("preflight", "weights.bin", "--forbid", "x").code == 0


def test_prose_names_place_and_next_command(place: Any) -> None:
    place.write("train.py", SCRIPT)
    answer = place.seatrial("preflight", "train.py", "--", "--stepz", "4")
    assert answer.code == 1
    assert "error   environment.argv_unknown_flag" in answer.out
    assert "did you mean --steps?" in answer.out
    assert "1 errors" in answer.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("missing.py",), "cannot be read"),
        (("train.py", "--require", ""), "is empty"),
        (("train.py", "--dry-run"), "needs a trial"),
        (("binary.py",), "NUL"),
        ((".",), "no regular file"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(place: Any, words: tuple[str, ...], says: str) -> None:
    place.write("train.py", SCRIPT)
    (place.folder / "binary.py").write_bytes(b"x\0")
    answer = place.seatrial("preflight", *words)
    assert answer.code == 2
    assert says in answer.err


def test_a_secret_in_the_words_is_in_no_output_and_no_file(place: Any) -> None:
    secret = "hf_" + "Q9w8E7r6T5y4U3i2O1p0"
    place.write("train.py", SCRIPT)
    answer = place.seatrial("preflight", "train.py", "--json", "--", "--token", secret)
    assert answer.code == 1
    assert "secrets.in_command" in {f["code"] for f in result_of(answer)["findings"]}
    assert secret not in answer.out + answer.err
    for path in (place.folder / ".seatrial").rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()


def test_a_trial_is_judged_with_its_own_command(place: Any) -> None:
    place.write("train.py", SCRIPT)
    command = json.dumps(["python", "train.py", "--stepz", "3"])
    place.write("trial.toml", TRIAL.format(command=command))
    value = result_of(place.seatrial("preflight", "trial.toml", "--json"))
    assert value["exit_code"] == 1
    assert value["findings"][0]["code"] == "environment.argv_unknown_flag"
    place.write("trial.toml", TRIAL.format(command=json.dumps(["python", "train.py"])))
    assert place.seatrial("preflight", "trial.toml", "--require", "argparse").code == 0


def test_a_trial_whose_runner_cannot_be_read_is_not_judged(place: Any) -> None:
    place.write("trial.toml", TRIAL.format(command=json.dumps(["make", "train"])))
    value = result_of(place.seatrial("preflight", "trial.toml", "--json", "--require", "x"))
    assert value["exit_code"] == 3
    assert {n["code"] for n in value["result"]["not_judged"] if n["required"]} == {
        "environment.script_unread",
        "inputs.required_text_missing",
    }


def trial_of(folder: Path, *, ad_hoc: bool) -> Trial:
    runner = RunnerSpec(("python", "train.py", "--stepz", "1"), cwd=str(folder))
    return Trial("t", runner, Bounds(10, 60.0, 2**30), ad_hoc=ad_hoc)


def test_a_run_refuses_bytes_that_were_not_preflighted(tmp_path: Path) -> None:
    state = StateFolder(str(tmp_path / ".seatrial"))
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    trial = trial_of(tmp_path, ad_hoc=True)
    environ = {"PATH": os.defpath, "SEATRIAL_DIR": state.path}
    report = preflight_run(trial, environ, ask=never, state=state)
    assert not os.path.exists(state.ledger)  # nothing is made by looking
    assert [f.severity for f in report.findings] == ["warning", "note"]
    preflight_file(PreflightRequest(str(path)), str(tmp_path), environ, ask=never)
    preflight_run(trial, environ, ask=never, state=state)
    path.write_text(SCRIPT + "\n# changed\n")
    with pytest.raises(UsageError, match="is not the file that was preflighted"):
        preflight_run(trial, environ, ask=never, state=state)
    preflight_file(PreflightRequest(str(path)), str(tmp_path), environ, ask=never)
    preflight_run(trial, environ, ask=never, state=state)


def test_a_trial_gets_the_severities_of_a_trial(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    trial = trial_of(tmp_path, ad_hoc=False)
    report = preflight_run(
        trial,
        {"PATH": os.defpath},
        ask=lambda _request: ChildAnswer("not_started", error="no such program"),
        state=StateFolder(str(tmp_path / "s")),
    )
    errors = [f.code for f in report.findings if f.severity == "error"]
    assert errors == ["environment.argv_unknown_flag"]
    assert report.name == "preflight"
    assert report.facts["rules"] == len(report.facts["states"])
    assert dataclasses.asdict(report)["facts"]["sha256"]


def test_rules_are_listed_and_explained(place: Any) -> None:
    listing = place.seatrial("rules")
    assert listing.code == 0
    assert "best_checkpoint.direction_wrong" in listing.out
    assert "gate  " in listing.out
    page = place.seatrial("rules", "best_checkpoint.direction_wrong")
    assert "What it cannot see:" in page.out
    value = json.loads(place.seatrial("rules", "--json").out)
    jsonschema.validate(value, load_schema("command"))
    assert {entry["kind"] for entry in value["result"]} == {"rule", "gate"}
    wrong = place.seatrial("rules", "best_checkpoint.direction")
    assert wrong.code == 2
    assert "seatrial rules best_checkpoint.direction_wrong" in wrong.err


def test_the_document_of_the_rules_is_current() -> None:
    from seatrial.workflows.rules import markdown

    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert text == markdown(), "write it again: seatrial rules --markdown > docs/rules.md"


def test_a_text_that_is_no_utf8_is_looked_for_as_its_bytes(place: Any) -> None:
    place.write("run.sh", "set -e\n")
    missing = place.seatrial("preflight", "run.sh", "--require", "\udcff")
    assert missing.code == 1
    (place.folder / "run.sh").write_bytes(b"set -e \xff\n")
    assert place.seatrial("preflight", "run.sh", "--require", "\udcff").code == 0
