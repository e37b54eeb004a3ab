"""Why the probe was not there: said in one sentence, from what can be seen of the processes."""

from __future__ import annotations

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_run import start, together

from seatrial.core.record_layout import RecordLayout
from seatrial.supervisor.attach import (
    AttachWatch,
    interpreter_flags,
    is_python,
    why_unseen,
)

BOOT = "/pkg/probe/bootstrap"


def test_flags_of_an_interpreter_are_read_up_to_its_script() -> None:
    cases = {
        "python x.py -I": "",
        "python -I x.py": "I",
        "python -uE -m mod -I": "uEm",
        "python -W error -S x.py": "W",
        "python -c pass": "c",
        "python -Ic pass": "Ic",
        "python -Wignore -I x": "WI",
        "python -": "",
    }
    for text, expected in cases.items():
        assert interpreter_flags(text.split()) == expected, text


def test_interpreters_are_known_by_name() -> None:
    for name in ("python", "python3", "/a/python3.11", "pypy3", "python3.13t", "python2.7"):
        assert is_python(name), name
    for name in ("bash", "python3-config", "ipython", "torchrun", "uv", ""):
        assert not is_python(name), name


def test_every_reason_has_its_sentence_and_a_healthy_interpreter_has_none() -> None:
    good = f"{BOOT}:/own"
    assert why_unseen(["python", "x.py"], "/usr/bin/python3.11", good, BOOT) == ""
    assert why_unseen(["python", "x.py"], "/usr/bin/python3.11", None, BOOT) == ""
    cases = [
        (["python", "-I", "x.py"], "/usr/bin/python3.11", good, "-I"),
        (["python", "-E", "x.py"], "/usr/bin/python3.11", good, "-E"),
        (["python", "-S", "x.py"], "/usr/bin/python3.11", good, "-S"),
        (["python", "x.py"], "/usr/bin/python3.11", "/own", "PYTHONPATH was replaced"),
        (["python", "x.py"], "/usr/bin/python3.8", good, "Python 3.8; the probe needs 3.9"),
        (["python2", "x.py"], "", good, "Python 2;"),
    ]
    for argv, executable, path, expected in cases:
        assert expected in why_unseen(argv, executable, path, BOOT), expected


def test_real_runs_are_diagnosed() -> None:
    python = sys.executable
    pause = "import time; time.sleep(2.2)"
    cases = {
        "-I": [python, "-I", "-c", pause],
        "-E": ["sh", "-c", f"'{python}' -E -c '{pause}'; exit 0"],
        "-S": [python, "-S", "-c", pause],
        "replaced": ["env", "PYTHONPATH=/nowhere", python, "-c", pause],
        "no Python process": ["sleep", "1"],
        "torch was never imported": [python, "-c", pause],
    }
    runs = {text: start("", argv=argv) for text, argv in cases.items()}
    together(*runs.values())
    for text, run in runs.items():
        report = run.ended["attach_report"]
        assert report["attached"] is False and report["ranks"] == 0
        assert text in report["reason"], (text, report)
        assert text in run.said("probe_missing")
        run.clean()


def test_a_short_command_is_diagnosed_from_its_own_words() -> None:
    run = start("", argv=[sys.executable, "-I", "-c", "pass"])
    run.wait()
    assert "-I" in run.ended["attach_report"]["reason"]
    run.clean()


def test_hand_shakes_decide() -> None:
    layout = RecordLayout(tempfile.mkdtemp())
    os.makedirs(layout.attach)

    def hand_shake(pid: int, **fields: object) -> None:
        value = {"pid": pid, "python": "3.11.7", "torch": None, "role": "interpreter", **fields}
        with open(os.path.join(layout.attach, f"{pid}.json"), "w", encoding="ascii") as file:
            json.dump({"error": None, **value}, file)

    watch = AttachWatch(layout, ["torchrun", "x.py"], BOOT)
    watch.look((), 0)
    assert watch.is_blind and "no Python process" in watch.report()["reason"]
    hand_shake(1)
    watch.look((), 0)
    assert not watch.is_blind and "not imported so far" in watch.report()["reason"]
    assert "never imported" in watch.report(ended=True)["reason"]
    hand_shake(2, torch="2.4.0", error="no hook for this torch")
    watch.look((), 0)
    assert watch.report()["attached"] is False and "no hook" in watch.report()["reason"]
    hand_shake(3, torch="2.4.0", role="rank")
    hand_shake(4, torch="2.4.0", role="rank")
    watch.look((), 0)
    report = watch.report()
    assert report["attached"] is True and report["ranks"] == 2 and report["reason"] == ""
    assert report["torch"] == "2.4.0" and report["python"] == "3.11.7"
    assert watch.torch_pids() == {2: "interpreter", 3: "rank", 4: "rank"}
