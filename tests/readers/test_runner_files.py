"""The files of a runner: its script, the local modules it imports, the configuration it names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from seatrial.core.trial import Bounds, OutputSpec, RunnerSpec, Trial
from seatrial.readers.config_files import writes_by_name
from seatrial.readers.runner_files import RunnerFiles, judge_files, runner_files


class Project:
    """A folder with files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **files: str) -> Project:
        """Files by name; ``__`` in a name is a folder."""
        for name, text in files.items():
            self.put(name.replace("__", "/") + ".py", text)
        return self

    def put(self, name: str, text: str = "x") -> Project:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return self

    def look(
        self,
        *command: str,
        env: dict[str, str] | None = None,
        cwd: str = ".",
        out: str | None = None,
    ) -> RunnerFiles:
        trial = Trial(
            name="t",
            runner=RunnerSpec(command, cwd=os.path.normpath(self.folder / cwd)),
            bounds=Bounds(1, 1.0, 1),
            output=OutputSpec(out),
        )
        apart = [] if out is None else [str(self.folder / out)]
        return runner_files(trial, env or {}, apart)

    def names(self, *command: str, **rest: object) -> dict[str, str]:
        found = self.look(*command, **rest)  # type: ignore[arg-type]
        return {os.path.relpath(path, self.folder): what for path, what in found.files.items()}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path.resolve())


def test_modules_are_followed(project: Project) -> None:
    project.put("train.py", "import json, torch, helper\nfrom pkg.sub import deep as d\n")
    project.put("helper.py", "def f():\n    from later import x\n")
    project.put("later.py").put("other.py").put("pkg/__init__.py").put("pkg/sub/__init__.py")
    project.put("pkg/sub/deep.py", "from ..near import *\nfrom . import side\n")
    project.put("pkg/near.py").put("pkg/sub/side.py").put("pkg/unused.py")
    assert project.names("python", "train.py", "--lr", "1") == {
        "train.py": "script",
        "helper.py": "module",
        "later.py": "module",
        "pkg/__init__.py": "module",
        "pkg/near.py": "module",
        "pkg/sub/__init__.py": "module",
        "pkg/sub/deep.py": "module",
        "pkg/sub/side.py": "module",
    }


def test_modules_in_circles_end(project: Project) -> None:
    project.put("train.py", "import a").put("a.py", "import b").put("b.py", "import a, train")
    assert set(project.names("python", "train.py")) == {"train.py", "a.py", "b.py"}


@pytest.mark.parametrize(
    "command",
    [
        ("python", "scripts/train.py"),
        ("python3.11", "-u", "scripts/train.py"),
        ("torchrun", "--nproc_per_node", "2", "scripts/train.py", "--x"),
        ("accelerate", "launch", "--cpu", "scripts/train.py"),
        ("uv", "run", "python", "scripts/train.py"),
        ("python", "-m", "scripts.train"),
        ("torchrun", "--nproc_per_node", "2", "-m", "scripts.train"),
    ],
)
def test_commands_that_run_the_script(project: Project, command: tuple[str, ...]) -> None:
    project.put("scripts/train.py", "import near").put("scripts/near.py")
    found = project.look(*command)
    assert found.script == str(project.folder / "scripts/train.py")
    assert project.names(*command)["scripts/near.py"] == "module"
    assert found.open_points == ()


def test_folders_on_the_path(project: Project) -> None:
    project.put("app/train.py", "import beside, from_cwd, on_path, added, src_pkg")
    project.put("app/beside.py").put("from_cwd.py").put("lib/on_path.py").put(".git/HEAD")
    project.put("src/src_pkg/__init__.py")
    text = (
        "import sys, os\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), '../more'))\n"
    )
    project.put("app/beside.py", text + "import added\n").put("more/added.py")
    env = {"PYTHONPATH": "lib"}
    assert set(project.names("python", "app/train.py", env=env)) == {
        "app/train.py", "app/beside.py", "from_cwd.py", "lib/on_path.py", "more/added.py",
        "src/src_pkg/__init__.py",
    }  # fmt: skip


def test_installed_packages_are_not_the_runners(project: Project) -> None:
    project.put("train.py", "import tool, json, argparse")
    project.put(".venv/lib/python3.11/site-packages/tool.py")
    env = {"PYTHONPATH": ".venv/lib/python3.11/site-packages"}
    assert set(project.names("python", "train.py", env=env)) == {"train.py"}


def test_imports_by_name_and_what_cannot_be_parsed(project: Project) -> None:
    project.put("train.py", "import importlib\nimportlib.import_module('plug')\nimport bad")
    project.put("plug.py").put("bad.py", "def (:")
    found = project.look("python", "train.py")
    assert {os.path.basename(path) for path in found.files} == {"train.py", "plug.py", "bad.py"}
    assert found.open_points == ("bad.py is no Python that can be parsed",)


def test_shell_scripts_and_programs(project: Project) -> None:
    project.put("run.sh", "# python old.py\nset -e\nexec python code/train.py --config cfg.yaml\n")
    project.put("code/train.py", "import m").put("code/m.py").put("old.py")
    assert set(project.names("bash", "run.sh")) == {"run.sh", "code/train.py", "code/m.py"}
    project.put("go", "#!/usr/bin/env python\nimport tool\n").put("tool.py")
    (project.folder / "go").chmod(0o755)
    assert set(project.names("./go")) == {"go", "tool.py"}
    found = project.look("make", "train")
    assert found.script is None and "'make'" in found.open_points[0]
    assert project.look("python", "-c", "import tool").script is None


def test_configuration_that_is_named(project: Project) -> None:
    project.put(
        "app/train.py",
        "import yaml, json\n"
        "CONFIG = 'base.yaml'\n"
        "cfg = yaml.safe_load(open(CONFIG))\n"
        "words = open('app/words.txt').read()\n"
        "missing = 'gone.json'\n"
        "args = TrainingArguments(deepspeed='ds.json')\n",
    )
    project.put("base.yaml", "include: deeper.toml\nlr: 1\n").put("deeper.toml", "a = 1")
    project.put("app/words.txt").put("ds.json", "{}").put("extra.ini").put("more.cfg")
    command = ("python", "app/train.py", "extra.ini", "--more=more.cfg")
    found = project.names(*command)
    assert {name for name, what in found.items() if what == "config"} == {
        "base.yaml", "deeper.toml", "app/words.txt", "ds.json", "extra.ini", "more.cfg",
    }  # fmt: skip


def test_what_a_script_writes_is_no_configuration(project: Project) -> None:
    project.put(
        "train.py",
        "import argparse, json, os\n"
        "from pathlib import Path\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--state', default='state.json')\n"
        "parser.add_argument('--metrics-out', default='b.json')\n"
        "args = parser.parse_args()\n"
        "RESULTS = 'results.json'\n"
        "with open('a.json', 'w') as f:\n    json.dump({}, f)\n"
        "open(RESULTS, mode='a').write('x')\n"
        "open(args.state, 'w').close()\n"
        "Path('c.txt').write_text('x')\n"
        "with Path('d.json').open('w') as f:\n    pass\n"
        "save_metrics({}, 'e.json')\n"
        "frame.to_json('f.json')\n"
        "logging.FileHandler('log.txt')\n"
        "LOG_FILE = 'k.json'\n"
        "train(metrics_path='l.json')\n"
        "settings = {'output': 'm.json'}\n"
        "read = json.load(open('kept.json'))\n",
    )
    project.put("cfg.yaml", "results_file: n.json\nvocab: o.json\n")
    for name in "abcdefklmno":
        project.put(f"{name}.json").put(f"{name}.txt")
    project.put("state.json").put("results.json").put("log.txt").put("kept.json").put("g.json")
    project.put("out/h.json")
    found = project.names(
        "python", "train.py", "cfg.yaml", "--report", "g.json", "--x", "out/h.json", out="out"
    )
    configs = {name for name, what in found.items() if what == "config"}
    assert configs == {"kept.json", "cfg.yaml", "o.json"}


def test_names_that_write() -> None:
    for name in ("write_text", "saveModel", "to_csv", "--metrics-out", "FileHandler", "json_dump"):
        assert writes_by_name(name), name
    for name in ("restore", "catalog", "load_config", "--config", "read", "add_argument", "outer"):
        assert not writes_by_name(name), name


def test_a_validator_with_its_modules(project: Project) -> None:
    project.put("checks/v.py", "import rules\nimport json").put("checks/rules.py")
    found = judge_files(str(project.folder / "checks/v.py"), {})
    names = {os.path.relpath(path, project.folder) for path in found}
    assert names == {"checks/v.py", "checks/rules.py"}


def test_this_very_package_as_a_runner() -> None:
    """A real closure of real code: whatever the command line imports, and nothing installed."""
    root = Path(__file__).resolve().parents[2]
    trial = Trial(
        name="t",
        runner=RunnerSpec((sys.executable, "-m", "seatrial"), cwd=str(root)),
        bounds=Bounds(1, 1.0, 1),
    )
    found = runner_files(trial, {"PYTHONPATH": str(root / "src")}, [])
    names = {os.path.relpath(path, root) for path in found.files}
    assert "src/seatrial/__main__.py" in names and "src/seatrial/core/judge.py" in names
    modules = {path for path, what in found.files.items() if what == "module"}
    assert all(path.startswith(str(root / "src")) for path in modules)
