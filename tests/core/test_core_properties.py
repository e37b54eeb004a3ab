"""Properties that hold for every input, found by search: round trips and the contract's table."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.core import strict_json, verdict
from seatrial.core.event import EVENTS, Event, from_line, to_line
from seatrial.core.finding import FAMILIES, SEVERITIES, Evidence, Finding, Place, cause_first
from seatrial.core.gates.board import GateBoard
from seatrial.core.gates.settings import GateSettings
from seatrial.core.judge import judge
from seatrial.core.launch import END_REASONS, Ended
from seatrial.core.observation import observe
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.trip import STOP, WARN, Sample, Trip
from seatrial.core.units import format_duration, parse_duration

PLAN = Plan("r1", "/rec/r1", ("python", "x.py"), "/w", 200, 900.0, 2**32, True)
SETTINGS = GateSettings(wall_s=900, max_steps=200, memory_bytes=2**30, ad_hoc=False)

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just("nan")
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "type", "message"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    "step",
    "segment",
    "optimizer",
    "loss_raw",
    "lr",
    "grad_norm",
    "tokens",
    "supervised_tokens",
    "metrics",
    "source",
    "error",
    "scope",
    "steps_done",
    "steps_planned",
    "reason",
    "best",
    "exception",
    "env",
    "world_size",
    "skipped_before",
    "digests",
]
events = st.builds(
    Event,
    seq=st.integers(0, 99),
    t=st.just(""),
    mono=st.floats(0, 100),
    pid=st.integers(1, 2),
    rank=st.sampled_from([None, 0, 1]),
    event=st.sampled_from(EVENTS),
    data=st.dictionaries(st.sampled_from(FIELDS), values, max_size=6),
)
findings = st.builds(
    Finding,
    code=st.sampled_from(["a", "b", "c"]),
    family=st.sampled_from(FAMILIES),
    severity=st.sampled_from(SEVERITIES),
    message=st.text(max_size=20),
    place=st.builds(Place, step=st.none() | st.integers(), file=st.none() | st.text(max_size=5)),
    evidence=st.builds(Evidence, observed=st.none() | st.integers() | st.text(max_size=5)),
    symptoms=st.lists(st.sampled_from(["a", "b", "c"]), max_size=2).map(tuple),
)
ends = st.none() | st.builds(
    Ended,
    reason=st.sampled_from(END_REASONS),
    t=st.just(""),
    seconds=st.floats(0, 1e6),
    exit_code=st.none() | st.integers(-15, 130),
    signal=st.none() | st.integers(1, 64),
    oom_killed=st.booleans(),
    trigger=st.none()
    | st.dictionaries(st.sampled_from(["gate", "action", "family", "message"]), scalars),
    attach_report=st.dictionaries(st.sampled_from(["attached", "reason"]), scalars),
)
trips = st.builds(
    Trip,
    gate=st.sampled_from(["gate.wall", "gate.memory", "gate.stall", "gate.project", "gate.x"]),
    action=st.sampled_from([STOP, WARN]),
    family=st.sampled_from(["bounds", "of a later version"]),
    message=st.text(max_size=20),
    step=st.none() | st.integers(0, 9),
    rank=st.none() | st.integers(0, 2),
)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


@given(values)
def test_strict_json_carries_every_value(value: Any) -> None:
    text = strict_json.dumps(value)
    assert text.isascii() and "\n" not in text
    assert strict_json.dumps(strict_json.loads(text)) == text


@given(st.floats())
def test_every_number_survives_its_encoding(value: float) -> None:
    back = strict_json.decode_number(
        strict_json.loads(strict_json.dumps(strict_json.encode_number(value)))
    )
    assert back is not None and same(back, value)


@given(events)
def test_every_event_is_one_line_and_reads_back(event: Event) -> None:
    line = to_line(event)
    assert line.count("\n") == 1
    back = from_line(line)
    assert to_line(back) == line
    assert (back.seq, back.mono, back.pid, back.rank) == (
        event.seq,
        event.mono,
        event.pid,
        event.rank,
    )


@given(st.text(max_size=60))
def test_no_text_makes_the_event_reader_fail_in_another_way(line: str) -> None:
    try:
        from_line(line)
    except ValueError:
        pass


@given(st.lists(findings, max_size=6))
def test_findings_read_back_and_causes_come_first(listed: list[Finding]) -> None:
    for finding in listed:
        assert Finding.from_json(strict_json.loads(strict_json.dumps(finding.to_json()))) == finding
    ordered = cause_first(listed)
    assert sorted(map(repr, ordered)) == sorted(map(repr, listed))
    follows = {code for finding in listed for code in finding.symptoms}
    flags = [finding.code in follows for finding in ordered]
    assert flags == sorted(flags)


@given(st.lists(st.sampled_from(verdict.PRECEDENCE)))
def test_the_strongest_exit_is_one_of_them_and_none_is_stronger(codes: list[int]) -> None:
    chosen = verdict.strongest_exit(codes)
    assert chosen in {0, *codes}
    assert all(verdict.PRECEDENCE.index(chosen) <= verdict.PRECEDENCE.index(code) for code in codes)


@given(st.integers(1, 10**6))
def test_whole_minutes_survive_their_own_words(minutes: int) -> None:
    assert parse_duration(format_duration(minutes * 60.0)) == minutes * 60


@given(st.lists(events, max_size=25))
@settings(max_examples=150, deadline=None)
def test_no_events_break_the_gates(listed: list[Event]) -> None:
    board = GateBoard(SETTINGS, 0.0)
    keys = []
    for event in listed:
        found = board.feed(event) + board.tick(event.mono, Sample(event.mono))
        keys += [(trip.gate, trip.rank, trip.metric, trip.action) for trip in found]
        strict_json.dumps([trip.to_json() for trip in found])
    assert len(set(keys)) == len(keys)


@given(
    st.lists(events, max_size=25),
    ends,
    st.lists(trips, max_size=3),
    st.booleans(),
    st.text(max_size=50),
)
@settings(max_examples=300, deadline=None)
def test_every_record_gets_a_result_that_keeps_the_contract(
    listed: list[Event], end: Ended | None, tripped: list[Trip], ad_hoc: bool, stderr: str
) -> None:
    seen = observe(listed)
    plan = Plan.from_json({**PLAN.to_json(), "ad_hoc": ad_hoc})
    result = judge(plan, None, end, seen, tripped, stderr_tail=stderr)
    assert result.outcome in verdict.OUTCOMES
    errors = any(finding.severity == "error" for finding in result.findings)
    assert result.exit_code in (0, 1, 3, 130)
    assert errors == (result.exit_code == 1) or result.exit_code == 130
    if result.exit_code == 0:
        assert result.probe_attached and result.done > 0
        assert result.outcome in ("completed", "capped", "hung_after_success")
        assert not any(entry.required for entry in result.not_judged)
    text = strict_json.dumps(result.to_json())
    assert strict_json.dumps(RunResult.from_json(strict_json.loads(text)).to_json()) == text
