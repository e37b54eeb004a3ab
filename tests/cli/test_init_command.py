"""``seatrial init``: drafts that parse, say only what the script says, and never run it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from seatrial.cli.main import main
from seatrial.core.errors import UsageError
from seatrial.core.trial import Trial
from seatrial.readers.trial_toml import read_trial
from seatrial.schemas import load_schema
from seatrial.workflows.init import Drafted, init

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NO_RUN = "import pathlib\npathlib.Path('marker').write_text('it ran')\n"


def drafted(folder: Path, text: str, *words: str, **rest: Any) -> tuple[Drafted, Trial, str]:
    """Draft from a script with that text; what was found, the trial as read back, its text."""
    script = folder / "train.py"
    script.write_text(NO_RUN + text, encoding="utf-8")
    answer = init(str(script), words, str(folder), rest.pop("environ", {}), **rest)
    assert not (folder / "marker").exists()
    return answer, read_trial(answer.path), Path(answer.path).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["legal-moves", "trainer", "plain-loop"])
def test_every_example_has_a_draft_that_parses(tmp_path: Path, name: str) -> None:
    out = tmp_path / "trial.toml"
    answer = init(str(EXAMPLES / name / "train.py"), [], str(tmp_path), {}, str(out))
    trial = read_trial(answer.path)
    assert trial.name == name
    assert trial.seed == 17
    assert trial.runner.command == ("python", "train.py")
    assert trial.runner.cwd == str(EXAMPLES / name)
    assert trial.output.dir == str(EXAMPLES / name / "out")
    planned = {"legal-moves": 400, "trainer": 100, "plain-loop": 150}
    assert trial.bounds.max_steps == planned[name]


def test_the_example_with_data_has_its_inputs_and_its_held_out_cases(tmp_path: Path) -> None:
    out = str(tmp_path / "trial.toml")
    init(str(EXAMPLES / "legal-moves" / "train.py"), [], str(tmp_path), {}, out)
    trial = read_trial(out)
    data = EXAMPLES / "legal-moves" / "data"
    assert {entry.role: entry.path for entry in trial.inputs} == {
        "model": str(EXAMPLES / "legal-moves" / "base"),
        "train": str(data / "train.jsonl"),
        "validation": str(data / "validation.jsonl"),
    }
    assert trial.heldout is not None
    assert trial.heldout.cases == str(data / "heldout.jsonl")


TRAINER = """
import argparse, os
from pathlib import Path
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainingArguments, set_seed
DATA = Path(__file__).parent / "data"
parser = argparse.ArgumentParser()
parser.add_argument("--train-file", default=str(DATA / "train.jsonl"))
parser.add_argument("--max-steps", type=int, default=50_000)
parser.add_argument("--lr", type=float, required=True)
args = parser.parse_args()
set_seed(41)
rows = load_dataset("json", data_files={"train": args.train_file})
extra = load_dataset("org/corpus", revision="REV", split="validation[:10%]")
model = AutoModelForCausalLM.from_pretrained("org/tiny", revision="REV")
tokenizer = AutoTokenizer.from_pretrained("org/tiny")
token = os.environ["HF_TOKEN"]
key = os.getenv("WANDB_API_KEY")
home = os.environ.get("HOME")
settings = TrainingArguments(
    output_dir="runs/one", max_steps=args.max_steps, metric_for_best_model="accuracy",
    hub_model_id="me/tiny-tuned", hub_private_repo=False,
)
""".replace("REV", "a" * 40)


def test_a_trainer_script_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text('{"text": "x"}\n')
    answer, trial, text = drafted(tmp_path, TRAINER)
    assert trial.bounds.max_steps == 200
    assert "the script plans 50000 (TrainingArguments(max_steps=)" in text
    assert trial.seed == 41
    assert trial.output.dir == str(tmp_path / "runs" / "one")
    assert (trial.output.hub, trial.output.private) == ("me/tiny-tuned", False)
    assert trial.runner.secrets == ("HF_TOKEN",)
    assert "the script reads WANDB_API_KEY if it is set" in text
    assert "HOME" not in text
    assert '# metric = "eval_accuracy"' in text
    assert trial.runner.command == ("python", "train.py", "--lr", "<lr>")
    assert ("argument --lr", "required, line 12: replace <lr>") in answer.not_found
    found = {(e.role, e.path or e.hub, e.revision, e.split) for e in trial.inputs}
    assert found == {
        ("train", str(tmp_path / "data" / "train.jsonl"), None, None),
        ("validation", "org/corpus", "a" * 40, "validation[:10%]"),
        ("model", "org/tiny", "a" * 40, None),
        ("tokenizer", "org/tiny", None, None),
    }
    assert "# not found: revision: seatrial freeze pins" in text


def test_arguments_given_go_before_defaults(tmp_path: Path) -> None:
    _, trial, text = drafted(
        tmp_path, TRAINER, "--lr", "3e-4", "--max-steps=40", environ={"WANDB_API_KEY": "v" * 40}
    )
    assert trial.runner.command == ("python", "train.py", "--lr", "3e-4", "--max-steps=40")
    assert trial.bounds.max_steps == 40
    assert trial.runner.secrets == ("HF_TOKEN", "WANDB_API_KEY")
    assert "v" * 40 not in text


def test_what_a_script_computes_is_not_made_up(tmp_path: Path) -> None:
    answer, trial, text = drafted(
        tmp_path,
        "import time\nfrom transformers import TrainingArguments\n"
        "TrainingArguments(output_dir=f'runs/{time.time()}', max_steps=len(open('x').read()),\n"
        "                  seed=int(time.time()))\n",
    )
    assert {what for what, _ in answer.not_found} == {"max_steps", "seed", "output.dir", "inputs"}
    assert (trial.bounds.max_steps, trial.seed, trial.output.dir) == (200, 17, None)
    assert "# not found: dir: TrainingArguments(output_dir=), line 5 computes it" in text
    assert "\nseed" not in text


LIBRARY = """
from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser
parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig))
script_args, training_args, model_args = parser.parse_args_and_config()
"""


def test_options_of_library_dataclasses_are_taken_as_given(tmp_path: Path) -> None:
    (tmp_path / "sft.yaml").write_text("dataset_name: org/rows\nmax_steps: 33\nseed: 4\n")
    words = ["--config", "sft.yaml", "--model_name_or_path", "org/base", "--output_dir=res"]
    _, trial, text = drafted(tmp_path, LIBRARY, *words)
    assert (trial.bounds.max_steps, trial.seed) == (33, 4)
    assert trial.output.dir == str(tmp_path / "res")
    assert {(entry.role, entry.hub) for entry in trial.inputs} == {
        ("model", "org/base"),
        ("train", "org/rows"),
    }
    assert "dataset_name in sft.yaml" in text
    plain, _, _ = drafted(tmp_path, "import torch\n", *words, force=True)
    assert {what for what, _ in plain.not_found} >= {"output.dir", "inputs"}


def test_a_secret_among_the_arguments_is_refused(tmp_path: Path) -> None:
    environ = {"MY_API_KEY": "abcdef-123456-xyz"}
    for words in (
        ["--hub-token", "q7w8e9r0t1y2"],
        ["--n=hf_" + "aB3dE6gH9jK" * 3 + "x"],
        ["abcdef-123456-xyz"],
    ):
        with pytest.raises(UsageError, match="is a secret") as caught:
            drafted(tmp_path, "x = 1\n", *words, environ=environ)
        assert words[-1].rpartition("=")[2] not in caught.value.message
        assert not (tmp_path / "trial.toml").exists()


def test_an_odd_escape_is_the_scripts_business(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    drafted(tmp_path, "x = '\\d'\n")
    assert len(recwarn) == 0


def test_epochs_are_named_where_steps_are_not_known(tmp_path: Path) -> None:
    _, _, text = drafted(
        tmp_path,
        "from trl import SFTConfig\nSFTConfig(output_dir='o', num_train_epochs=3, max_steps=-1)\n",
    )
    assert "it counts epochs (3, SFTConfig(num_train_epochs=)" in text


def test_a_dataclass_of_arguments_is_an_option_table(tmp_path: Path) -> None:
    _, trial, _ = drafted(
        tmp_path,
        "from dataclasses import dataclass, field\nfrom transformers import HfArgumentParser\n"
        "@dataclass\nclass Mine:\n    corpus: str\n    output_dir: str = 'result'\n"
        "    max_steps: int = field(default=70)\n    tags: list = field(default_factory=list)\n"
        "(mine,) = HfArgumentParser(Mine).parse_args_into_dataclasses()\n",
    )
    assert trial.runner.command == ("python", "train.py", "--corpus", "<corpus>")
    assert trial.bounds.max_steps == 70
    assert trial.output.dir == str(tmp_path / "result")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.yaml", "trainer:\n  max_steps: 60\n  output_dir: 'res ult'\ndata: my/val.csv  # x\n"),
        ("c.json", '{"trainer": {"max_steps": 60, "output_dir": "res ult"}, "d": "my/val.csv"}'),
        ("c.toml", 'd = "my/val.csv"\n[trainer]\nmax_steps = 60\noutput_dir = "res ult"\n'),
    ],
)
def test_a_configuration_file_that_is_named_is_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "val.csv").write_text("a,b\n")
    _, trial, draft = drafted(
        tmp_path,
        "import argparse\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--config')\nargs = parser.parse_args()\n",
        "--config",
        name,
    )
    assert trial.bounds.max_steps == 60
    assert trial.output.dir == str(tmp_path / "res ult")
    assert [entry.role for entry in trial.inputs] == ["validation"]
    assert f"max_steps in {name}" in draft


def test_a_local_model_folder_and_a_test_file_without_cases(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "config.json").write_text("{}")
    (tmp_path / "base" / "model.safetensors").write_text("")
    (tmp_path / "test.csv").write_text("a\n")
    _, trial, text = drafted(
        tmp_path,
        "from transformers import AutoModel\nAutoModel.from_pretrained('base')\nT = 'test.csv'\n",
    )
    assert {entry.role for entry in trial.inputs} == {"model", "heldout"}
    assert trial.heldout is None
    assert "# [heldout]" in text


def test_paths_are_seen_from_where_they_are_there(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("{}\n")
    script = tmp_path / "scripts" / "train.py"
    script.write_text("DATA = 'data/train.jsonl'\n")
    answer = init("scripts/train.py", [], str(tmp_path), {})
    trial = read_trial(answer.path)
    assert answer.path == str(tmp_path / "scripts" / "trial.toml")
    assert trial.runner.cwd == str(tmp_path)
    assert trial.runner.command == ("python", "scripts/train.py")
    assert trial.inputs[0].path == str(tmp_path / "data" / "train.jsonl")


@pytest.mark.parametrize(
    "name",
    ['a "quoted" train', "tab\ttrain", "new\nline train", "ünï 数据 train", "back\\train", "#x'"],
)
def test_odd_paths_survive(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "train.jsonl").write_text("{}\n")
    inner = folder / f"{name}.py"
    inner.write_text(f"D = {str(folder / 'train.jsonl')!r}\nOUT = {name!r}\nout_dir = OUT\n")
    out = tmp_path / "trial.toml"
    answer = init(str(inner), ["--x", name, "\x1b[31m"], str(tmp_path), {}, str(out))
    trial = read_trial(answer.path)
    assert trial.runner.command[2:] == ("--x", name, "\x1b[31m")
    assert trial.output.dir is not None
    assert trial.output.dir.endswith(name)
    assert "\x1b" not in out.read_text()
    found = [entry.path for entry in trial.inputs]
    assert found == ([] if "\n" in name else [str(folder / "train.jsonl")])


def test_a_name_that_toml_cannot_hold_is_refused_in_words(tmp_path: Path) -> None:
    script = os.fsencode(tmp_path) + b"/tr\xff.py"
    with open(script, "w") as handle:
        handle.write("x = 1\n")
    with pytest.raises(UsageError, match="no UTF-8"):
        init(os.fsdecode(script), [], str(tmp_path), {})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"def f(:\n  pass\n", "train.py:1: no Python"),
        (b"#!/bin/bash\necho hello > there\n", "train.py:2: no Python"),
        (b"\x7fELF\x00\x00", "no Python|cannot be read as Python"),
        (b"  \n", "is empty"),
        (b"x = " + b"(" * 5000, "no Python|cannot be read as Python"),
        (b"\xff\xfe\x00x", "no Python|cannot be read as Python"),
    ],
)
def test_what_is_no_script_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "train.py").write_bytes(data)
    with pytest.raises(UsageError, match=said):
        init("train.py", [], str(tmp_path), {})
    assert not (tmp_path / "trial.toml").exists()


def test_a_missing_script_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    for name, said in (("no.py", "no script"), (".", "folder"), ("pipe.py", "regular")):
        with pytest.raises(UsageError, match=said):
            init(name, [], str(tmp_path), {})


def test_a_file_that_is_there_is_kept_without_force(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    (tmp_path / "trial.toml").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        init("train.py", [], str(tmp_path), {})
    assert (tmp_path / "trial.toml").read_text() == "mine"
    init("train.py", [], str(tmp_path), {}, force=True)
    assert read_trial(str(tmp_path / "trial.toml")).bounds.max_steps == 200
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="no file that can be replaced"):
        init("train.py", [], str(tmp_path), {}, "folder", force=True)
    with pytest.raises(UsageError, match="cannot write"):
        init("train.py", [], str(tmp_path), {}, "nowhere/trial.toml")


def test_the_command_prints_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import os\nmax_steps = 30\n" + NO_RUN)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "train.py", "--json", "--", "--lr", "1"]) == 0
    value = json.loads(capsys.readouterr().out)
    jsonschema.validate(value, load_schema("command"))
    assert value["schema"] == "seatrial.init/1"
    assert value["result"]["path"] == str(tmp_path / "trial.toml")
    assert value["result"]["found"]["command"] == ["python", "train.py", "--lr", "1"]
    assert value["result"]["found"]["bounds"]["max_steps"] == 30
    assert {entry["what"] for entry in value["result"]["not_found"]} == {
        "seed",
        "output.dir",
        "inputs",
    }
    assert stat.S_ISREG((tmp_path / "trial.toml").stat().st_mode)
    assert not (tmp_path / "marker").exists()
    assert main(["init", "train.py"]) == 2
    assert "--force" in capsys.readouterr().err


def test_a_yaml_file_that_names_one_part_many_times_ends(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "c.yaml").write_text("\n".join([*lines, "max_steps: 11"]))
    _, trial, _ = drafted(tmp_path, "CONFIG = 'c.yaml'\n")
    assert trial.bounds.max_steps == 11
