"""Every outcome of the contract: a run that has it, its exit code, and a twin that has not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Optional

from seatrial.core.event import Event
from seatrial.core.finding import Finding
from seatrial.core.judge import judge
from seatrial.core.launch import Ended, Started
from seatrial.core.observation import observe
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.trip import STOP, WARN, Trip
from seatrial.core.verdict import OUTCOMES

AD_HOC = Plan("r1", "/rec/r1", ("python", "x.py"), "/w", 200, 900.0, 2**32, True)
TRIAL = replace(AD_HOC, ad_hoc=False, sources={"wall_s": "trial"}, wall_s=600.0)
STARTED = Started(7, "", 0.0)
TRACEBACK = """Traceback (most recent call last):
  File "/home/me/x.py", line 12, in <module>
    main()
  File "/home/me/env/lib/python3.11/site-packages/lib/thing.py", line 88, in go
    raise ValueError("shapes differ")
ValueError: shapes differ
"""


def ended(reason: str = "natural", exit_code: Optional[int] = 0, **more: Any) -> Ended:
    return Ended(reason, "", 42.0, exit_code=exit_code, **more)


def steps(count: int, rank: int = 0, **env: Any) -> List[Event]:
    pid = rank + 7
    events = [Event(0, "", 0.5, pid, rank, "env", {"device": "cpu", **env})]
    for n in range(1, count + 1):
        data = {"step": n, "loss_raw": 2.0 / n, "source": "torch"}
        events.append(Event(n, "", float(n), pid, rank, "step", data))
    return events


def closing(count: int, rank: int = 0, scope: str = "segment", **data: Any) -> Event:
    return Event(999, "", count + 1.0, rank + 7, rank, "train.end", {"scope": scope, **data})


def judged(
    end: Optional[Ended],
    events: List[Event],
    *trips: Trip,
    plan: Plan = AD_HOC,
    stderr: str = "",
    started: Optional[Started] = STARTED,
) -> RunResult:
    result = judge(plan, started, end, observe(events), trips, stderr_tail=stderr)
    assert result.outcome in OUTCOMES
    errors = [f for f in result.findings if f.severity == "error"]
    # The contract: every exit 1 has an error, and an error never ends in 0 or 3.
    assert (result.exit_code == 1) == bool(errors) or result.exit_code == 130, result
    if result.exit_code == 3:
        assert any(entry.required for entry in result.not_judged)
    assert result.conclusion.endswith(".") and "\n" not in result.conclusion
    if result.exit_code == 0:
        assert "did not disprove" in result.conclusion
    return result


def said(result: RunResult) -> tuple[Optional[str], int]:
    return (result.outcome, result.exit_code)


def finding(result: RunResult, code: str) -> Finding:
    found = [item for item in result.findings if item.code == code]
    assert len(found) == 1, (code, result.findings)
    return found[0]


def trip(gate: str, action: str = STOP, step: Optional[int] = 5, **more: Any) -> Trip:
    given = {"family": "gradients", "message": f"{gate} at {step}", **more}
    return Trip(gate=gate, action=action, step=step, **given)


def test_completed() -> None:
    events = [*steps(20), closing(20, scope="process", reason="script_end")]
    result = judged(ended(), events)
    assert said(result) == ("completed", 0)
    assert result.verdict == "pass" and result.probe_attached and result.done == 20
    assert result.conclusion == "A run of 20 optimizer steps did not disprove this setup."
    assert result.findings == ()


def test_capped_by_steps_and_by_the_default_wall() -> None:
    capped = [*steps(200), closing(200, reason="step_cap", steps_planned=5000)]
    result = judged(ended(), capped)
    assert said(result) == ("capped", 0)
    assert result.planned == 5000
    assert "first 200 optimizer steps (the step cap)" in result.conclusion
    assert said(judged(ended("step_cap", None, signal=15), steps(200))) == ("capped", 0)
    over = trip("gate.step_cap", family="bounds")
    by_gate = judged(ended("gate", 1, trigger=over.to_json()), steps(201), over)
    assert said(by_gate) == ("capped", 0) and by_gate.findings == ()
    # A launcher may turn our clean stop into an exit code of its own.
    assert said(judged(ended(exit_code=1), capped)) == ("capped", 0)

    wall = trip("gate.wall", step=None, family="bounds")
    result = judged(ended("wall", None, signal=15, trigger=wall.to_json()), steps(50), wall)
    assert said(result) == ("capped", 0) and result.findings == ()
    assert "fit into 15m" in result.conclusion
    assert said(judged(ended(), [*steps(50), closing(50, reason="wall")])) == ("capped", 0)
    # Left by itself in the very moment: nothing is wrong with a default that was reached.
    assert judged(ended(), steps(50), wall).findings == ()


def test_timeout_when_the_wall_was_declared_or_nothing_moved() -> None:
    wall = trip("gate.wall", step=None, family="bounds")
    declared = judged(ended("wall", None, trigger=wall.to_json()), steps(50), wall, plan=TRIAL)
    assert said(declared) == ("timeout", 1)
    told = finding(declared, "run.wall")
    assert (told.family, told.evidence.expected) == ("bounds", 600.0)
    assert "10m" in told.message and "50 optimizer steps" in told.message
    flag = replace(AD_HOC, sources={"wall_s": "flag"})
    assert said(judged(ended("wall"), steps(50), plan=flag)) == ("timeout", 1)
    flag = replace(AD_HOC, sources={"wall": "flag"})
    assert said(judged(ended("gate", trigger=wall.to_json()), steps(9), plan=flag))[0] == "timeout"
    early = judged(ended("wall"), [])
    assert said(early) == ("timeout", 1)
    assert "no optimizer step" in finding(early, "run.wall").message
    stalled = judged(ended("wall"), steps(50), trip("gate.stall", WARN, family="performance"))
    assert said(stalled) == ("timeout", 1)
    assert [item.code for item in stalled.findings] == ["gate.stall", "run.wall"]
    assert finding(stalled, "gate.stall").symptoms == ("run.wall",)
    inside = [*steps(9), closing(9, reason="wall")]
    assert said(judged(ended(), inside, plan=TRIAL)) == ("timeout", 1)
    late = judged(ended(), steps(9), wall, plan=TRIAL)
    assert said(late) == ("completed", 1)  # over the declared bound, though it left by itself


def test_stopped_short_needs_a_declared_plan() -> None:
    short = [*steps(31), closing(31, reason="exhausted", steps_done=31, steps_planned=100)]
    result = judged(ended(), short, trip("gate.loader_exhausted", WARN, 31, family="inputs"))
    assert said(result) == ("stopped_short", 1)
    told = finding(result, "run.stopped_short")
    assert (told.evidence.observed, told.evidence.expected) == (31, 100)
    assert told.family == "inputs" and "31 of 100" in told.message
    assert result.findings[0].code == "gate.loader_exhausted"  # the cause comes first
    for reason in ("early_stopping", "step_cap"):
        twin = [*steps(31), closing(31, reason=reason, steps_done=31, steps_planned=100)]
        assert judged(ended(), twin).exit_code == 0, reason
    assert said(judged(ended(), steps(31))) == ("completed", 0)
    whole = [*steps(31), closing(31, reason="completed", steps_done=31, steps_planned=31)]
    assert said(judged(ended(), whole)) == ("completed", 0)
    silent = [*steps(31), closing(31, steps_done=31, steps_planned=100)]
    assert finding(judged(ended(), silent), "run.stopped_short").family == "schedule"


def test_failed_names_the_exception_and_the_users_own_line() -> None:
    result = judged(ended(exit_code=1), steps(4), stderr=TRACEBACK)
    assert said(result) == ("failed", 1)
    told = finding(result, "run.exception")
    assert (told.place.file, told.place.line) == ("/home/me/x.py", 12)
    assert "ValueError: shapes differ" in told.message and "after step 4" in told.message
    assert "ValueError" in result.conclusion
    unseen = judged(ended(exit_code=1), [], stderr=TRACEBACK)
    assert said(unseen) == ("failed", 1)
    told = finding(unseen, "run.exception")
    assert "before the first optimizer step" in told.message and told.place.step is None
    crash = {"type": "KeyError", "message": "k", "file": "x.py"}
    events = [*steps(4), closing(4, scope="process", exception=crash)]
    assert finding(judged(ended(exit_code=1), events), "run.exception").message == (
        "The script raised KeyError: k after step 4."
    )


def test_failed_by_exit_code_or_signal() -> None:
    result = judged(ended(exit_code=3), steps(4))
    assert said(result) == ("failed", 1)
    assert finding(result, "run.exit_code").evidence.observed == 3
    for number, name in ((9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM"), (200, "signal 200")):
        result = judged(ended(exit_code=None, signal=number), steps(4))
        assert said(result) == ("failed", 1)
        told = finding(result, "run.signal")
        assert name in told.message and told.evidence.observed == name
        assert ("dmesg" in told.remedy) == (name == "SIGKILL")
        assert ("FAULTHANDLER" in told.remedy) == (name == "SIGSEGV")


def test_out_of_memory_by_bound_by_kernel_and_by_exception() -> None:
    over = trip("gate.memory", step=None, family="bounds", observed=5, expected=4)
    over = replace(over, message="the run uses 5 GiB of memory; the bound is 4 GiB")
    for end in (ended("memory", trigger=over.to_json()), ended("gate", trigger=over.to_json())):
        result = judged(end, steps(4), over)
        assert said(result) == ("oom", 1)
        assert [item.code for item in result.findings] == ["run.out_of_memory"]
        assert "5 GiB" in result.findings[0].message
    killed = ended(exit_code=None, signal=9, oom_killed=True, peak_memory_bytes=2**32)
    result = judged(killed, steps(4))
    assert said(result) == ("oom", 1) and "4 GiB" in finding(result, "run.out_of_memory").message
    assert result.peak_memory_bytes == 2**32
    for kind, text in (
        ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 GiB"),
        ("MemoryError", ""),
        ("RuntimeError", "DefaultCPUAllocator: can't allocate memory: 9 bytes"),
    ):
        crash = {"type": kind, "message": text, "file": "x.py", "line": 5}
        events = [*steps(2), closing(2, scope="process", reason="exception", exception=crash)]
        result = judged(ended(exit_code=1), events)
        assert said(result) == ("oom", 1), kind
        assert finding(result, "run.out_of_memory").place.line == 5
    # The bound was passed, but the run left by itself: still an error.
    late = judged(ended(), steps(4), over)
    assert said(late) == ("completed", 1) and finding(late, "gate.memory").severity == "error"


def test_gate() -> None:
    bad = trip("gate.non_finite_loss", rank=0, observed="nan", remedy="Look at the batch.")
    result = judged(ended("gate", 1, trigger=bad.to_json()), steps(5), bad)
    assert said(result) == ("gate", 1)
    told = finding(result, "gate.non_finite_loss")
    assert (told.severity, told.place.step, told.place.rank) == ("error", 5, 0)
    assert told.remedy == "Look at the batch." and told.evidence.observed == "nan"
    # The event of the trip was lost: the trigger of the end says it all the same.
    assert said(judged(ended("gate", trigger=bad.to_json()), steps(5))) == ("gate", 1)
    # Not even that: the outcome itself is the error.
    result = judged(ended("gate"), steps(5))
    assert said(result) == ("gate", 1) and result.findings[0].code == "run.gate"
    assert said(judged(ended("gate", trigger={"gate": "gate.x"}), steps(5))) == ("gate", 1)
    # A clean stop that the probe made at the gate's request.
    clean = [*steps(5), closing(5, reason="stop_request")]
    assert said(judged(ended(), clean, bad)) == ("gate", 1)
    assert said(judged(ended(), clean)) == ("interrupted", 130)
    warned = judged(ended(), steps(9), trip("gate.divergence", WARN, family="optimizer"))
    assert said(warned) == ("completed", 0)
    assert warned.conclusion.endswith("with 1 warning.")


def test_hung_after_success_passes_with_a_warning() -> None:
    result = judged(ended("hung_after_success", None, signal=9, forced=True), steps(20))
    assert said(result) == ("hung_after_success", 0)
    assert finding(result, "run.hung_after_success").severity == "warning"


def test_never_started_through_the_environment_or_the_script() -> None:
    spawn = judged(ended("spawn_failed", None, message="no program of the name trian"), [])
    assert said(spawn) == ("never_started", 3)
    assert "trian" in spawn.conclusion
    required = {entry.code for entry in spawn.not_judged if entry.required}
    assert required == {"run.start", "probe.steps"}
    missing = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
    missing += "ModuleNotFoundError: No module named 'peft.tuners'\n"
    result = judged(ended(exit_code=1), [], stderr=missing)
    assert said(result) == ("never_started", 3)
    told = finding(result, "environment.missing_module")
    assert (told.family, told.remedy) == ("environment", "python -m pip install peft")
    assert told.severity == "warning" and "peft" in result.conclusion
    late = judged(ended(exit_code=1), steps(3), stderr=missing)
    assert said(late) == ("failed", 1)
    assert finding(late, "run.exception").remedy == "python -m pip install peft"

    for code, stderr in ((127, "sh: 1: uv: not found\n"), (2, "make: *** [run] Error 127\n")):
        result = judged(ended(exit_code=code), [], stderr=stderr)
        assert said(result) == ("never_started", 3), code
        assert result.findings[0].code == "environment.command_not_started"
    assert "exit code 126" in judged(ended(exit_code=126), []).findings[0].message

    no_gpu = "Traceback (most recent call last):\n"
    no_gpu += "RuntimeError: Found no NVIDIA driver on your system.\n"
    result = judged(ended(exit_code=1), [], stderr=no_gpu)
    assert said(result) == ("never_started", 3)
    assert result.findings[0].code == "environment.no_accelerator"

    syntax = '  File "/home/me/x.py", line 3\n    def (:\n        ^\nSyntaxError: invalid syntax\n'
    result = judged(ended(exit_code=1), [], stderr=syntax)
    assert said(result) == ("never_started", 1)
    told = finding(result, "run.never_started")
    assert (told.place.file, told.place.line) == ("/home/me/x.py", 3)


def test_lost() -> None:
    for end in (None, ended("supervisor_lost", None, message="the supervisor is gone")):
        result = judged(end, steps(8))
        assert said(result) == ("lost", 3)
        assert "after step 8 is unknown" in finding(result, "run.lost").message
        assert result.seconds > 0
    nothing = judged(None, [], started=None)
    assert said(nothing) == ("lost", 3) and nothing.seconds == 0.0
    known = judged(None, steps(8), trip("gate.non_finite_loss"))
    assert said(known) == ("lost", 1)


def test_interrupted() -> None:
    for reason in ("interrupt", "stop"):
        result = judged(ended(reason), steps(8), trip("gate.non_finite_loss"))
        assert said(result) == ("interrupted", 130)
        assert result.verdict == "inconclusive"
        assert "interrupted after 8 optimizer steps" in result.conclusion
    assert "seatrial stop" in finding(judged(ended("stop"), steps(1)), "run.interrupted").message


def test_a_run_that_was_not_seen_is_never_a_pass() -> None:
    report = {"reason": "python was started with -I"}
    result = judged(ended(attach_report=report), [])
    assert said(result) == ("completed", 3)
    assert not result.probe_attached and result.ranks == 0
    entry = result.not_judged[0]
    assert (entry.code, entry.required) == ("probe.steps", True)
    assert "python was started with -I" in entry.reason
    assert "python was started with -I" in result.conclusion
    idle = judged(ended(), steps(0))
    assert said(idle) == ("completed", 3) and idle.probe_attached
    assert "saw no optimizer step" in idle.conclusion
    blind = [*steps(0), Event(5, "", 1.0, 7, 0, "probe.error", {"where": "hook", "error": "E: x"})]
    result = judged(ended(), blind)
    assert said(result) == ("completed", 3)
    assert "fault of its own: E: x" in result.not_judged[0].reason
    hung = judged(ended("hung_after_success", None), [])
    assert said(hung) == ("hung_after_success", 3)


def test_a_crash_after_the_cap_is_a_failure_of_the_script() -> None:
    crash = {"type": "KeyError", "message": "'eval'", "file": "x.py", "line": 80}
    events = [*steps(200), closing(200, reason="step_cap")]
    events.append(closing(201, scope="process", reason="exception", exception=crash))
    assert said(judged(ended(exit_code=1), events)) == ("failed", 1)
    assert said(judged(ended("step_cap", 1), events)) == ("failed", 1)
    assert said(judged(ended("step_cap", 1, forced=True), events)) == ("capped", 0)


def test_torch_without_training_is_attached_and_still_not_a_pass() -> None:
    result = judged(ended(attach_report={"attached": True, "reason": ""}), [])
    assert said(result) == ("completed", 3) and result.probe_attached
    assert "attached but saw no optimizer step" in result.conclusion
