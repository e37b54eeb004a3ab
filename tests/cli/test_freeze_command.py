"""``seatrial freeze``: what is in a lock, every drift from it, and what was eased since."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from seatrial.core.check_report import CheckReport
from seatrial.core.errors import SeatrialError, UsageError
from seatrial.core.lock import hash_of
from seatrial.core.trial import Trial
from seatrial.readers.lock_file import lock_path, read_lock
from seatrial.readers.trial_toml import read_trial
from seatrial.schemas import load_schema
from seatrial.store.ledger import open_ledger
from seatrial.store.lock_rows import VerdictRow, locks_of, remember_verdict
from seatrial.store.state_folder import StateFolder
from seatrial.workflows.freeze import Frozen, check, current, freeze, loosening_findings

COMMIT = "c" * 40
TRIAL = f"""
schema = 1
name = "moves"
hypothesis = "It learns."

[bounds]
max_steps = 50
wall = "5m"
memory = "2GiB"

[[input]]
id = "train"
role = "train"
path = "data/train.jsonl"

[[input]]
id = "base"
role = "model"
path = "base"

[[input]]
id = "pinned"
role = "tokenizer"
hub = "org/model"
revision = "{COMMIT}"

[runner]
command = ["{sys.executable}", "train.py", "--config", "cfg.yaml"]
env = {{ BATCH = "8" }}

[output]
dir = "out"

[[gate]]
metric = "eval_loss"
op = "<"
value = 0.5

[heldout]
cases = "data/cases.jsonl"
prompt = "prompt.txt"
validator = "judge.py:validate"
normalize = "judge.py:normalize"
max_new_tokens = 16

[[heldout.gate]]
field = "legal"
op = ">="
value = 0.9

[checks]
require = ["heldout"]
"""
FILES = {
    "trial.toml": TRIAL,
    "train.py": "import helper\nopen('out.json', 'w').write('{}')\n",
    "helper.py": "x = 1\n",
    "cfg.yaml": "lr: 1\n",
    "prompt.txt": "Answer.\n",
    "judge.py": "import rules\nvalidate = len\nnormalize = str.strip\n",
    "rules.py": "y = 1\n",
    "base/config.json": "{}",
    "base/model.safetensors": "weights",
    "data/train.jsonl": '{"a": 1}\n{"a": 2}\n',
    "data/cases.jsonl": '{"id": "1", "prompt": "x"}\n{"id": "2", "prompt": "y"}\n',
}
NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)


@dataclass
class Desk:
    """A trial in a folder of its own, frozen and compared in this process."""

    folder: Path
    said: list[str] = field(default_factory=list)
    hours: int = 0

    @property
    def trial(self) -> Trial:
        return read_trial(str(self.folder / "trial.toml"))

    @property
    def state(self) -> StateFolder:
        return StateFolder(str(self.folder / ".seatrial"))

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def edit(self, old: str, new: str, name: str = "trial.toml") -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, (old, text.count(old))
        self.write(name, text.replace(old, new))

    def freeze(self, **env: str) -> Frozen:
        self.hours += 1
        moment = NOW + timedelta(hours=self.hours)
        return freeze(self.trial, self.state, {**os.environ, **env}, moment, self.said.append)

    def check(self, **env: str) -> CheckReport:
        return check(self.trial, {**os.environ, **env}, self.said.append, context=False)

    def drifts(self) -> list[tuple[str, str]]:
        """Kind and place of every drift that refuses a run."""
        report = self.check()
        found = [
            (finding.message.split(" ")[0], str(finding.place.file))
            for finding in report.findings
            if finding.severity == "warning"
        ]
        assert bool(found) == bool(report.not_judged)
        assert all(finding.remedy for finding in report.findings)
        return found

    def refused(self) -> UsageError:
        with pytest.raises(UsageError) as caught:
            self.freeze()
        assert caught.value.remedy
        assert not os.path.exists(lock_path(str(self.folder / "trial.toml")))
        return caught.value

    def verdict(self, lock: str, word: str, run: str) -> None:
        with open_ledger(self.state.ledger) as ledger:
            decided = (NOW + timedelta(hours=self.hours, minutes=30)).isoformat()
            row = VerdictRow(
                run, str(self.folder / "trial.toml"), lock, word, "completed", 1, "x", decided
            )
            remember_verdict(ledger, row)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path.resolve())
    for name, text in FILES.items():
        made.write(name, text)
    return made


def lock_of(desk: Desk) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((desk.folder / "trial.lock").read_text(encoding="utf-8"))
    return value


# What is in it


def test_a_lock_holds_everything(desk: Desk) -> None:
    frozen = desk.freeze()
    value = lock_of(desk)
    jsonschema.Draft202012Validator(load_schema("lock")).validate(value)
    assert frozen.is_new and frozen.lock.sha256 == value["sha256"]
    assert frozen.path == str(desk.folder / "trial.lock") and frozen.loosenings == ()
    train, base, pinned = value["inputs"]
    assert (train["rows"], train["path"], train["kind"]) == (2, "data/train.jsonl", "file")
    assert [file["path"] for file in base["files"]] == ["config.json", "model.safetensors"]
    assert (pinned["revision"], pinned["repo_type"], pinned["asked"]) == (COMMIT, "model", COMMIT)
    assert {file["path"]: file["what"] for file in value["runner"]["files"]} == {
        "cfg.yaml": "config", "helper.py": "module", "train.py": "script",
    }  # fmt: skip
    assert value["runner"]["env"] == {"BATCH": "8"}
    heldout = value["heldout"]
    assert [case["id"] for case in heldout["cases"]] == ["1", "2"]
    assert heldout["validator"] == "judge.py:validate"
    assert {file["path"]: file["what"] for file in heldout["files"]} == {
        "judge.py": "validator and normalize", "rules.py": "validator and normalize",
    }  # fmt: skip
    assert value["terms"]["bounds"]["max_steps"] == 50
    assert value["context"]["packages"]["pytest"] == pytest.__version__
    assert str(desk.folder) not in json.dumps(value["inputs"]) + json.dumps(value["heldout"])


def test_unchanged_things_have_the_same_lock(desk: Desk, tmp_path: Path) -> None:
    first = desk.freeze()
    text = (desk.folder / "trial.lock").read_text(encoding="utf-8")
    second = desk.freeze()
    assert not second.is_new and second.lock.sha256 == first.lock.sha256
    assert (desk.folder / "trial.lock").read_text(encoding="utf-8") == text
    copy = Desk(tmp_path.resolve() / "elsewhere")
    shutil.copytree(desk.folder, copy.folder, ignore=shutil.ignore_patterns(".seatrial", "*.lock"))
    assert copy.freeze().lock.sha256 == first.lock.sha256
    assert current(desk.trial, os.environ, desk.said.append, context=False) == current(
        desk.trial, os.environ, desk.said.append, first.lock, context=False
    )


def test_a_default_of_the_machine_is_no_term(desk: Desk, monkeypatch: Any) -> None:
    desk.edit('memory = "2GiB"\n', "")
    first = desk.freeze()
    monkeypatch.setattr("seatrial.readers.bounds.memory_bytes", lambda: 2**31)
    assert desk.freeze().lock.sha256 == first.lock.sha256 and desk.drifts() == []


def test_another_name_of_the_trial_file(desk: Desk) -> None:
    (desk.folder / "trial.toml").rename(desk.folder / "small.toml")
    trial = read_trial(str(desk.folder / "small.toml"))
    freeze(trial, desk.state, os.environ, NOW, desk.said.append)
    assert read_lock(trial) is not None and (desk.folder / "small.lock").is_file()
    assert lock_path("/x/odd") == "/x/odd.lock"


def test_paths_elsewhere_are_absolute(desk: Desk) -> None:
    other = desk.folder.parent / f"{desk.folder.name}-other.jsonl"
    other.write_text("{}\n")
    desk.edit('path = "data/train.jsonl"', f'path = "../{other.name}"')
    assert desk.freeze().lock.inputs[0]["path"] == str(other)
    assert desk.drifts() == []
    other.unlink()
    assert desk.drifts() == [("input", str(other))]


def test_links_are_read_through_and_told(desk: Desk) -> None:
    first = desk.freeze().lock.sha256
    (desk.folder / "data/train.jsonl").rename(desk.folder / "data/real.jsonl")
    (desk.folder / "data/train.jsonl").symlink_to("real.jsonl")
    frozen = desk.freeze()
    assert frozen.lock.sha256 == first
    assert lock_of(desk)["context"]["links"] == {"data/train.jsonl": "data/real.jsonl"}


def test_secrets_stay_out_of_the_lock(desk: Desk) -> None:
    token = "hf_Abcdefgh1234567890xyz"
    desk.edit('"--config"', f'"--hub-token", "{token}", "--config"')
    desk.edit('BATCH = "8"', 'PROXY = "http://ada:hunter2secret@proxy"')
    desk.freeze(DB_PASSWORD="correct horse battery")
    text = (desk.folder / "trial.lock").read_text(encoding="utf-8")
    assert token not in text and "hunter2secret" not in text
    assert desk.drifts() == []


# Drift


def test_nothing_drifts_by_itself(desk: Desk) -> None:
    desk.freeze()
    assert desk.drifts() == []
    desk.write("out/checkpoint-1/model.bin", "what a run writes")
    desk.write("out.json", "{}")
    desk.write(".seatrial/runs/x/plan.json", "{}")
    desk.write("data/unrelated.jsonl", "{}")
    os.utime(desk.folder / "train.py")
    assert desk.drifts() == []
    report = desk.check()
    assert report.name == "inputs" and report.findings == () and report.facts["drifts"] == 0


ONE_CASE, TRAIN, CASES = '{"id": "1", "prompt": "x"}\n', "data/train.jsonl", "data/cases.jsonl"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (TRAIN, '{"a": 1}\n', ["input data/train.jsonl"]),
        (TRAIN, "not JSON\n", ["input data/train.jsonl"]),
        (TRAIN, None, ["input data/train.jsonl"]),
        (TRAIN, "", ["input data/train.jsonl"]),
        ("base/config.json", '{"a": 1}', ["input base/config.json"]),
        ("base/extra.json", "{}", ["input base/extra.json"]),
        ("base/model.safetensors", None, ["input base/model.safetensors"]),
        ("train.py", "import helper\n", ["runner train.py"]),
        ("train.py", None, ["runner helper.py", "runner runner.script", "runner train.py"]),
        ("helper.py", "x = 2\n", ["runner helper.py"]),
        ("cfg.yaml", "lr: 2\n", ["runner cfg.yaml"]),
        ("prompt.txt", "Answer!\n", ["prompt prompt.txt"]),
        ("prompt.txt", None, ["prompt prompt.txt"]),
        ("judge.py", "validate = max\n", ["validator judge.py", "validator rules.py"]),
        ("rules.py", "y = 2\n", ["validator rules.py"]),
        (CASES, ONE_CASE + '{"id": "2", "prompt": "z"}\n', ["heldout data/cases.jsonl"] * 2),
        (CASES, ONE_CASE, ["heldout data/cases.jsonl"] * 2),
        (CASES, None, ["heldout data/cases.jsonl"]),
        (CASES, '{"id": "1"}\n', ["heldout data/cases.jsonl"]),
    ],
)
def test_every_file_drifts(desk: Desk, name: str, text: str | None, expected: list[str]) -> None:
    desk.freeze()
    if text is None:
        (desk.folder / name).unlink()
    else:
        desk.write(name, text)
    assert sorted(" ".join(entry) for entry in desk.drifts()) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("max_steps = 50", "max_steps = 60", ("terms", "bounds.max_steps")),
        ('wall = "5m"', 'wall = "6m"', ("terms", "bounds.wall_s")),
        ("value = 0.5", "value = 0.6", ("terms", "gates[eval_loss]")),
        ("value = 0.9", "value = 0.8", ("terms", "heldout_gates[legal]")),
        ('require = ["heldout"]', "require = []", ("terms", "checks.require")),
        ("max_new_tokens = 16", "max_new_tokens = 17", ("terms", "max_new_tokens")),
        ('"It learns."', '"It learns fast."', ("terms", "hypothesis")),
        ('dir = "out"', 'dir = "out2"', ("terms", "output.dir")),
        ('BATCH = "8"', 'BATCH = "9"', ("runner", "runner.env")),
        ('"cfg.yaml"]', '"cfg.yaml", "-v"]', ("runner", "runner.command")),
        ("judge.py:normalize", "judge.py:validate", ("validator", "heldout.normalize")),
        (COMMIT, "d" * 40, ("input", "org/model")),
        ('id = "base"\nrole = "model"', 'id = "base"\nrole = "other"', ("input", "base")),
    ],
)
def test_every_term_drifts(desk: Desk, old: str, new: str, expected: tuple[str, str]) -> None:
    desk.freeze()
    desk.edit(old, new)
    assert desk.drifts() == [expected]


def test_the_name_and_comments_of_a_trial_are_free(desk: Desk) -> None:
    desk.freeze()
    desk.edit('name = "moves"', 'name = "other"  # renamed')
    assert desk.drifts() == []


def test_context_is_listed_and_refuses_nothing(desk: Desk) -> None:
    desk.freeze()
    info = desk.folder / "lib/made_up-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1\n")
    environ = {**os.environ, "PYTHONPATH": str(desk.folder / "lib")}
    report = check(desk.trial, environ, desk.said.append)
    (note,) = report.findings
    assert note.severity == "note" and "packages.made-up" in note.evidence.observed
    assert report.not_judged == ()


# Bad input


def _cycle(desk: Desk) -> None:
    (desk.folder / "base/again").symlink_to(".")


def _dangling(desk: Desk) -> None:
    (desk.folder / "data/train.jsonl").unlink()
    (desk.folder / "data/train.jsonl").symlink_to("gone")


def _pipe(desk: Desk) -> None:
    (desk.folder / "data/train.jsonl").unlink()
    os.mkfifo(desk.folder / "data/train.jsonl")


def _folder_of_the_trial(desk: Desk) -> None:
    desk.edit('path = "base"', 'path = "."')


def _output_inside(desk: Desk) -> None:
    desk.edit('dir = "out"', 'dir = "base/out"')


def _missing(name: str) -> Callable[[Desk], None]:
    return lambda desk: (desk.folder / name).unlink()


def _text(name: str, text: str) -> Callable[[Desk], None]:
    return lambda desk: desk.write(name, text)


def _same_file(desk: Desk) -> None:
    desk.edit('path = "data/train.jsonl"', 'path = "data/cases.jsonl"')


def _offline(desk: Desk) -> None:
    desk.edit(f'revision = "{COMMIT}"', 'revision = "main"')


def _no_revision(desk: Desk) -> None:
    desk.edit(f'revision = "{COMMIT}"\n', "")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_cycle, "leads back into itself"),
        (_dangling, "is a link to gone, which is not there"),
        (_pipe, "is a pipe"),
        (_folder_of_the_trial, "a folder that holds the trial itself"),
        (_output_inside, "a folder that holds output.dir"),
        (_missing("data/train.jsonl"), "input 'train' (data/train.jsonl): there is no such file"),
        (_missing("prompt.txt"), "heldout.prompt (prompt.txt): there is no such file"),
        (_missing("judge.py"), "heldout.validator (judge.py): there is no such file"),
        (_missing("data/cases.jsonl"), "heldout.cases (data/cases.jsonl): there is no such"),
        (_text("data/train.jsonl", ""), "input 'train' (data/train.jsonl) is empty"),
        (_text("data/train.jsonl", "\n \n"), "input 'train' (data/train.jsonl) is empty"),
        (_text("data/train.jsonl", "{}\n{\n"), "(data/train.jsonl), line 2: it is no JSON"),
        (_text("data/cases.jsonl", '{"id": 1}\n'), "line 1: case '1' has neither messages nor"),
        (_text("data/cases.jsonl", '{"id": 1, "prompt": "x"}\n' * 2), "the id '1' is taken"),
        (_same_file, "what is held out must be in no other role"),
        (_offline, "input 'pinned': org/model at 'main' is no fixed commit"),
        (_no_revision, "this machine is set to stay offline"),
    ],
)
def test_what_cannot_be_frozen(desk: Desk, spoil: Callable[[Desk], None], message: str) -> None:
    spoil(desk)
    assert message in desk.refused().message


def test_no_lock_and_a_damaged_one(desk: Desk) -> None:
    with pytest.raises(UsageError, match="was never frozen"):
        desk.check()
    desk.freeze()
    path = desk.folder / "trial.lock"
    good = path.read_text(encoding="utf-8")
    for text in ("{", "[]", '{"schema": "x"}', good.replace('"max_steps": 50', '"max_steps": 51')):
        path.write_text(text, encoding="utf-8")
        for act in (desk.check, desk.freeze):
            with pytest.raises(UsageError, match="cannot be used") as caught:
                act()
            assert "seatrial freeze" in caught.value.remedy
        assert path.read_text(encoding="utf-8") == text
    path.unlink()
    path.mkdir()
    with pytest.raises(SeatrialError):
        desk.freeze()


def test_offline_keeps_the_commit_that_was_pinned(desk: Desk) -> None:
    """The lock itself is what pins; nothing is asked as long as the same is asked for."""
    _offline(desk)
    with pytest.raises(UsageError):
        desk.freeze()
    desk.edit('revision = "main"', f'revision = "{COMMIT}"')
    desk.freeze()
    value = lock_of(desk)
    value["inputs"][2]["asked"] = "main"
    value["sha256"] = _content_hash(value)
    desk.write("trial.lock", json.dumps(value))
    desk.edit(f'revision = "{COMMIT}"', 'revision = "main"')
    assert desk.drifts() == []
    assert desk.freeze().lock.inputs[2]["revision"] == COMMIT
    assert any("stay as the lock has them" in line for line in desk.said)
    desk.edit('revision = "main"', 'revision = "dev"')
    assert desk.drifts() == [("input", "org/model")]


def _content_hash(value: dict[str, Any]) -> str:
    return hash_of({key: value[key] for key in ("schema", "inputs", "heldout", "runner", "terms")})


# Easing


def test_every_easing_stands_beside_the_verdict_before_it(desk: Desk) -> None:
    first = desk.freeze()
    desk.verdict(first.lock.sha256, "inconclusive", "run-0")
    desk.verdict(first.lock.sha256, "fail", "run-1")
    desk.edit("value = 0.9", "value = 0.7")
    desk.edit("max_steps = 50", "max_steps = 500")
    second = desk.freeze()
    told = {entry.loosening.what: entry for entry in second.loosenings}
    assert set(told) == {"bounds.max_steps", "heldout gate legal"}
    gate = told["heldout gate legal"]
    assert gate.verdict is not None and gate.verdict.run_id == "run-1"
    assert gate.text.startswith("heldout gate legal weakened: >= 0.9, now >= 0.7; lock ")
    assert gate.text.endswith("fail, completed (run run-1)")
    findings = loosening_findings(second.loosenings)
    assert {finding.code for finding in findings} == {"bounds.loosened"}
    assert all(finding.severity == "warning" and "run-1" in finding.message for finding in findings)
    # Something else changes: it is still easier than what failed.
    desk.edit('"It learns."', '"It learns well."')
    assert {entry.loosening.what for entry in desk.freeze().loosenings} == set(told)
    # Put back: nothing is eased any more.
    desk.edit("value = 0.7", "value = 0.9")
    desk.edit("max_steps = 500", "max_steps = 50")
    assert desk.freeze().loosenings == ()


def test_a_stricter_trial_eases_nothing(desk: Desk) -> None:
    desk.freeze()
    desk.edit("value = 0.5", "value = 0.4")
    desk.edit("max_steps = 50", "max_steps = 40")
    desk.edit("max_new_tokens = 16", "max_new_tokens = 8")
    assert desk.freeze().loosenings == ()


@pytest.mark.parametrize("lost", [".seatrial", "trial.lock"])
def test_either_memory_is_enough(desk: Desk, lost: str) -> None:
    desk.freeze()
    desk.edit("value = 0.5", "value = 0.6")
    desk.freeze()
    path = desk.folder / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    (entry,) = desk.freeze().loosenings
    assert entry.loosening.what == "gate eval_loss" and "no verdict on record" in entry.text


def test_easier_cases_and_judges_are_told(desk: Desk) -> None:
    desk.freeze()
    desk.write("data/cases.jsonl", '{"id": "1", "prompt": "x"}\n')
    desk.write("rules.py", "y = 0\n")
    assert {(e.loosening.what, e.loosening.how) for e in desk.freeze().loosenings} == {
        ("held-out cases", "shrunk"),
        ("held-out validator", "changed"),
        ("held-out normalize", "changed"),
    }


def test_ancestors_are_kept_newest_first(desk: Desk) -> None:
    shas = [desk.freeze().lock.sha256]
    for steps in (51, 52, 53):
        desk.edit(f"max_steps = {steps - 1}", f"max_steps = {steps}")
        shas.append(desk.freeze().lock.sha256)
    assert [entry["sha256"] for entry in lock_of(desk)["earlier"]] == shas[2::-1]
    with open_ledger(desk.state.ledger) as ledger:
        rows = locks_of(ledger, str(desk.folder / "trial.toml"))
    assert [row.sha256 for row in rows] == shas


# The command


def _command(desk: Desk, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "freeze", *words],
        cwd=desk.folder,
        env={**os.environ, "SEATRIAL_DIR": desk.state.path, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_command(desk: Desk) -> None:
    none = _command(desk, "--check")
    assert none.returncode == 2 and "seatrial freeze" in none.stderr
    done = _command(desk)
    assert done.returncode == 0, done.stderr
    assert re.match(
        r"wrote trial\.lock  [0-9a-f]{12}\n  3 inputs, 3 runner files, 2 held", done.stdout
    )
    same = _command(desk, "--check", "--json")
    assert same.returncode == 0
    told = json.loads(same.stdout)
    jsonschema.validate(told, load_schema("command"))
    assert told["findings"] == [] and told["result"]["drifted"] is False
    desk.edit("value = 0.5", "value = 0.6")
    drifted = _command(desk, "--check", "trial.toml")
    assert drifted.returncode == 3
    assert "gates[eval_loss]" in drifted.stdout and "next: " in drifted.stdout
    told = json.loads(_command(desk, "--check", "--json").stdout)
    jsonschema.validate(told, load_schema("command"))
    assert told["exit_code"] == 3 and told["findings"][0]["code"] == "inputs.drift"
    again = json.loads(_command(desk, "--json").stdout)
    jsonschema.validate(again, load_schema("command"))
    assert again["result"]["loosenings"][0]["what"] == "gate eval_loss"
    assert again["findings"][0]["code"] == "bounds.loosened"


def test_the_command_refuses(desk: Desk) -> None:
    desk.write("data/train.jsonl", "{\n")
    done = _command(desk, "--json")
    assert done.returncode == 2 and "line 1" in json.loads(done.stdout)["result"]["message"]
    assert "next: sed -n 1p" in done.stderr
    assert _command(desk, "none.toml").returncode == 2


def test_a_token_in_a_hypothesis_does_not_land_in_the_lock(desk: Desk) -> None:
    token = "hf_" + "Q7wE3rT9yU1iO5pA2sD4fG6hJ8kL0zX" + "c5V"
    text = (desk.folder / "trial.toml").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("hypothesis")]
    desk.write("trial.toml", f'hypothesis = "It learns {token}."\n' + "\n".join(kept) + "\n")
    frozen = desk.freeze()
    assert "It learns" in frozen.lock.terms["hypothesis"]
    assert token not in Path(frozen.path).read_text()
