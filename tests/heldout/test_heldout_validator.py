"""The user's functions in their child: what they break is one case, and the next one is judged."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.heldout import Answer
from seatrial.core.trial import HeldoutSpec
from seatrial.process.lines import LineChild
from seatrial.workflows import heldout_children
from seatrial.workflows.heldout_children import EvaluationEndedError, Validator, child_program

PLANTED_CASE = {"id": "planted", "expected": "x"}
NEXT_CASE = {"id": "next", "expected": "x"}


def start(name: str, memory_bytes: int, cwd: str) -> LineChild:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": cwd}
    return LineChild(
        (sys.executable, child_program(name)), cwd=cwd, env=env, memory_bytes=memory_bytes
    )


@pytest.fixture
def judges(tmp_path: Path) -> Iterator[Any]:
    """Make a validator of a text; its children are ended with the test."""
    made: list[Validator] = []

    def make(text: str, normalize: bool = False) -> Validator:
        file = tmp_path / "validator.py"
        file.write_text(text, encoding="utf-8")
        place = f"{file}:normalize" if normalize else None
        spec = HeldoutSpec("cases.jsonl", validator=f"{file}:validate", normalize=place)
        validator = Validator(spec, start, lambda at_most: at_most)
        made.append(validator)
        return validator

    yield make
    for one in made:
        one.close()


def judge(validator: Validator, case: dict[str, Any], raw: str = "x") -> Answer:
    return validator.judge("trained", case, {"raw": raw, "seconds": 0.1})


BODY = """
def validate(case, text):
    if case["id"] == "planted":
        PLANTED
    return {"right": text == case["expected"]}
"""
# What the validator does at the planted case, and what is said of it.
FAULTS = [
    ("raise ValueError('no such move')", "ValueError: no such move (validator.py:4)"),
    ("import sys; sys.exit(0)", "SystemExit"),
    ("import os; os._exit(0)", "exit code 0"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("while True: pass", "no answer within"),
    ("import time; time.sleep(60)", "no answer within"),
    ("x = bytearray(300 << 20); import time; time.sleep(60)", "MiB of the"),
    ("x = bytearray(300 << 20); del x", "MiB of the"),
    ("x = [bytes(1 << 40)]", "MemoryError"),
    ("return ['right']", "returned list, not a dict"),
    ("return None", "returned NoneType"),
    ("return {'right': [True]}", "field 'right' is list"),
    ("return {'right': None}", "field 'right' is NoneType"),
    ("return {1: True}", "field 1"),
    ("return {'n': 10 ** 400}", "beyond every float"),
    ("return {'n': 'x' * (2 << 20)}", "characters"),
    ("return {str(i): 1 for i in range(5000)}", "5000 fields"),
    ("with open('note.txt', 'w') as f: f.write('x')", "File too large"),
    ("def f(): return f()\n        f()", "RecursionError"),
]


@pytest.mark.parametrize(("planted", "said"), FAULTS, ids=[row[0][:40] for row in FAULTS])
def test_a_planted_fault_is_one_failed_case(
    judges: Any, monkeypatch: pytest.MonkeyPatch, planted: str, said: str
) -> None:
    monkeypatch.setattr(heldout_children, "CASE_S", 1.0)
    monkeypatch.setattr(heldout_children, "VALIDATOR_BYTES", 200 << 20)
    validator = judges(BODY.replace("PLANTED", planted))
    broken = judge(validator, PLANTED_CASE)
    assert broken.result is None
    assert said in (broken.error or ""), broken.error
    assert judge(validator, NEXT_CASE).result == {"right": True}


def test_a_healthy_validator_keeps_one_process_and_all_kinds_of_values(judges: Any) -> None:
    validator = judges(
        "import os, enum\nclass E(enum.IntEnum):\n    A = 3\n"
        "def validate(case, text):\n"
        "    return {'pid': os.getpid(), 'b': True, 'f': 0.5, 's': 'ä\\ud800', 'nan': float('nan'),"
        " 'inf': float('-inf'), 'e': E.A}\n"
    )
    first, second = judge(validator, PLANTED_CASE), judge(validator, NEXT_CASE)
    assert first.result == second.result
    assert first.result is not None
    plain = {key: value for key, value in first.result.items() if key != "pid"}
    assert plain == {"b": True, "f": 0.5, "s": "ä\ud800", "nan": "nan", "inf": "-inf", "e": 3}
    assert first.error is None


def test_prints_and_reads_do_not_reach_the_protocol(judges: Any) -> None:
    validator = judges(
        "import sys, os\nprint('at import')\n"
        "def validate(case, text):\n"
        "    print('{\"result\": {}}')\n    os.write(1, b'x' * 100000)\n"
        "    sys.stderr.write('y' * 100000)\n    return {'read': sys.stdin.read()}\n"
    )
    assert judge(validator, NEXT_CASE).result == {"read": ""}
    assert judge(validator, NEXT_CASE).result == {"read": ""}


def test_the_normalizer_comes_first_and_its_faults_are_shown(judges: Any) -> None:
    text = "def normalize(text):\n    return text.strip() if text else 1\n" + BODY
    validator = judges(text.replace("PLANTED", "pass"), normalize=True)
    answer = judge(validator, NEXT_CASE, "  x \n")
    assert (answer.raw, answer.text, answer.result) == ("  x \n", "x", {"right": True})
    assert "normalize returned int" in (judge(validator, NEXT_CASE, "").error or "")


def test_modules_beside_the_file_are_found_and_ours_are_not(judges: Any, tmp_path: Path) -> None:
    (tmp_path / "answering.py").write_text("WHO = 'the user'\n")
    validator = judges("import answering\ndef validate(case, text):\n    return vars(answering)\n")
    assert "not bool, int" in (judge(validator, NEXT_CASE).error or "")  # __builtins__ and so on
    validator = judges(
        "import answering\ndef validate(case, text):\n    return {'who': answering.WHO}\n"
    )
    assert judge(validator, NEXT_CASE).result == {"who": "the user"}


def test_a_library_may_try_at_import_whether_it_can_write(judges: Any, tmp_path: Path) -> None:
    validator = judges(
        "import tempfile, os\nwith tempfile.TemporaryFile() as f:\n    f.write(b'x' * 1000)\n"
        "def validate(case, text):\n    return {'where': os.getcwd()}\n"
    )
    result = judge(validator, NEXT_CASE).result
    assert result is not None
    folder = str(result["where"])
    assert os.listdir(folder) == []
    assert not (tmp_path / "__pycache__").exists()
    validator.close()
    assert not os.path.exists(folder)


def test_a_validator_that_cannot_be_loaded_is_found_by_the_check(judges: Any) -> None:
    with pytest.raises(EvaluationEndedError, match="ZeroDivisionError"):
        judges("1 / 0").check()
    with pytest.raises(EvaluationEndedError, match="no function validate"):
        judges("x = 1").check()
    judges(BODY.replace("PLANTED", "pass")).check()


def test_a_case_that_was_not_answered_is_failed_without_asking(judges: Any) -> None:
    validator = judges("raise RuntimeError('must not be loaded')")
    answer = validator.judge("trained", NEXT_CASE, {"error": "ValueError: too long"})
    assert answer.error == "no answer: ValueError: too long"


def test_the_end_of_the_leg_is_no_fault_of_the_case(
    judges: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout_children, "CASE_S", 0.5)
    validator = judges(BODY.replace("PLANTED", "while True: pass"))
    validator.check()

    def over(_at_most: float) -> float:
        if asked.append(1) or len(asked) > 1:
            raise EvaluationEndedError("the time of the held-out leg was up")
        return 0.5

    asked: list[int] = []
    monkeypatch.setattr(validator, "_left", over)
    with pytest.raises(EvaluationEndedError, match="time of the held-out leg"):
        judge(validator, PLANTED_CASE)


def test_a_fork_that_returns_shifts_no_answer(judges: Any) -> None:
    validator = judges(
        "import os\n"
        "def validate(case, text):\n"
        "    if text == 'fork':\n"
        "        os.fork()\n"
        "    return {'text': text}\n"
    )
    for text in ("a", "fork", "b", "fork", "c", "d"):
        assert judge(validator, NEXT_CASE, text).result == {"text": text}
