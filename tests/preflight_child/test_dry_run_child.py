"""The runner's own dry run: executed only here, under caps, and told with its last words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.core.check_report import CheckReport
from seatrial.core.child import Ask
from seatrial.core.finding import Finding
from seatrial.core.trial import InputSpec, OutputSpec, Trial
from seatrial.preflight.dry_run import dry_run
from seatrial.preflight.hub_pins import hub_pins, hub_target

Make = Callable[..., Trial]


@pytest.fixture
def run(make_trial: Make, ask: Ask) -> Callable[..., CheckReport]:
    def go(code: str, *, script: bytes | None = None, stdin: bool = False, **rest: Any) -> Any:
        command = (sys.executable, "-c", code, *(["-"] if stdin else []))
        if rest.pop("from_stdin", False):
            command = (sys.executable, "-")
        env = {**os.environ, **rest.pop("env", {})}
        return dry_run(make_trial(dry_run=command, **rest), script, env, ask)

    return go


def only(report: CheckReport) -> Finding:
    (found,) = report.findings
    assert (found.code, found.severity) == ("environment.dry_run_failed", "error")
    return found


def test_a_dry_run_that_works_is_silent(run: Callable[..., CheckReport], tmp_path: Path) -> None:
    report = run("open('marker', 'w'); print('fine')")
    assert (report.findings, report.not_judged) == ((), ())
    assert report.facts["dry_run"]["exit_code"] == 0
    assert (tmp_path / "marker").exists()


def test_a_failing_dry_run_is_told_with_its_last_lines(run: Callable[..., CheckReport]) -> None:
    code = "import os, sys\nprint(os.environ['MY_KEY'], file=sys.stderr)\nraise SystemExit(7)"
    found = only(run(code, env={"MY_KEY": "s3cr3t-value-77"}, secrets=("MY_KEY",)))
    assert "left with exit code 7" in found.message
    assert "s3cr3t" not in str(found.to_json())
    assert "[secret MY_KEY]" in found.message
    assert found.evidence.observed == 7


@pytest.mark.parametrize(
    ("code", "said", "rest"),
    [
        ("import time; time.sleep(60)", "took longer than 1.0s", {"wall_s": 1.0}),
        (
            "x = bytearray(300 * 2**20); import time; time.sleep(60)",
            "took more memory than the trial's 100 MiB",
            {"memory_bytes": 100 * 2**20},
        ),
        ("while True: print('x' * 2**20)", "printed more than 16 MiB", {}),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9", {}),
    ],
)
def test_caps_and_signals(
    run: Callable[..., CheckReport], code: str, said: str, rest: dict[str, Any]
) -> None:
    assert said in only(run(code, **rest)).message


def test_the_bytes_that_were_read_are_what_runs(
    run: Callable[..., CheckReport], tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("raise SystemExit(9)")  # changed since it was hashed
    script = b"import sys\nopen('marker', 'w').write('as read')\nassert sys.argv == ['-']\n"
    report = run("", script=script, from_stdin=True)
    assert report.findings == ()
    assert (tmp_path / "marker").read_text() == "as read"
    assert report.facts["dry_run"]["stdin_bytes"] == len(script)
    assert "exit code 3" in only(run("", script=b"raise SystemExit(3)", from_stdin=True)).message


def test_without_a_command_or_a_script_nothing_is_judged(
    run: Callable[..., CheckReport], make_trial: Make, ask: Ask
) -> None:
    (entry,) = dry_run(make_trial(), b"x", {}, ask).not_judged
    assert "[runner] dry_run" in entry.reason
    (entry,) = run("", from_stdin=True).not_judged
    assert "there is no script" in entry.reason


def test_a_program_that_is_not_there(make_trial: Make, ask: Ask) -> None:
    report = dry_run(make_trial(dry_run=("not-there-at-all",)), None, dict(os.environ), ask)
    assert "could not be started" in only(report).message


def test_hub_inputs_are_silent_only_when_they_are_locked(make_trial: Make) -> None:
    pinned, branch = "a" * 40, "main"
    for revision, said in ((None, "no revision"), (branch, "may move"), (pinned, "nobody looked")):
        trial = make_trial(more=(InputSpec("m", "model", hub="org/m", revision=revision),))
        findings, (entry,) = hub_pins(trial, {})
        assert findings == []
        assert said in entry.reason
        assert hub_pins(trial, {"m": pinned}) == ([], [])
        assert len(hub_pins(trial, {"m": branch})[1]) == 1
    assert hub_pins(make_trial(), {}) == ([], [])


def test_a_public_hub_target_is_a_warning(make_trial: Make) -> None:
    assert hub_target(make_trial()) == ([], [])
    trial = make_trial(output=OutputSpec(hub="me/model", private=False))
    ((found,), unjudged) = hub_target(trial)
    assert (found.severity, unjudged) == ("warning", [])
    findings, (entry,) = hub_target(replace(trial, output=OutputSpec(hub="me/model")))
    assert findings == []
    assert "not known offline" in entry.reason
