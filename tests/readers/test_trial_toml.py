"""trial.toml: every fault is named with file, line, key and what would be right."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import pytest

from seatrial.core.errors import UsageError
from seatrial.core.trial import GateSpec, HeldoutGate
from seatrial.readers.bounds import BoundFlags
from seatrial.readers.trial_toml import read_trial

GOOD = """\
schema = 1
name = "moves"

[bounds]
max_steps = 60
wall = "10m"

[runner]
command = ["python", "train.py", "--lr", "3e-4", ""]
"""


def write(folder: Path, text: str | bytes, name: str = "trial.toml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_the_smallest_trial_has_the_contracts_defaults(tmp_path: Path) -> None:
    trial = read_trial(write(tmp_path, GOOD))
    assert trial.runner.command == ("python", "train.py", "--lr", "3e-4", "")
    assert trial.runner.cwd == str(tmp_path)
    assert (trial.seed, trial.engine, trial.rehearse, trial.output.private) == (
        17,
        "local",
        False,
        True,
    )
    assert trial.file == str(tmp_path / "trial.toml")
    assert not trial.ad_hoc
    assert (trial.bounds.max_steps, trial.bounds.wall_s) == (60, 600.0)
    assert trial.bounds.memory_bytes > 2**28
    assert str(trial.bounds.money) == "0 USD"
    assert dict(trial.bounds.sources) == {
        "max_steps": "trial",
        "wall_s": "trial",
        "memory_bytes": "default",
        "money": "default",
    }


def test_every_key_of_the_contract_is_read_and_paths_are_seen_from_the_file(
    tmp_path: Path,
) -> None:
    path = write(
        tmp_path,
        """\
schema = 1
name = "n"
hypothesis = "h"
seed = 3
[bounds]
max_steps = 5
wall = "90s"
memory = "4GiB"
money = "2.00 USD"
[[input]]
id = "train"
role = "train"
path = "data/train.jsonl"
[[input]]
id = "base"
role = "model"
hub = "org/model"
revision = "abc"
split = "train"
[runner]
command = ["python", "t.py"]
dry_run = ["python", "t.py", "--dry"]
env = { MODE = "fast" }
secrets = ["HF_TOKEN"]
cwd = "../code"
[output]
dir = "out"
hub = "me/model"
private = false
[[gate]]
metric = "refusal_rate"
op = "<="
value = 1
from_step = 2
window = 3
[heldout]
cases = "cases.jsonl"
prompt = "p.txt"
validator = "v.py:validate"
normalize = "v.py:normalize"
loader = "v.py:load"
max_new_tokens = 32
[[heldout.gate]]
field = "legal"
op = ">="
value = 0.9
[checks]
require = ["heldout", "resume"]
disable = ["gate.stall", "shadow"]
[resume]
command = ["python", "t.py", "--resume"]
[engine]
kind = "local"
rehearse = true
""",
    )
    trial = read_trial(path)
    assert trial.bounds.memory_bytes == 4 * 2**30
    assert trial.bounds.money.amount == Decimal("2.00")
    assert trial.inputs[0].path == str(tmp_path / "data" / "train.jsonl")
    assert (trial.inputs[1].hub, trial.inputs[1].path) == ("org/model", None)
    assert trial.runner.cwd == str(tmp_path.parent / "code")
    assert trial.runner.env == {"MODE": "fast"}
    assert trial.runner.secrets == ("HF_TOKEN",)
    assert trial.output.dir == str(tmp_path / "out")
    assert trial.gates == (GateSpec("refusal_rate", "<=", 1.0, 2, 3),)
    assert trial.heldout is not None
    assert trial.heldout.validator == str(tmp_path / "v.py:validate")
    assert trial.heldout.gates == (HeldoutGate("legal", ">=", 0.9),)
    assert trial.require == ("heldout", "resume")
    assert trial.resume_command == ("python", "t.py", "--resume")
    assert trial.rehearse


def with_line(line: str, after: str) -> str:
    return GOOD.replace(after + "\n", f"{after}\n{line}\n", 1)


FAULTS = {
    "unknown key": (
        with_line('wal = "5m"', "max_steps = 60"),
        ":6: unknown key 'bounds.wal'; bounds has: max_steps, wall, memory, money",
        "did you mean wall?",
    ),
    "unknown table": (
        GOOD + "[runer]\nx = 1\n",
        ":10: unknown key 'runer'",
        "did you mean runner?",
    ),
    "unknown key far from any": (
        with_line("zzz = 1", 'name = "moves"'),
        ":3: unknown key 'zzz'; the trial has: schema, name, hypothesis",
        "seatrial schema trial",
    ),
    "unknown key in a list": (
        GOOD + '[[gate]]\nmetric = "m"\nop = "<"\nvalue = 1\n[[gate]]\nmetric = "m"\n'
        'op = "<"\nvalue = 1\nform_step = 3\n',
        ":18: unknown key 'gate[1].form_step'",
        "did you mean from_step?",
    ),
    "repeated key": (
        with_line("max_steps = 5", "max_steps = 60"),
        ":6: max_steps is given twice",
        "",
    ),
    "repeated table": (GOOD + "[bounds]\n", ":10: [bounds] is given twice", ""),
    "not TOML": (GOOD + "what is this\n", ":10: this is not TOML: Expected '='", ""),
    "no steps": (
        GOOD.replace("max_steps = 60\n", ""),
        "[bounds] lacks max_steps; a trial without bounds is refused",
        "add under [bounds]: max_steps = 200",
    ),
    "no bounds": (
        GOOD.replace('[bounds]\nmax_steps = 60\nwall = "10m"\n', ""),
        "[bounds] lacks max_steps and wall",
        "",
    ),
    "negative steps": (
        GOOD.replace("= 60", "= -5"),
        ":5: bounds.max_steps = -5 must be at least 1",
        "",
    ),
    "zero steps": (GOOD.replace("= 60", "= 0"), "bounds.max_steps = 0 must be at least 1", ""),
    "steps as text": (GOOD.replace("= 60", '= "60"'), "'60' must be a whole number", ""),
    "steps as truth": (GOOD.replace("= 60", "= true"), "= true must be a whole number", ""),
    "steps as fraction": (GOOD.replace("= 60", "= 60.0"), "60.0 must be a whole number", ""),
    "endless steps": (GOOD.replace("= 60", "= 99999999999"), "must be at most 1000000000", ""),
    "wall without unit": (
        GOOD.replace('"10m"', '"600"'),
        ":6: bounds.wall: '600' is not a dur",
        "",
    ),
    "wall as number": (
        GOOD.replace('"10m"', "600"),
        "bounds.wall = 600 must be text in quotes",
        "",
    ),
    "wall of zero": (GOOD.replace('"10m"', '"0s"'), "must be above zero", ""),
    "wall below zero": (GOOD.replace('"10m"', '"-5m"'), "'-5m' is not a duration", ""),
    "memory unit": (with_line('memory = "4Gb"', "[bounds]"), "'4Gb' is not a size", ""),
    "money sign": (with_line('money = "$2"', "[bounds]"), "'$2' is not money", ""),
    "no runner": (GOOD.split("[runner]", maxsplit=1)[0], "runner is missing", "add runner"),
    "empty command": (
        GOOD.replace('["python", "train.py", "--lr", "3e-4", ""]', "[]"),
        ":9: runner.command is empty",
        "",
    ),
    "blank program": (GOOD.replace('["python"', '[" "'), "runner.command is empty", ""),
    "command as text": (
        GOOD.replace('["python", "train.py", "--lr", "3e-4", ""]', '"python train.py"'),
        "runner.command = 'python train.py' must be a list in square brackets",
        "",
    ),
    "number in command": (
        GOOD.replace('"3e-4"', "3e-4"),
        "[3] = 0.0003 must be text in quotes",
        "",
    ),
    "NUL in command": (GOOD.replace('"3e-4"', '"a\\u0000b"'), "NUL byte", ""),
    "gate operator": (
        GOOD + '[[gate]]\nmetric = "m"\nop = "=>"\nvalue = 1\n',
        ":12: gate[0].op = '=>' is not known; it is one of <, <=, >, >=, ==, !=",
        "",
    ),
    "gate without value": (
        GOOD + '[[gate]]\nmetric = "m"\nop = "<"\n',
        ":10: gate[0].value is missing",
        "add gate[0].value",
    ),
    "gate on nan": (
        GOOD + '[[gate]]\nmetric = "m"\nop = "<"\nvalue = nan\n',
        "nan is no threshold",
        "",
    ),
    "gate on truth": (
        GOOD + '[[gate]]\nmetric = "m"\nop = "<"\nvalue = true\n',
        "gate[0].value = true must be",
        "",
    ),
    "check to require": (
        GOOD + '[checks]\nrequire = ["heldaut"]\n',
        "checks.require[0] = 'heldaut' is not known; it is one of probe.steps, checkpoint",
        'write "heldout"',
    ),
    "gate to disable": (
        GOOD + '[checks]\ndisable = ["gate.stal"]\n',
        "is not known",
        'write "gate.stall"',
    ),
    "bound to disable": (GOOD + '[checks]\ndisable = ["gate.wall"]\n', "is not known", ""),
    "both ways": (
        GOOD + '[checks]\nrequire = ["resume"]\ndisable = ["resume"]\n',
        "under checks.require and checks.disable",
        "",
    ),
    "role": (GOOD + '[[input]]\nid = "a"\nrole = "trian"\npath = "x"\n', "", 'write "train"'),
    "input of nothing": (GOOD + '[[input]]\nid = "a"\nrole = "train"\n', "either path or hub", ""),
    "two inputs of one id": (
        GOOD + '[[input]]\nid = "a"\nrole = "train"\npath = "x"\n' * 2,
        "two inputs have the id 'a'",
        "",
    ),
    "validator form": (
        GOOD + '[heldout]\ncases = "c"\nvalidator = "v.py"\n',
        "must be written like file.py:function",
        "",
    ),
    "secret in env": (
        with_line('env = { HF_TOKEN = "hf_planted" }', "[runner]"),
        "HF_TOKEN looks like a secret",
        "",
    ),
    "env name": (with_line('env = { "A B" = "1" }', "[runner]"), "plain name", ""),
    "env and secret": (
        with_line('env = { X = "1" }\nsecrets = ["X"]', "[runner]"),
        "X is under runner.env and runner.secrets",
        "",
    ),
    "schema number": (GOOD.replace("schema = 1", "schema = 2"), "schema is 2", "write schema = 1"),
    "schema truth": (GOOD.replace("schema = 1", "schema = true"), "schema is True", ""),
    "no schema": (GOOD.replace("schema = 1\n", ""), "schema is missing", "write schema = 1"),
    "empty file": ("", "schema is missing", ""),
    "not UTF-8": (
        GOOD.encode() + b"# caf\xe9\n",
        ":10: byte 0xe9 is not UTF-8",
        "save it as UTF-8",
    ),
    "binary": (b"\x7fELF\0\0", "is binary (a NUL byte at 4)", ""),
    "too large": (b"#" * 1_100_000, "larger than 1048576 bytes", ""),
    "deep": (GOOD + "x = " + "[" * 5000 + "]" * 5000, "", ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(tmp_path: Path, name: str) -> None:
    text, message, remedy = FAULTS[name]
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_trial(path)
    assert caught.value.exit_code == 2
    assert path in caught.value.message
    assert message in caught.value.message
    assert remedy in caught.value.remedy
    assert "hf_planted" not in caught.value.message + caught.value.remedy
    assert os.listdir(tmp_path) == ["trial.toml"]


def test_more_faults_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("= 60", "= -5").replace('"10m"', "600"))
    with pytest.raises(UsageError, match=r"\(and 1 more\)"):
        read_trial(path)


def test_a_flag_goes_before_the_file_and_can_supply_a_bound(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("max_steps = 60\n", ""))
    bounds = read_trial(path, BoundFlags(max_steps="7", memory="1GiB")).bounds
    assert (bounds.max_steps, bounds.memory_bytes, bounds.wall_s) == (7, 2**30, 600.0)
    assert bounds.sources["max_steps"] == bounds.sources["memory_bytes"] == "flag"
    assert not bounds.is_default("wall_s")


def test_missing_files_folders_and_pipes_are_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in (
        ("nothing.toml", "there is no trial file"),
        ("", "it is a folder"),
        ("pipe", "it is no regular file"),
        ("a\0b", "NUL byte"),
    ):
        with pytest.raises(UsageError, match=words):
            read_trial(os.path.join(tmp_path, name))


def test_an_unreadable_file_is_named(as_user: Path) -> None:
    path = write(as_user, GOOD)
    os.chmod(path, 0)
    with pytest.raises(UsageError, match="Permission denied"):
        read_trial(path)


def test_a_link_is_seen_from_where_the_file_really_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = write(tmp_path / "real", GOOD)
    os.symlink(real, tmp_path / "link.toml")
    trial = read_trial(str(tmp_path / "link.toml"))
    assert (trial.file, trial.runner.cwd) == (real, str(tmp_path / "real"))


def test_an_unnamed_trial_is_called_after_its_file_or_folder(tmp_path: Path) -> None:
    text = GOOD.replace('name = "moves"\n', "")
    (tmp_path / "my moves").mkdir()
    assert read_trial(write(tmp_path / "my moves", text)).name == "my moves"
    assert read_trial(write(tmp_path, text, "long.toml")).name == "long"
