"""What the script model says of names, values and arguments, and what it refuses to claim."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.errors import UsageError
from seatrial.preflight.script import MAX_SOURCE_BYTES, Script, read_script
from seatrial.preflight.settings import settings_of, trainers_of


def script_of(tmp_path: Path, text: str, words: str | None = None) -> Script:
    path = tmp_path / "s.py"
    path.write_text(text, encoding="utf-8")
    return read_script(str(path), None if words is None else words.split())


def told(tmp_path: Path, text: str, words: str | None = None) -> list[Any]:
    """States and values of ``f(a=...)`` in a script."""
    script = script_of(tmp_path, text, words)
    return [
        (found.state, found.value)
        for call in script.calls
        if call.name == "f"
        for found in [call.argument("a")]
    ]


SELF = """
class S:
    def __init__(self):
        self.n = 3
    def r(self):
        f(a=self.n)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(a=1)", ("found", 1)),
        ("f()", ("not_found", None)),
        ("x = 3\nf(a=x)", ("found", 3)),
        ("x = 3\nx = 4\nf(a=x)", ("unknown", None)),
        ("x = 3\nx += 1\nf(a=x)", ("unknown", None)),
        ("for x in range(3):\n    f(a=x)", ("unknown", None)),
        ("x, y = 1, 2\nf(a=y)", ("found", 2)),
        ("x, y = g()\nf(a=y)", ("unknown", None)),
        ("f(a=2 * 8 + 1)", ("found", 17)),
        ("f(a=10 ** 10 ** 10)", ("unknown", None)),
        ("f(a='x' * 10 ** 9)", ("unknown", None)),
        ("f(a=1 / 0)", ("unknown", None)),
        ("n = 4\nf(a=f'run-{n}')", ("found", "run-4")),
        ("n = 4\nf(a=f'{n:03d}')", ("unknown", None)),
        ("kw = {'a': 7}\nf(**kw)", ("found", 7)),
        ("kw = {'b': 7}\nf(**kw)", ("not_found", None)),
        ("kw = {'a': 7}\nkw['a'] = 8\nf(**kw)", ("unknown", None)),
        ("kw = {'a': 7}\nkw.update(b=1)\nf(**kw)", ("unknown", None)),
        ("kw = dict(a=7)\nf(**kw)", ("found", 7)),
        ("f(**g())", ("unknown", None)),
        ("import os\nf(a=os.environ['X'])", ("unknown", None)),
        ("import os\nf(a=os.path.join('a', 'b'))", ("found", "a/b")),
        ("class C:\n    n = 5\nf(a=C.n)", ("found", 5)),
        ("class C:\n    n: int = 5\nc = C(n=6)\nf(a=c.n)", ("found", 6)),
        ("class C:\n    n: int = 5\nc = C()\nc.n = 9\nf(a=c.n)", ("unknown", None)),
        ("def g(n=4):\n    f(a=n)\ng(8)", ("found", 8)),
        ("def g(n=4):\n    f(a=n)\ng()", ("found", 4)),
        ("def g(n=4):\n    f(a=n)\ng()\ng(8)", ("unknown", None)),
        ("def g(n=4):\n    f(a=n)\nh(g)", ("unknown", None)),
        ("def g():\n    return 3\nf(a=g())", ("found", 3)),
        ("def g():\n    if x:\n        return 3\n    return 4\nf(a=g())", ("unknown", None)),
        ("def g():\n    return g()\nf(a=g())", ("unknown", None)),
        ("x = y\ny = x\nf(a=x)", ("unknown", None)),
        ("f(a=1 if True else 2)", ("found", 1)),
        ("f(a=1 if z else 2)", ("unknown", None)),
        ("f(a=None or 'd')", ("found", "d")),
        ("x = 1\ndef g():\n    global x\n    x = 2\nf(a=x)", ("unknown", None)),
        (SELF, ("found", 3)),
        ("x = 1\ndel x\nf(a=x)", ("unknown", None)),
        ("with g() as x:\n    f(a=x)", ("unknown", None)),
        ("f(a=(n := 3))\n", ("unknown", None)),
    ],
)  # fmt: skip
def test_a_value_is_found_absent_or_unknown(
    tmp_path: Path, text: str, expected: tuple[str, Any]
) -> None:
    assert told(tmp_path, text)[-1] == expected


@pytest.mark.parametrize(
    ("text", "dotted"),
    [
        (
            "from transformers import TrainingArguments as TA\nTA()",
            "transformers.TrainingArguments",
        ),
        ("import transformers as t\nt.Trainer()", "transformers.Trainer"),
        ("import a.b.c\na.b.c.d()", "a.b.c.d"),
        ("from transformers import *\nTrainer()", "transformers.Trainer"),
        ("from t import Trainer\nx = Trainer()\nx.train()", "t.Trainer().train"),
        ("from t import T\ndef go(x):\n    x.train()\ngo(T())", "t.T().train"),
        ("try:\n    from t import T\nexcept ImportError:\n    from t import T\nT()", "t.T"),
        ("try:\n    from t import T\nexcept ImportError:\n    from u import T\nT()", ""),
        ("def print():\n    pass\nprint()", "__main__.print"),
        ("print()", "builtins.print"),
        ("x = 1\nx = 2\nx()", ""),
    ],
)
def test_a_call_knows_where_it_comes_from(tmp_path: Path, text: str, dotted: str) -> None:
    assert dotted in {call.dotted for call in script_of(tmp_path, text).calls}


ARGS = """
import argparse
def cli(argv=None):
    p = argparse.ArgumentParser()
    g = p.add_argument_group("x")
    g.add_argument("--steps", type=int, default=10)
    p.add_argument("--name", default="n")
    p.add_argument("--odd", type=lambda t: 3, default=5)
    p.add_argument("--on", action="store_true")
    p.add_argument("rest", nargs="*")
    return p.parse_args(argv)
def main():
    args = cli()
    f(a=args.steps); f(a=args.odd); f(a=args.on); f(a=args.rest); f(a=args.name + "!")
main()
"""


def test_arguments_are_defaults_or_what_the_command_says(tmp_path: Path) -> None:
    known = [("found", 10), ("found", 5), ("found", False)]
    assert told(tmp_path, ARGS)[:3] == known
    words = "--steps 7 --odd 1 --on --name=z a b"
    assert told(tmp_path, ARGS, words) == [
        ("found", 7),
        ("unknown", None),
        ("found", True),
        ("found", ["a", "b"]),
        ("found", "z!"),
    ]


@pytest.mark.parametrize(
    "change",
    [
        "import deepspeed\n    deepspeed.add_config_arguments(p)",
        "for n in names():\n        p.add_argument('--' + n)",
        "if x:\n        p.add_argument('--x')",
        "p.add_subparsers()",
        "p.add_argument(*flags())",
    ],
)
def test_a_parser_that_is_not_literal_is_incomplete(tmp_path: Path, change: str) -> None:
    text = ARGS.replace("return p", change + "\n    return p")
    ((_, model),) = script_of(tmp_path, text).namespaces
    assert model is not None
    assert model.incomplete


def test_words_that_the_script_gives_itself_are_not_those_of_the_command(tmp_path: Path) -> None:
    text = ARGS.replace("parse_args(argv)", "parse_args(['--steps', '3'])")
    assert told(tmp_path, text, "--steps 7")[0] == ("found", 3)
    text = ARGS.replace("parse_args(argv)", "parse_args(words())")
    assert told(tmp_path, text, "--steps 7")[0] == ("unknown", None)


def test_an_attribute_that_is_set_later_is_unknown(tmp_path: Path) -> None:
    assert told(tmp_path, ARGS.replace("args = cli()", "args = cli(); args.steps = g()"))[0] == (
        "unknown",
        None,
    )


CONFIG = """
from transformers import Trainer, TrainingArguments
config = TrainingArguments("out", max_steps=5, eval_strategy="steps", eval_steps=0.5)
LATER
trainer = Trainer(args=config, model=None)
"""


@pytest.mark.parametrize(
    ("later", "state", "value"),
    [
        ("", "found", 5),
        ("config.max_steps = 9", "found", 9),
        ("if x:\n    config.max_steps = 9", "unknown", None),
        ("config = config.set_training(num_epochs=2)", "unknown", None),
        ("import dataclasses\nconfig = dataclasses.replace(config, max_steps=3)", "unknown", None),
    ],
)
def test_settings_follow_what_is_set_later(
    tmp_path: Path, later: str, state: str, value: int | None
) -> None:
    settings = settings_of(script_of(tmp_path, CONFIG.replace("LATER", later)))[0]
    assert (settings.get("max_steps").state, settings.get("max_steps").value) == (state, value)


def test_a_trainer_knows_its_settings_and_a_share_is_no_count(tmp_path: Path) -> None:
    (trainer,) = trainers_of(script_of(tmp_path, CONFIG.replace("LATER", "")))
    assert trainer.settings is not None
    assert trainer.settings.get("output_dir", position=0).text == "out"
    assert trainer.settings.eval_steps.unknown
    assert trainer.settings.save_strategy.is_("steps")


# Bad input


def test_a_syntax_error_is_a_value(tmp_path: Path) -> None:
    script = script_of(tmp_path, "x = 1\ndef (:\n")
    assert script.error is not None
    assert script.error.line == 2
    assert script.calls == ()


@pytest.mark.parametrize("deep", ["-" * 200_000 + "1", "(" * 50_000, "x = " + "1+" * 100_000 + "1"])
def test_deep_source_is_a_value(tmp_path: Path, deep: str) -> None:
    script = script_of(tmp_path, deep)
    assert script.error is not None or script.calls == ()


@pytest.mark.parametrize("count", [900, 90])
def test_long_chains_of_names_are_followed_or_unknown(tmp_path: Path, count: int) -> None:
    lines = ["x0 = 1", *(f"x{n} = x{n - 1}" for n in range(1, count)), f"f(a=x{count - 1})"]
    assert told(tmp_path, "\n".join(lines))[0] in (("found", 1), ("unknown", None))


def test_the_hash_is_of_the_bytes_and_the_coding_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    data = "# -*- coding: latin-1 -*-\nname = 'Zürich'\n".encode("latin-1")
    path.write_bytes(data)
    script = read_script(str(path))
    assert script.sha256 == hashlib.sha256(data).hexdigest()
    assert "Zürich" in script.text


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"x = 1\0", "NUL"),
        (b"# \xff\xfe", "no text that Python reads"),
        (b"# coding: nonsense\n", "no text that Python reads"),
        (b"x" * (MAX_SOURCE_BYTES + 1), "MiB"),
    ],
)
def test_what_is_no_script_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "s.py"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=says):
        read_script(str(path))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    for name in ("missing.py", "pipe.py", ".", "a\0b"):
        with pytest.raises(UsageError):
            read_script(str(tmp_path / name) if "\0" not in name else name)
