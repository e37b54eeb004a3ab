"""The exact command line goes through the script's own parser, and nothing behind it runs."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.child import Ask
from seatrial.core.finding import Finding, NotJudged
from seatrial.core.redaction import Redactor
from seatrial.preflight.argv_child import parsed_arguments
from seatrial.preflight.ask_child import Asked
from seatrial.preflight.runner_words import runner_words

Parse = Callable[..., tuple[list[Finding], list[NotJudged], dict[str, Any]]]
PLAIN = """
import argparse
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=1e-3)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--out", type=Path, default=Path("o"))
parser.add_argument("--fast", action="store_true")
args = parser.parse_args()
open("marker", "w").write("it went on")
"""


@pytest.fixture
def parse(tmp_path: Path, ask: Ask, how: Asked) -> Parse:
    def run(text: str, *args: str, command: tuple[str, ...] | None = None, **caps: Any) -> Any:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        command = (*(command or (sys.executable, "train.py")), *args)
        words = runner_words(command, str(tmp_path), how.env)
        answer = parsed_arguments(
            words, script.read_bytes(), ask, replace(how, **caps), Redactor(["hunter2hunter2"])
        )
        assert not (tmp_path / "marker").exists()
        return answer

    return run


def test_a_command_line_that_fits_is_silent(parse: Parse) -> None:
    for args in (
        ("--steps", "3"),
        ("--steps=3", "--learning-rate", "-0.5", "--fast"),
        ("--steps", "3", "--out", "x y"),
    ):
        findings, unjudged, values = parse(PLAIN, *args)
        assert (findings, unjudged) == ([], [])
        assert values["steps"] == 3
    assert values["out"] == "x y"


@pytest.mark.parametrize(
    ("args", "code", "severity", "said"),
    [
        (("--steps", "3", "--lr", "1"), "refused", "error", "unrecognized arguments: --lr 1"),
        (("--steps", "three"), "refused", "error", "invalid int value: 'three'"),
        ((), "refused", "error", "required: --steps"),
        (("--steps", "3", "stray"), "refused", "error", "unrecognized arguments: stray"),
        (("--help",), "refused", "error", "only prints a text and leaves"),
        (("--steps", "3", "--learn", "1"), "abbreviated", "warning", "taken as --learning-rate"),
        (("--st=3",), "abbreviated", "warning", "--st is taken as --steps"),
    ],
)
def test_a_planted_argument_is_found(
    parse: Parse, args: tuple[str, ...], code: str, severity: str, said: str
) -> None:
    (found,), unjudged, _ = parse(PLAIN, *args)
    assert unjudged == []
    assert (found.code, found.severity) == (f"environment.arguments_{code}", severity)
    assert said in found.message
    assert (found.place.line, found.confidence) == (9, "proven")


@pytest.mark.parametrize(
    ("call", "severity", "said"),
    [
        ("args, _ = parser.parse_known_args()", "error", "dropped without a word"),
        ("args = parser.parse_known_args()[0]", "error", "dropped without a word"),
        ("args, rest = parser.parse_known_args()\nprint(rest)", "note", "goes on with it"),
        ("both = parser.parse_known_args()", "warning", "dropped without a word"),
    ],
)
def test_words_that_parse_known_args_swallows(
    parse: Parse, call: str, severity: str, said: str
) -> None:
    text = PLAIN.replace("args = parser.parse_args()", call)
    (found,), _, values = parse(text, "--steps", "3", "--lr", "1e-4")
    assert (found.code, found.severity) == ("environment.arguments_dropped", severity)
    assert said in found.message
    assert "--lr" in found.message
    assert values["steps"] == 3
    assert parse(text, "--steps", "3")[0] == []


SUB = """
import argparse
parser = argparse.ArgumentParser()
sub = parser.add_subparsers(required=True)
one = sub.add_parser("fit")
one.add_argument("--epochs", type=int)
args = parser.parse_args()
"""


def test_subcommands_are_parsed(parse: Parse) -> None:
    assert parse(SUB, "fit", "--epochs", "2")[0] == []
    (found,), _, _ = parse(SUB, "fit", "--ep", "2")
    assert found.code == "environment.arguments_abbreviated"
    (found,), _, _ = parse(SUB, "fix")
    assert found.code == "environment.arguments_refused"


def test_a_parser_without_abbreviations_refuses_them(parse: Parse) -> None:
    text = PLAIN.replace("ArgumentParser()", "ArgumentParser(allow_abbrev=False)")
    (found,), _, _ = parse(text, "--steps", "3", "--learn", "1")
    assert found.code == "environment.arguments_refused"


DATACLASS = """
from dataclasses import dataclass, field
from transformers import HfArgumentParser
@dataclass
class Mine:
    corpus: str
    max_steps: int = field(default=7)
(mine,) = HfArgumentParser(Mine).parse_args_into_dataclasses()
open("marker", "w")
"""


@pytest.mark.hf
def test_dataclass_parsers_of_transformers(parse: Parse) -> None:
    findings, unjudged, values = parse(DATACLASS, "--corpus", "x")
    assert (findings, unjudged) == ([], [])
    assert values == {"corpus": "x", "max_steps": 7}
    (found,), _, _ = parse(DATACLASS, "--corpus", "x", "--max_step", "9", "--lr", "1")
    assert found.code == "environment.arguments_refused"
    text = DATACLASS.replace("(mine,) =", "mine, rest =").replace(
        "dataclasses()", "dataclasses(return_remaining_strings=True)"
    )
    (found,), _, _ = parse(text, "--corpus", "x", "--lr", "1")
    assert (found.code, found.severity) == ("environment.arguments_dropped", "error")


TRL = """
from dataclasses import dataclass
from trl import TrlParser
@dataclass
class Mine:
    corpus: str
    max_steps: int = 7
(mine,) = TrlParser(Mine).parse_args_and_config()
open("marker", "w")
"""


@pytest.mark.hf
def test_configuration_files_of_trl(parse: Parse, tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("corpus: y\nmax_steps: 9\n")
    (tmp_path / "typo.yaml").write_text("corpus: y\nmax_stepz: 9\n")
    findings, unjudged, values = parse(TRL, "--config", "good.yaml")
    assert (findings, unjudged, values["max_steps"]) == ([], [], 9)
    (found,), _, _ = parse(TRL, "--config", "typo.yaml")
    assert (found.code, found.severity) == ("environment.arguments_refused", "error")
    assert "max_stepz" in found.message
    text = TRL.replace("_config()", "_config(fail_with_unknown_args=False)")
    (found,), _, _ = parse(text, "--config", "typo.yaml")
    assert (found.code, found.severity) == ("environment.arguments_dropped", "error")
    assert "dropped without a word: --max_stepz 9" in found.message


def test_defaults_that_a_script_asks_its_parser_for_are_not_the_command_line(parse: Parse) -> None:
    parsing = "args = parser.parse_args()"
    text = PLAIN.replace(parsing, f"defaults = parser.parse_args(['--steps=1'])\n{parsing}")
    assert parse(text, "--steps", "3")[:2] == ([], [])
    (found,), _, _ = parse(text, "--steps", "3", "--lr", "1")
    assert found.code == "environment.arguments_refused"
    only = PLAIN.replace(parsing, "args = parser.parse_args(['--steps=1'])")
    findings, (entry,), _ = parse(only.split("open(")[0], "--lr", "1")
    assert findings == []
    assert "never parsed its arguments" in entry.reason


def test_a_library_that_parses_something_of_its_own_is_left_alone(
    parse: Parse, tmp_path: Path
) -> None:
    lib = tmp_path / "site-packages"
    lib.mkdir()
    (lib / "lib.py").write_text(
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--own')\n"
        "assert p.parse_args(['--own', '1']).own == '1'\n"
    )
    text = "import sys\nsys.path.append('site-packages')\nimport lib\n" + PLAIN
    assert parse(text, "--steps", "3")[0] == []


def test_a_script_without_a_parser_is_not_run(parse: Parse) -> None:
    text = "import sys\nopen('marker', 'w')\nprint(sys.argv)\n"
    findings, (entry,), _ = parse(text, "--lr", "1")
    assert findings == []
    assert "it was not run" in entry.reason
    assert parse(text) == ([], [], {})


def test_a_script_that_writes_first_is_stopped(parse: Parse, tmp_path: Path) -> None:
    for line in ("open('marker', 'w')", "import os; os.makedirs('marker')"):
        findings, (entry,), _ = parse(f"{line}\n{PLAIN}", "--steps", "3")
        assert findings == []
        assert "before it parses its arguments" in entry.reason
        assert str(tmp_path / "marker") in entry.reason


def test_what_a_script_prints_does_not_hide_the_answer(parse: Parse) -> None:
    text = "import os\nprint('{\"outcome\": \"parsed\"}')\nos.write(1, b'x' * 4096)\n" + PLAIN
    assert parse(text, "--steps", "3")[:2] == ([], [])


def test_a_script_that_raises_before_it_parses(parse: Parse) -> None:
    (found,), _, _ = parse("import not_there_at_all\n" + PLAIN, "--steps", "3")
    assert (found.code, found.confidence) == ("environment.script_raises", "measured")
    assert "No module named 'not_there_at_all'" in found.message
    (found,), _, _ = parse("raise SystemExit('no hunter2hunter2')\n" + PLAIN, "--steps", "3")
    assert "hunter2" not in found.message
    findings, (entry,), _ = parse("raise SystemExit(0)\n" + PLAIN, "--steps", "3")
    assert findings == []
    assert "never parsed" in entry.reason


def test_a_type_function_that_raises(parse: Parse) -> None:
    text = PLAIN.replace("type=Path", "type=lambda text: 1 // 0")
    (found,), _, _ = parse(text, "--steps", "3", "--out", "x")
    assert "ZeroDivisionError" in found.message


def test_caps_of_time_memory_and_output(parse: Parse) -> None:
    slow = "import time\ntime.sleep(60)\n" + PLAIN
    findings, (entry,), _ = parse(slow, "--steps", "3", timeout_s=1.0)
    assert (findings, "took longer than 1.0s" in entry.reason) == ([], True)
    large = "x = bytearray(400 * 2**20)\nimport time\ntime.sleep(60)\n" + PLAIN
    _, (entry,), _ = parse(large, "--steps", "3", memory_bytes=200 * 2**20)
    assert "of memory" in entry.reason
    loud = "while True: print('x' * 2**20)\n" + PLAIN
    _, (entry,), _ = parse(loud, "--steps", "3")
    assert "printed more than" in entry.reason


def test_modules_and_launchers(parse: Parse, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "job.py").write_text("from . import __name__\n" + PLAIN)
    module = (sys.executable, "-m", "pack.job")
    assert parse(PLAIN, "--steps", "3", command=module)[:2] == ([], [])
    torchrun = (str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node", "2", "train.py")
    assert parse(PLAIN, "--steps", "3", command=torchrun)[:2] == ([], [])
    text = "import os\nos.environ['RANK']\n" + PLAIN
    findings, (entry,), _ = parse(text, "--steps", "3", command=torchrun)
    assert findings == []
    assert "KeyError" in entry.reason
