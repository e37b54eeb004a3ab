"""The terminal's first and last words, word for word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from seatrial.evidence.report_input import ReportInput
from seatrial.evidence.terminal import bounds_block, verdict_block

PASS = """\
PASS: not disproved (exit 0)
200 of 200 planned optimizer steps ran on 2 ranks within bounds, and no check found an error.

  outcome   completed: the script ended by itself
  steps     200 of 200 planned
  time      43.2s
  memory    peak 1.2 GiB
  cost      0 USD
  probe     attached, 2 ranks, transformers

Findings: 1 note
  note     No held-out cases were given, so nothing is known about unseen data. [inputs.no_heldout]
           remedy: Add [heldout] to trial.toml; seatrial init train.py drafts one.

Not judged
  - resume.same_loss: no resume command was given
  - checkpoint.reload: 120 s for extra legs were used up

Not tested
  - Whether the model is any good: no held-out cases were given.
  - Resuming from a checkpoint.
  - Hardware other than this machine's 2 CPU cores.

  report    /home/ada/report.html
  next      seatrial open 20261130-225014-legal-moves-7f3a"""

FAIL = """\
FAIL: disproved (exit 1)
The setup is disproved: from step 72 on the raw loss is nan, 6
steps after the gradient began to grow without limit.

  outcome   gate: a gate stopped the run
  steps     74 of 200 planned
  time      16.4s
  memory    peak 1.2 GiB
  cost      0 USD
  probe     attached, 1 rank, transformers

Findings: 3 errors, 1 warning
  error    The learning rate is at its peak of 0.05 from step 1
           on. [schedule.no_warmup]
           where: train.py:38, step 1; observed 0.05; expected
           at most 0.0005; tolerance 10
           remedy: Set warmup_ratio=0.1 and lower learning_rate
           to 2e-4.
           follows from it: gate.non_finite_loss,
           gate.non_finite_gradient, checkpoint.missing
  warning  max_grad_norm is 0, so gradients are not clipped.
           [optimizer.not_clipped]
           where: train.py:41; observed 0; expected 1
           remedy: Set max_grad_norm=1.0.

Not judged
  - resume.same_loss: no resume command was given
  - checkpoint.reload: 120 s for extra legs were used up

Not tested
  - Whether the model is any good: no held-out cases were given.
  - Resuming from a checkpoint.
  - Hardware other than this machine's 2 CPU cores.

  record    /home/ada/moves/.seatrial/runs/20261130-225014-legal-moves-7f3a
  next      seatrial run --max-steps 80 -- python train.py --lr 2e-4"""


def last_words(report: ReportInput, *, colour: bool = False, width: int = 100) -> str:
    return verdict_block(
        report.result, report.not_tested, report.next_command, colour=colour, width=width
    )


def test_a_pass(reports: Mapping[str, ReportInput]) -> None:
    report = reports["pass"]
    report = replace(report, result=replace(report.result, report="/home/ada/report.html"))
    assert last_words(report) == PASS


def test_a_failure_in_a_narrow_terminal(reports: Mapping[str, ReportInput]) -> None:
    assert last_words(reports["fail"], width=64) == FAIL


def test_colour_adds_nothing_but_colour(reports: Mapping[str, ReportInput]) -> None:
    coloured = last_words(reports["fail"], colour=True, width=64)
    assert coloured.startswith("\x1b[1;31mFAIL\x1b[0m: disproved")
    assert "\x1b[1;33mwarning\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == FAIL


def test_no_text_of_a_run_steers_the_terminal(reports: Mapping[str, ReportInput]) -> None:
    text = last_words(reports["hostile"]) + bounds_block(reports["hostile"].plan)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800]", text)
    assert "\\x1b[31mred" in text


def test_many_findings_are_cut_short_and_counted(reports: Mapping[str, ReportInput]) -> None:
    report = reports["fail"]
    many = tuple(replace(report.result.findings[0], code=f"c{i}") for i in range(30))
    text = last_words(replace(report, result=replace(report.result, findings=many)))
    assert "Findings: 30 warnings" in text
    assert "  and 22 more in the report" in text


def test_the_bounds_before_the_start(reports: Mapping[str, ReportInput]) -> None:
    assert bounds_block(reports["empty"].plan) == (
        "This run ends at the first of these bounds (20261130-225014-legal-moves-7f3a):\n"
        "  steps     200 optimizer steps (default)\n"
        "  time      15m (default)\n"
        "  memory    12 GiB (default)\n"
        "  money     0 USD, engine local (default)\n"
        "  command   python train.py --out 'my model' --token '[secret token]'"
    )


def test_the_gates_of_a_run_are_named_by_what_they_do(reports: Mapping[str, ReportInput]) -> None:
    text = " ".join(bounds_block(reports["pass"].plan).split())
    stops, warns = text.split("Gates that stop it: ")[1].split("Gates that only warn: ")
    assert "non_finite_loss; non_finite_gradient" in stops
    assert "eval_loss < 2.5, mean of the last 2, from step 100" in stops
    assert "steps 200 optimizer steps (flag)" in text
    assert "memory 12 GiB (trial file)" in text
    assert "divergence" in warns
    assert "throughput" not in text  # off
