"""A child that answers lines: every cap ends it, and it never outlives who asks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from seatrial.process.lines import LineChild, LineChildError
from seatrial.workflows.heldout_children import child_program

ECHO = """
import json, sys, time, os
for line in sys.stdin:
    question = json.loads(line)
    exec(question.get("do", "pass"))
    answer = {"said": question.get("say"), "limit": question["limit_s"], "n": question["n"]}
    print(json.dumps(answer), flush=True)
"""


def child(code: str = ECHO, **rest: Any) -> LineChild:
    return LineChild((sys.executable, "-c", code), cwd="/", env=dict(os.environ), **rest)


def test_questions_are_answered_in_turn() -> None:
    with child() as one:
        assert one.ask({"say": 1}, 10.0) == {"said": 1, "limit": 10.0}
        assert one.ask({"say": "ä\ud800" * 300_000}, 10.0)["said"] == "ä\ud800" * 300_000


CAPS = [
    ("time.sleep(60)", {}, "timeout", "no answer within 1 s"),
    ("x = bytearray(300 << 20); time.sleep(60)", {"memory_bytes": 100 << 20}, "memory", "MiB"),
    ("print('no json', flush=True)", {}, "output", "no JSON object"),
    ("print('[' * 100000, flush=True)", {}, "output", "no JSON object"),
    ("print('{}', flush=True)", {}, "output", "was not asked"),
    ("print(json.dumps({'n': 99}), flush=True)", {}, "output", "was not asked"),
    ("os._exit(7)", {}, "exited", "exit code 7"),
    ("1 / 0", {}, "exited", "ZeroDivisionError"),
    ("os.close(1); os.close(2); time.sleep(60)", {}, "timeout", "no answer"),
    ("import subprocess; subprocess.Popen(['sleep', '60']); os._exit(3)", {}, "exited", "code 3"),
]


@pytest.mark.parametrize(("do", "caps", "kind", "said"), CAPS, ids=[row[0][:30] for row in CAPS])
def test_a_planted_fault_ends_the_child(do: str, caps: Any, kind: str, said: str) -> None:
    one = child(**caps)
    with pytest.raises(LineChildError) as caught:
        one.ask({"do": do}, 1.0 if kind == "timeout" else 20.0)
    assert caught.value.kind == kind
    assert said in caught.value.message
    with pytest.raises((LineChildError, ValueError)):
        one.ask({"do": "pass"}, 1.0)


def test_an_answer_that_is_said_twice_is_not_taken_for_the_next_one() -> None:
    twice = "print(json.dumps({'said': 'early', 'limit': 0, 'n': question['n']}), flush=True)"
    with child() as one:
        assert one.ask({"do": twice, "say": 1}, 10.0)["said"] == "early"
        assert one.ask({"say": 2}, 10.0)["said"] == 2


def test_a_stop_ends_it() -> None:
    asked = iter([False, False, True])
    with pytest.raises(LineChildError, match="a stop was asked for"):
        child(stop=lambda: next(asked, True)).ask({"do": "time.sleep(60)"}, 20.0)


def test_a_program_that_is_not_there_is_said_to_be() -> None:
    with pytest.raises(LineChildError, match="/nowhere/python"):
        LineChild(("/nowhere/python",), cwd="/", env={})


ASKER = """
import os, sys
from seatrial.process.lines import LineChild
one = LineChild((sys.executable, sys.argv[1]), cwd="/", env=dict(os.environ))
place = [sys.argv[2], "validate"]
assert one.ask({"validator": place, "normalize": None, "memory_bytes": 1 << 30}, 20.0)["ready"]
print(one._child.pid, flush=True)
one.ask({"case": {}, "raw": ""}, 60.0)
"""


def test_a_child_whose_asker_is_killed_ends_though_it_never_reads_again(tmp_path: Path) -> None:
    (tmp_path / "v.py").write_text("def validate(case, text):\n    while True: pass\n")
    asker = subprocess.Popen(
        [sys.executable, "-c", ASKER, child_program("validate"), str(tmp_path / "v.py")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asker.stdout is not None
    pid = int(asker.stdout.readline())
    asker.kill()
    asker.communicate()
    for _ in range(150):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.1)
    os.kill(pid, 9)
    raise AssertionError(f"{pid} outlived its asker")
