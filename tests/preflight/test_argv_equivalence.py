"""The rebuilt parser says what the script's own parser says, on generated parsers and words."""

from __future__ import annotations

import argparse
import contextlib
import io
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.preflight.script import read_script
from seatrial.preflight.values import UNKNOWN

DECLARATIONS = (
    '"--steps", type=int, default=3',
    '"--lr", "--learning-rate", type=float, default=0.1, dest="rate"',
    '"--name"',
    '"--mode", choices=["a", "b"], default="a"',
    '"--on", action="store_true"',
    '"--off", action="store_false", dest="kept"',
    '"-v", action="count", default=0',
    '"--tags", nargs="*", default=[]',
    '"--pair", type=int, nargs=2',
    '"--need", required=True',
    '"--maybe", nargs="?", const="c", default="d"',
    '"--flag", action=argparse.BooleanOptionalAction, default=True',
    '"--add", action="append", type=int',
    '"first"',
    '"others", nargs="*"',
)
WORDS = (
    "--steps", "--steps=4", "--st", "4", "x", "--lr", "0.5", "--learning", "--name=q", "--mode",
    "b", "c", "--on", "--off", "-v", "-vv", "--tags", "--pair", "1", "2", "--need", "--maybe",
    "--no-flag", "--flag", "--add", "7", "--unknown", "--", "-1",
)  # fmt: skip
WORD_LISTS = st.lists(st.sampled_from(WORDS), max_size=8)


def real(source: str, words: list[str]) -> dict[str, Any] | None:
    """What the script's own parser makes of the words; None when it leaves."""
    place: dict[str, Any] = {}
    exec(source, place)  # our own lines from above
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        try:
            return vars(place["p"].parse_args(words))
        except (SystemExit, argparse.ArgumentError):
            return None


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(DECLARATIONS), unique=True, max_size=7), WORD_LISTS)
def test_rebuilt_and_real_agree(tmp_path: Path, chosen: list[str], words: list[str]) -> None:
    lines = ["import argparse", "p = argparse.ArgumentParser()"]
    lines += [f"p.add_argument({declared})" for declared in chosen]
    source = "\n".join(lines)
    path = tmp_path / "s.py"
    path.write_text(source + "\nargs = p.parse_args()\n", encoding="utf-8")
    script = read_script(str(path), words)
    ((_, model),) = script.namespaces
    assert model is not None
    assert model.incomplete == ""
    parsed = script.parsed(model)
    assert parsed is not None
    expected = real(source, words)
    assert (expected is None) == bool(parsed.errors or parsed.unknown_words)
    if expected is not None:
        assert UNKNOWN not in parsed.values.values()
        assert parsed.values == expected
