"""Imports are looked up in the runner's interpreter, and nothing is imported for it."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.core.child import Ask
from seatrial.core.finding import Finding
from seatrial.preflight.ask_child import Asked
from seatrial.preflight.child_imports import Module, missing_imports


def look(folder: Path, text: str, ask: Ask, how: Asked, package: str = "") -> list[Finding]:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    start = Module(str(script), ast.parse(text), package)
    findings, unjudged = missing_imports(start, ask, how, str(folder), str(folder))
    assert unjudged == []
    return findings


HEALTHY = """
from __future__ import annotations
import os.path, sys, xml.dom.minidom, importlib.metadata
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import Trainer
from transformers.utils.logging import disable_progress_bar
from typing import TYPE_CHECKING
import helper
from helper import thing
from part.inner import deep
from part import inner
if TYPE_CHECKING:
    from not_there_at_all import Kind
try:
    import tomllib
except ImportError:
    import tomli_not_there as tomllib
if sys.platform == "nowhere":
    import winreg_not_there
"""


def test_a_healthy_script_is_silent(tmp_path: Path, ask: Ask, how: Asked) -> None:
    (tmp_path / "helper.py").write_text("import json\nthing = 1\n")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "__init__.py").write_text("")
    (tmp_path / "part" / "inner.py").write_text("from . import other\nfrom .other import x\ndeep=1")
    (tmp_path / "part" / "other.py").write_text("x = 1\n")
    found = look(tmp_path, HEALTHY, ask, how)
    assert [f for f in found if f.severity != "note"] == []
    assert {f.evidence.expected for f in found} == {"tomli_not_there", "winreg_not_there"}


@pytest.mark.parametrize(
    ("text", "severity", "said"),
    [
        ("import not_there", "error", "finds no module 'not_there'"),
        ("import not_there.part as p", "error", "finds no module 'not_there'"),
        ("import json.not_there", "error", "no 'json.not_there' in it"),
        ("from trl.trainer.ppov2_config import X", "warning", "no 'trl.trainer.ppov2_config'"),
        ("from . import sibling", "error", "no package to start from"),
        ("def main():\n    import not_there\nmain()", "error", "not_there"),
        ("def main():\n    import not_there\nif __name__ == '__main__':\n    main()", "error", "n"),
        ("def late():\n    import not_there", "warning", "only when late() is called"),
        ("import sys\nif len(sys.argv) > 3:\n    import not_there", "warning", "only if len"),
        ("try:\n    import not_there\nexcept ImportError:\n    pass", "note", "do without"),
        ("try:\n    import not_there\nexcept KeyError:\n    pass", "error", "not_there"),
        (
            "from contextlib import suppress\nwith suppress(ImportError):\n    import not_there",
            "note",
            "do without",
        ),
    ],
)
def test_a_planted_import_is_found(
    tmp_path: Path, ask: Ask, how: Asked, text: str, severity: str, said: str
) -> None:
    (found,) = look(tmp_path, text, ask, how)
    assert (found.code, found.severity) == ("environment.import_missing", severity)
    assert said in found.message
    assert found.place.file == str(tmp_path / "train.py")
    assert found.place.line


def test_local_modules_are_followed_and_their_place_is_named(
    tmp_path: Path, ask: Ask, how: Asked
) -> None:
    (tmp_path / "a.py").write_text("import b\nimport train\n")
    (tmp_path / "b.py").write_text("\n\nimport gone_module\n")
    (found,) = look(tmp_path, "import a\n", ask, how)
    assert (found.place.file, found.place.line) == (str(tmp_path / "b.py"), 3)
    assert found.severity == "error"


def test_a_data_folder_in_the_place_of_a_package_is_seen(
    tmp_path: Path, ask: Ask, how: Asked
) -> None:
    (tmp_path / "corpus_tools").mkdir()
    (tmp_path / "corpus_tools" / "rows.jsonl").write_text("{}\n")
    (found,) = look(tmp_path, "from corpus_tools import load\n", ask, how)
    assert "only a folder without __init__.py" in found.message
    (tmp_path / "corpus_tools" / "load.py").write_text("")
    assert look(tmp_path, "from corpus_tools import load\n", ask, how) == []


def test_nothing_is_imported(tmp_path: Path, ask: Ask, how: Asked) -> None:
    (tmp_path / "loud.py").write_text("open('marker', 'w')\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("open('marker', 'w')\n")
    (tmp_path / "pack" / "sub.py").write_text("")
    assert look(tmp_path, "import loud\nimport pack.sub\n", ask, how) == []
    assert not (tmp_path / "marker").exists()


def test_the_path_of_the_environment_counts(tmp_path: Path, ask: Ask, how: Asked) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "only_on_path.py").write_text("")
    text = "import only_on_path\n"
    assert len(look(tmp_path, text, ask, how)) == 1
    there = replace(how, env={**how.env, "PYTHONPATH": str(tmp_path / "lib")})
    assert look(tmp_path, text, ask, there) == []
    assert len(look(tmp_path, text, ask, replace(there, options=("-I",)))) == 1


def test_a_module_of_a_package_may_import_its_siblings(
    tmp_path: Path, ask: Ask, how: Asked
) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "sibling.py").write_text("")
    assert look(tmp_path, "from . import sibling\nfrom .sibling import x\n", ask, how, "pkg") == []
    (found,) = look(tmp_path, "from .lost import x\n", ask, how, "pkg")
    assert "pkg.lost" in found.message


def test_an_interpreter_that_cannot_answer_is_not_judged(
    tmp_path: Path, ask: Ask, how: Asked
) -> None:
    for program in ("/bin/false", str(tmp_path / "none")):
        start = Module("train.py", ast.parse("import os"))
        findings, (entry,) = missing_imports(
            start, ask, replace(how, interpreter=program), "", str(tmp_path)
        )
        assert findings == []
        assert "could not look the imports up" in entry.reason


def test_an_older_interpreter_answers_too(tmp_path: Path, ask: Ask, how: Asked) -> None:
    import shutil
    import subprocess

    old = shutil.which("python3.9")
    if old is None or subprocess.run([old, "-c", ""], capture_output=True).returncode:
        pytest.skip("there is no Python 3.9 that runs")
    assert sys.version_info >= (3, 11)
    found = look(tmp_path, "import json\nimport tomllib\n", ask, replace(how, interpreter=old))
    assert [f.evidence.expected for f in found] == ["tomllib"]
