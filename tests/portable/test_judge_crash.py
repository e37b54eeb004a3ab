"""Exceptions are read from events and from stderr, with the place in the user's own code."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, List, Optional, Tuple

from seatrial.core.event import Event
from seatrial.core.judgement.case import Case, case_of
from seatrial.core.judgement.crash import (
    Crash,
    command_missing,
    crash_of,
    first_line,
    parse_traceback,
    users_frame,
)
from seatrial.core.judgement.endings import findings_of_ending
from seatrial.core.launch import Ended
from seatrial.core.observation import observe
from seatrial.core.plan import Plan

PLAN = Plan("r1", "/rec/r1", ("python", "x.py"), "/w", 200, 900.0, 2**32, True)


def stderr_of(script: str) -> Tuple[str, str]:
    """The real stderr of a real interpreter, and the path of its script."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a script.py"
        path.write_text(script)
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(path)], capture_output=True, text=True, check=False
        )
    assert done.returncode != 0
    return done.stderr, str(path)


def case_with(stderr: str, *ends: dict[str, Any], exit_code: int = 1) -> Case:
    events = [Event(n, "", float(n), 7, 0, "train.end", end) for n, end in enumerate(ends)]
    ended = Ended("natural", "", 1.0, exit_code=exit_code)
    return case_of(PLAN, None, ended, observe(events), (), (), stderr, None)


def test_a_real_traceback_is_read_with_the_users_line() -> None:
    script = "import json\n\ndef main():\n    json.loads('{')\n\nmain()\n"
    stderr, path = stderr_of(script)
    crash = parse_traceback("some noise\n" + stderr + "more noise\n")
    assert crash is not None
    assert crash.short_type == "JSONDecodeError"
    assert (crash.file, crash.line) == (path, 4)  # not the line inside the json package
    assert "Expecting property name" in str(crash)


def test_a_real_syntax_error_and_a_real_missing_module() -> None:
    stderr, path = stderr_of("x = 1\ndef (:\n")
    crash = parse_traceback(stderr)
    assert crash is not None and crash.in_source and (crash.file, crash.line) == (path, 2)
    stderr, path = stderr_of("import nowhere_to_be_found.inside\n")
    crash = parse_traceback(stderr)
    assert crash is not None and crash.missing_module == "nowhere_to_be_found"
    assert crash.line == 1 and not crash.in_source


def test_of_chained_exceptions_the_last_counts() -> None:
    script = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e\n"
    crash = parse_traceback(stderr_of(script)[0])
    assert crash is not None and (crash.type, crash.message, crash.line) == ("KeyError", "'k'", 4)


def test_the_launchers_own_error_is_not_the_cause() -> None:
    stderr = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/me/x.py", line 9, in <module>
[rank1]:     loss.backward()
[rank1]: torch.OutOfMemoryError: CUDA out of memory.
Traceback (most recent call last):
  File "/env/lib/python3.11/site-packages/torch/distributed/run.py", line 5, in <module>
    raise
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
x.py FAILED
"""
    crash = parse_traceback(stderr)
    assert crash is not None
    assert (crash.rank, crash.file, crash.line) == (1, "/home/me/x.py", 9)
    assert crash.out_of_memory
    only_launcher = stderr[stderr.index("\nTraceback") + 1 :]
    assert parse_traceback(only_launcher) is None


def test_text_without_an_exception_has_none() -> None:
    for text in ("", "Killed\n", "Warning: x\n", "Traceback (most recent call last):\n", "a: b\n"):
        assert parse_traceback(text) is None, text
    assert users_frame([]) is None
    deep = [("/x/site-packages/a.py", 1), ("/x/site-packages/b.py", 2)]
    assert users_frame(deep) == deep[1]
    assert users_frame([("/home/x.py", 3), *deep]) == ("/home/x.py", 3)


def test_what_the_probe_recorded_wins_and_lacks_are_filled_in() -> None:
    stderr, path = stderr_of("def f():\n    raise ValueError('bad')\nf()\n")
    given = {"scope": "process", "exception": {"type": "ValueError", "message": "bad\nmore"}}
    crash = crash_of(case_with(stderr, given))
    assert crash == Crash("ValueError", "bad", path, 2, 0, from_probe=True)
    placed = {"type": "ValueError", "message": "bad", "file": "y.py", "line": 7}
    crash = crash_of(case_with(stderr, {"scope": "process", "exception": placed}))
    assert crash is not None and (crash.file, crash.line) == ("y.py", 7)
    other = {"scope": "process", "exception": {"type": "KeyError", "message": "k"}}
    crash = crash_of(case_with(stderr, other))
    assert crash is not None and (crash.type, crash.file) == ("KeyError", None)


def test_an_exit_is_no_crash_and_a_caught_exception_neither() -> None:
    leave = {"scope": "process", "exception": {"type": "SystemExit", "message": "3"}}
    assert crash_of(case_with("", leave)) is None
    caught = {"scope": "segment", "exception": {"type": "ValueError"}}
    done = {"scope": "process", "reason": "script_end"}
    assert crash_of(case_with("", caught, done)) is None
    uncaught: Optional[Crash] = crash_of(case_with("", caught))
    assert uncaught is not None and str(uncaught) == "ValueError"
    text = crash_of(case_with("", {"scope": "process", "exception": "boom"}))
    assert text is not None and str(text) == "Exception: boom"


def test_kinds_of_crashes() -> None:
    table: List[Tuple[Crash, bool, Optional[str], bool]] = [
        (Crash("torch.cuda.OutOfMemoryError", "CUDA out of memory"), True, None, False),
        (Crash("MemoryError"), True, None, False),
        (Crash("OSError", "[Errno 12] Cannot allocate memory"), True, None, False),
        (Crash("ValueError", "out of memory"), False, None, False),
        (Crash("ImportError", "cannot import name 'x' from 'y'"), False, None, False),
        (Crash("ImportError", "No module named trl"), False, "trl", False),
        (Crash("AssertionError", "Torch not compiled with CUDA enabled"), False, None, True),
    ]
    for crash, memory, module, accelerator in table:
        assert crash.out_of_memory is memory, crash
        assert crash.missing_module == module, crash
        assert crash.no_accelerator is accelerator, crash


def test_commands_that_could_not_start() -> None:
    assert command_missing(case_with("", exit_code=127))
    assert command_missing(case_with("make[1]: *** [Makefile:2: go] Error 126\n", exit_code=2))
    assert not command_missing(case_with("Error 127 tokens\n", exit_code=2))
    assert not command_missing(case_of(PLAN, None, None, observe([]), (), (), "", None))


def test_a_message_is_cut_to_one_line() -> None:
    assert first_line("\n  a \nb") == "a"
    assert first_line("") == ""
    assert first_line("x" * 400) == "x" * 297 + "..."


def test_the_rank_that_crashed_is_named_before_those_that_lost_it() -> None:
    lost = {
        "type": "RuntimeError",
        "message": "[pair.cc:553] Connection closed by peer",
    }
    broke = {"type": "ValueError", "message": "rank one broke", "file": "/x.py", "line": 8}
    ends = [
        Event(rank, "", float(rank), 7, rank, "train.end", {"scope": "process", "exception": given})
        for rank, given in enumerate((lost, broke))
    ]
    ended = Ended("natural", "", 1.0, exit_code=1)
    crash = crash_of(case_of(PLAN, None, ended, observe(ends), (), (), "", None))
    assert crash is not None and (crash.rank, crash.short_type) == (1, "ValueError")
    alone = crash_of(case_of(PLAN, None, ended, observe(ends[:1]), (), (), "", None))
    assert alone is not None and alone.peer_gone and alone.rank == 0
    printed = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/x.py", line 8, in <module>\n'
        "[rank1]: ValueError: rank one broke\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/x.py", line 7, in <module>\n'
        "[rank0]: RuntimeError: Connection reset by peer\n"
    )
    seen = parse_traceback(printed)
    assert seen is not None and (seen.rank, seen.line) == (1, 8)
    killed = crash_of(case_of(PLAN, None, ended, observe(ends[:1]), (), (), printed, None))
    assert killed is not None and killed.short_type == "ValueError"


def test_what_is_missing_is_installed_for_the_interpreter_that_ran() -> None:
    stderr, _path = stderr_of("import nowhere_to_be_found\n")
    for program, python in (
        ("/a venv/bin/python3.9", "'/a venv/bin/python3.9'"),
        ("python", "python"),
        ("torchrun", "python"),
    ):
        plan = Plan("r1", "/rec/r1", (program, "x.py"), "/w", 200, 900.0, 2**32, True)
        ended = Ended("natural", "", 1.0, exit_code=1)
        case = case_of(plan, None, ended, observe([]), (), (), stderr, None)
        (finding,) = findings_of_ending(case, "never_started", crash_of(case))
        assert finding.remedy == f"{python} -m pip install nowhere_to_be_found"
