"""The whole evaluation with real children: planted faults, and healthy twins that stay silent."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="checkpoints are torch's")
pytestmark = pytest.mark.torch

from seatrial.core.check_report import CheckReport  # noqa: E402
from seatrial.core.observation import Observation  # noqa: E402
from seatrial.core.observation.values import SaveView  # noqa: E402
from seatrial.core.trial import HeldoutGate, InputSpec  # noqa: E402


def required(report: CheckReport) -> list[str]:
    return [entry.reason for entry in report.not_judged if entry.required]


def codes(report: CheckReport) -> list[str]:
    return [finding.code for finding in report.findings]


def test_a_healthy_checkpoint_is_proven_and_answers_every_case_once(bench: Any) -> None:
    report = bench.evaluate()
    assert (codes(report), required(report)) == ([], [])
    trained = report.facts["models"]["trained"]
    assert trained["fields"] == {"parse": 1.0, "right": 1.0, "length": pytest.approx(2.6)}
    assert (trained["proof"]["compared"], trained["proof"]["equal"]) == (2, 2)
    assert trained["pid"] != os.getpid()
    assert [row["id"] for row in bench.lines("trained")] == ["c0", "c1", "c2", "c3", "c4"]
    begun = json.loads((Path(bench.layout.folder) / "heldout" / "begun.json").read_text())
    assert (begun["cases"], begun["roles"]) == (5, ["trained"])
    assert bench.uses() == 5
    assert [entry.code for entry in report.not_judged] == ["heldout.base"]


def test_a_second_evaluation_of_the_same_run_answers_nothing(bench: Any) -> None:
    bench.evaluate()
    again = bench.evaluate()
    assert "begun before" in required(again)[0]
    assert "count as used" in required(again)[0]
    assert len(bench.lines("trained")) == 5
    os.remove(os.path.join(bench.layout.folder, "heldout", "begun.json"))
    assert "begun before" in required(bench.evaluate())[0]  # the ledger knows it, too


def test_the_base_model_gets_the_same_cases_and_the_page_shows_both(bench: Any) -> None:
    import torch

    torch.save({"weight": -torch.ones(1, 2), "bias": torch.zeros(1)}, bench.folder / "base.pt")
    saved = SaveView(rank=0, step=0, path=str(bench.folder / "base.pt"))
    bench.observation = Observation(saves=(saved,))
    report = bench.evaluate()
    assert codes(report) == []
    assert report.facts["models"]["base"]["fields"]["right"] == 0.0
    assert report.facts["models"]["trained"]["fields"]["right"] == 1.0
    row = report.facts["examples"][0]
    assert (row["base"]["raw"], row["trained"]["raw"], row["failed"]) == ("no", "yes", False)
    assert bench.uses() == 10


def test_a_base_model_that_breaks_never_hides_the_trained_one(bench: Any) -> None:
    bench.write("base.pt", "no checkpoint")
    bench.inputs = (InputSpec("start", "model", str(bench.folder / "base.pt")),)
    report = bench.evaluate()
    assert (codes(report), required(report)) == ([], [])
    assert list(report.facts["models"]) == ["trained"]
    (entry,) = report.not_judged
    assert (entry.code, entry.required) == ("heldout.base", False)
    assert "input 'start'" in entry.reason


def test_a_base_model_that_satisfies_every_gate_makes_them_tell_nothing(bench: Any) -> None:
    shutil.copy(bench.folder / "model.pt", bench.folder / "base.pt")
    bench.inputs = (InputSpec("start", "model", str(bench.folder / "base.pt")),)
    report = bench.evaluate()
    assert codes(report) == ["eval_mode.base_holds_thresholds"]
    assert report.findings[0].severity == "warning"


def test_a_threshold_that_does_not_hold_names_the_cases(bench: Any) -> None:
    bench.write(
        "judge.py",
        (bench.folder / "judge.py").read_text().replace("pass", "if a == '3': return 'no'"),
    )
    report = bench.evaluate()
    (finding,) = report.findings
    assert (finding.code, finding.severity) == ("eval_mode.heldout_gate", "error")
    assert (finding.evidence.observed, finding.evidence.expected) == (0.8, ">= 0.9")
    assert "c2" in finding.remedy
    assert report.facts["examples"][0]["id"] == "c2"
    assert report.facts["examples"][0]["failed"] is True


def test_a_field_that_no_case_has_is_not_judged(bench: Any) -> None:
    bench.gates = (HeldoutGate("legal", ">=", 0.5),)
    report = bench.evaluate()
    assert codes(report) == []
    assert "'legal'" in required(report)[0]


def test_a_validator_that_raises_makes_failed_cases_and_the_rest_is_judged(bench: Any) -> None:
    bench.write(
        "validator.py",
        (bench.folder / "validator.py").read_text().replace("pass", "assert case['id'] != 'c1'"),
    )
    report = bench.evaluate()
    assert codes(report) == ["eval_mode.heldout_gate"]  # 4 of 5 is below 0.9
    assert report.facts["models"]["trained"]["failed"] == 1
    shown = [row for row in bench.lines("trained") if row["error"]]
    assert [row["id"] for row in shown] == ["c1"]
    assert "AssertionError" in shown[0]["error"]
    assert "validator.py:3" in shown[0]["error"]


# What is broken before a case is asked uses none: file, change of it, and what is said.
BEFORE = [
    ("validator.py", "import nothing_of_that_name", "nothing_of_that_name"),
    ("judge.py", "def load(path): raise ValueError('no such layer')", "no such layer"),
    ("judge.py", "import sys\ndef load(path): sys.exit(3)", "SystemExit"),
    ("judge.py", "import os\ndef load(path): os._exit(5)", "exit code 5"),
    ("judge.py", "def load(path): return object()", "neither answer() nor generate()"),
    ("judge.py", "def other(path): pass", "load"),
    ("cases.jsonl", '{"id": "c0", "messages": [{"role": "user", "content": "x"}]}', "prompt file"),
    ("model.pt", "no checkpoint", "could not be loaded"),
]


@pytest.mark.parametrize(("file", "text", "said"), BEFORE, ids=[row[2] for row in BEFORE])
def test_what_breaks_before_the_first_case_uses_none(
    bench: Any, file: str, text: str, said: str
) -> None:
    bench.write(file, text)
    report = bench.evaluate()
    (reason,) = required(report)
    assert said in reason
    assert "no case was used" in reason
    assert (bench.uses(), bench.lines("trained")) == (0, [])


def test_an_interpreter_that_is_not_there_is_not_judged(bench: Any) -> None:
    for interpreter in (None, "/nowhere/python"):
        bench.interpreter = interpreter
        report = bench.evaluate()
        assert "no case was used" in required(report)[0]
    assert bench.uses() == 0


def test_weights_that_changed_after_the_scan_are_not_evaluated(bench: Any) -> None:
    bench.files = {"model.pt": "00" * 32}
    report = bench.evaluate()
    assert codes(report) == ["checkpoint.changed_after_scan"]
    assert bench.uses() == 0


def test_weights_that_change_while_they_are_loaded_are_not_evaluated(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    planted = "    open(path, 'ab').write(b'x')\n    return Answers(model)"
    bench.write("judge.py", text.replace("    return Answers(model)", planted))
    assert codes(bench.evaluate()) == ["checkpoint.changed_after_scan"]
    assert bench.uses() == 0


def test_a_loader_that_changes_the_weights_is_told_and_evaluated(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    planted = "    model.bias.data += 1\n    return Answers(model)"
    bench.write("judge.py", text.replace("    return Answers(model)", planted))
    bench.gates = ()
    report = bench.evaluate()
    (finding,) = report.findings
    assert (finding.code, finding.severity) == ("checkpoint.reload_differs", "warning")
    assert "bias" in finding.message
    assert bench.uses() == 5


def test_a_head_that_a_loader_makes_up_is_an_error(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    planted = "    model.head = torch.nn.Linear(3, 3)\n    return Answers(model)"
    bench.write("judge.py", text.replace("    return Answers(model)", planted))
    report = bench.evaluate()
    assert codes(report) == ["checkpoint.reload_incomplete"]
    assert "head.weight" in report.findings[0].message


def test_weights_that_a_loader_takes_from_elsewhere_are_no_fault(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    planted = "    model.table = torch.nn.Parameter(torch.arange(9.0))\n    return Answers(model)"
    bench.write("judge.py", text.replace("    return Answers(model)", planted))
    assert codes(bench.evaluate()) == []


def test_a_stop_midway_leaves_the_cases_used(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    bench.write("judge.py", text.replace("pass", "__import__('time').sleep(0.3)"))
    bench.stop = lambda: len(bench.lines("trained")) >= 2
    report = bench.evaluate()
    assert "a stop was asked for" in required(report)[0]
    assert "count as used" in required(report)[0]
    assert len(bench.lines("trained")) < 5
    assert bench.uses() == 5


def test_a_model_that_dies_midway_leaves_the_cases_used(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    bench.write("judge.py", text.replace("pass", "if a == '3': __import__('os')._exit(9)"))
    report = bench.evaluate()
    assert "'c2'" in required(report)[0]
    assert "exit code 9" in required(report)[0]
    assert (len(bench.lines("trained")), bench.uses()) == (2, 5)


def test_a_model_that_raises_at_a_case_fails_that_case(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    bench.write("judge.py", text.replace("pass", "if a == '3': __import__('sys').exit(1)"))
    report = bench.evaluate()
    assert report.facts["models"]["trained"]["failed"] == 1
    assert "SystemExit" in bench.lines("trained")[2]["error"]


def test_the_end_of_the_leg_is_no_fault_of_a_case(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    bench.write("judge.py", text.replace("pass", "__import__('time').sleep(1)"))
    bench.deadline_s = 5.0
    report = bench.evaluate()
    assert "count as used" in required(report)[0]
    assert all(row["error"] is None for row in bench.lines("trained"))


def test_a_secret_reaches_no_child_and_no_file(bench: Any) -> None:
    bench.env = {**os.environ, "THE_SECRET": "s3cret-value-of-the-run"}
    text = (bench.folder / "judge.py").read_text()
    planted = "return str(__import__('os').environ.get('THE_SECRET'))"
    bench.write("judge.py", text.replace("pass", planted))
    bench.evaluate()
    assert {row["raw"] for row in bench.lines("trained")} == {"None"}
    told = text.replace("pass", "return 'it is s3cret-value-of-the-run'")
    bench.write("judge.py", told)
    bench.run_id, bench.use = "run-2", 2
    bench.evaluate()
    assert len(bench.lines("trained")) == 5
    assert "s3cret" not in json.dumps(bench.lines("trained"))


def test_odd_text_survives_the_way_to_the_record(bench: Any) -> None:
    text = (bench.folder / "judge.py").read_text()
    bench.write("judge.py", text.replace("pass", "return 'a\\ud800\\x00\\u2028</script>'"))
    report = bench.evaluate()
    assert {row["raw"] for row in bench.lines("trained")} == {"a\ud800\x00\u2028</script>"}
    assert codes(report) == ["eval_mode.heldout_gate"]


def test_cases_seen_under_another_lock_are_told(bench: Any) -> None:
    from datetime import datetime, timezone

    from seatrial.readers.case_file import read_cases
    from seatrial.store.heldout_rows import begin_use
    from seatrial.store.ledger import open_ledger

    hashes = dict(read_cases(str(bench.folder / "cases.jsonl"), "cases").hashes())
    two = dict(list(hashes.items())[:2])
    with open_ledger(bench.ledger) as ledger:
        begin_use(
            ledger, lock_sha256="cd" * 32, roles=["trained"], cases=two, run_id="older",
            trial_file=None, reason=None, use=1, now=datetime.now(timezone.utc),
        )  # fmt: skip
    report = bench.evaluate()
    assert codes(report) == ["eval_mode.heldout_seen_before"]
    assert "2 of the 5" in report.findings[0].message
    assert "older" in report.findings[0].message


def test_a_model_without_torch_is_asked_and_said_not_to_be_proven(bench: Any) -> None:
    hidden = bench.folder / "hidden"
    hidden.mkdir()
    (hidden / "torch.py").write_text("raise ImportError('no torch here')\n")
    bench.env = {**os.environ, "PYTHONPATH": str(hidden)}
    bench.write("model.pt", "1 1")
    bench.write(
        "judge.py",
        "class Sum:\n    def answer(self, text):\n"
        "        return 'yes' if sum(map(float, text.split())) > 0 else 'no'\n"
        "def load(path):\n    return Sum()\n",
    )
    report = bench.evaluate()
    assert (codes(report), required(report)) == ([], [])
    assert report.facts["models"]["trained"]["fields"]["right"] == 1.0
    assert "heldout.reload_proof" in [entry.code for entry in report.not_judged]
