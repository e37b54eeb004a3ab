"""How a supervised run ends: every reason, with a healthy twin beside the planted fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_run import FakeRun, start, supervised, together

from seatrial.supervisor.message import LaunchMessage, entry_command

LOOP = """
emit("env", world_size=1)
for number in range(1, {steps} + 1):
    step(number)
    time.sleep({pause})
    if asked():
        end("stop_request")
        break
else:
    end("completed")
"""


def test_a_run_that_ends_by_itself_is_natural_with_its_exact_exit_code() -> None:
    runs = [
        start(LOOP.format(steps=3, pause=0.01)),
        start("sys.exit(3)"),
        start("os.kill(os.getpid(), signal.SIGSEGV)"),
        start("", argv=["sh", "-c", "kill -9 $$"]),
        start("", argv=["sh", "-c", "sh -c 'kill -9 $$'; exit $?"]),
    ]
    together(*runs)
    ends = [(r.ended["reason"], r.ended["exit_code"], r.ended["signal"]) for r in runs]
    assert ends == [
        ("natural", 0, None),
        ("natural", 3, None),
        ("natural", None, signal.SIGSEGV),
        ("natural", None, signal.SIGKILL),
        ("natural", 137, None),
    ]
    assert not any(run.ended["forced"] or run.ended["oom_killed"] for run in runs)
    assert all(run.process.returncode == 0 for run in runs)
    assert "SIGKILL" in runs[4].said("runner_left")
    for run in runs:
        run.clean()


def test_the_record_says_what_was_seen() -> None:
    with supervised(LOOP.format(steps=4, pause=0.4)) as run:
        beat = run.json(run.layout.heartbeat)
        assert beat["step"] == 4 and beat["planned"] == 1 and beat["loss"] == 0.5
        assert beat["ranks"] == 1 and beat["state"] == "ended"
        assert run.ended["attach_report"]["attached"] is True
        assert run.ended["peak_memory_bytes"] > 1 << 20
        samples = run.text(run.layout.resources).splitlines()
        assert 1 <= len(samples) <= 3
        assert json.loads(samples[0])["processes"] == 1
        assert run.states()[:2] == ["claimed", "started"] and run.states()[-1] == "ended"
        started = run.started
        assert started["guard_pid"] == run.process.pid and started["start_ticks"] > 0


def test_the_runner_gets_what_the_architecture_promises() -> None:
    script = """
keys = ["PYTHONPATH", "SEATRIAL_RECORD", "SEATRIAL_RUN_ID", "SEATRIAL_MAX_STEPS",
        "SEATRIAL_DEADLINE", "OWN"]
ignored = [s for s in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(s) != signal.SIG_DFL]
fds = sorted(int(n) for n in os.listdir("/proc/self/fd"))
open("names", "w").write(os.environ["SEATRIAL_SECRET_NAMES"])
print(json.dumps({"env": {k: os.environ.get(k) for k in keys}, "stdin": sys.stdin.read(),
    "sid": os.getsid(0) == os.getpid(), "cwd": os.getcwd(), "ignored": ignored, "fds": fds,
    "left": float(os.environ["SEATRIAL_DEADLINE"]) - time.monotonic()}))
"""
    env = {**os.environ, "PYTHONPATH": "/own/path", "OWN": "1", "MY_TOKEN": "s3cret-value"}
    with supervised(script, env=env, max_steps=7, wall_s=50.0) as run:
        seen = json.loads(run.text(run.layout.stdout))
        bootstrap, own = seen["env"]["PYTHONPATH"].split(os.pathsep)
        assert bootstrap.endswith(os.path.join("probe", "bootstrap")) and own == "/own/path"
        assert seen["env"]["SEATRIAL_RUN_ID"] == run.plan.run_id
        assert seen["env"]["SEATRIAL_MAX_STEPS"] == "7" and seen["env"]["OWN"] == "1"
        assert "MY_TOKEN" in run.text(run.file("names")).split(",")
        assert seen["stdin"] == "" and seen["sid"] and seen["cwd"] == run.folder
        assert seen["ignored"] == [] and 40 < seen["left"] < 50
        assert len(seen["fds"]) == 4  # 0, 1, 2 and the folder that is being listed


def test_what_cannot_be_started_is_said_with_errno_file_and_next_step() -> None:
    def planted(name: str, content: str, mode: int) -> str:
        path = run.file(name)
        with open(path, "w", encoding="ascii") as file:
            file.write(content)
        os.chmod(path, mode)
        return path

    cases = []
    for what in ("missing", "bare", "denied", "no_line", "bad_line", "folder", "cwd", "zero"):
        run = FakeRun("")
        expected = {
            "missing": (["/no/such/program"], "ENOENT", "ls -l"),
            "bare": (["no-such-program-here"], "ENOENT", "PATH"),
            "denied": ([planted("denied", "#!/bin/sh\n", 0o644)], "EACCES", "chmod +x"),
            "no_line": ([planted("no_line", "echo hello\n", 0o755)], "ENOEXEC", "sh "),
            "bad_line": ([planted("bad_line", "#!/no/interp\n", 0o755)], "ENOENT", "head -1"),
            "folder": ([run.folder], "EACCES", ""),
            "cwd": (["true"], "ENOENT", "working directory"),
            "zero": (["true", "a\0b"], "zero byte", ""),
        }[what]
        run.argv = expected[0]
        if what == "cwd":
            run.plan = type(run.plan)(**{**vars(run.plan), "cwd": "/no/such/folder"})
        cases.append((run.start(), expected))
    for run, (argv, code, hint) in cases:
        run.wait()
        assert run.ended["reason"] == "spawn_failed", (argv, run.ended)
        assert code in run.ended["message"] + str(run.events()) and hint in run.ended["message"]
        assert run.process.returncode == 0 and run.started is None
        assert run.ended["attach_report"]["attached"] is False
        run.clean()


def test_bounds_end_a_run_and_a_run_within_them_goes_on() -> None:
    hog = 'step(1)\nblock = bytearray(300 << 20)\nblock[::4096] = b"x" * len(block[::4096])\n'
    wait = "while not asked(): time.sleep(0.05)\nend('stop_request')"
    runs = {
        "wall": start(LOOP.format(steps=10000, pause=0.05), wall_s=1.5, grace_s=15.0),
        "memory": start(hog + wait, memory_bytes=150 << 20, grace_s=15.0),
        "step_cap": start("for n in range(1, 8): step(n)\n" + wait, max_steps=5, grace_s=15.0),
        "gate": start(
            "step(1)\nstep(2, loss='nan', rank=0)\nstep(3, 'nan')\nstep(4, 'nan')\n" + wait
        ),
    }
    twin = start(hog + "time.sleep(1.2)\nend()", memory_bytes=900 << 20)
    together(twin, *runs.values())
    for reason, run in runs.items():
        assert run.ended["reason"] == reason, (reason, run.ended)
        assert not run.ended["forced"], reason  # each of them obeyed
        assert run.ended["exit_code"] == 0 and run.ended["message"]
    assert runs["memory"].ended["peak_memory_bytes"] > 300 << 20
    assert runs["gate"].ended["trigger"]["gate"] == "gate.non_finite_loss"
    request = runs["gate"].json(runs["gate"].layout.stop_request)
    assert request["at_step"] >= 4 and request["reason"] == "gate" and request["by"] == "supervisor"
    assert 1.5 <= runs["wall"].ended["seconds"] < 12
    assert twin.ended["reason"] == "natural" and twin.ended["peak_memory_bytes"] > 250 << 20
    for run in [twin, *runs.values()]:
        run.clean()


def test_shared_memory_of_workers_is_counted_once() -> None:
    script = """
block = bytearray(120 << 20)
block[::4096] = b"x" * len(block[::4096])
step(1)
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        sum(block[::4096])  # reads every page, owns none of them alone
        time.sleep(2.0)
        os._exit(0)
    children.append(pid)
for pid in children: os.waitpid(pid, 0)
end()
"""
    with supervised(script, memory_bytes=400 << 20) as run:
        assert run.ended["reason"] == "natural", run.ended
        assert run.ended["peak_memory_bytes"] < 400 << 20


def _request(run: FakeRun, path: str, **fields: object) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    value = {"reason": "stop", "by": "test", "t": "", "at_step": 0, "force": False, **fields}
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)


def test_requests_of_other_processes_stop_a_run() -> None:
    endless = LOOP.format(steps=100000, pause=0.05)
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nstep(1)\ntime.sleep(60)"
    clean, interrupt, force, kill, term = (
        start(script, grace_s=20.0) for script in (endless, endless, deaf, deaf, endless)
    )
    for run in (clean, interrupt, force, kill, term):
        run.until(lambda run=run: os.path.exists(run.layout.events(0)))
    begin = time.monotonic()
    _request(clean, clean.layout.stop_request)
    _request(interrupt, interrupt.layout.stop_request, reason="interrupt")
    _request(force, force.layout.stop_request, force=True)
    _request(kill, kill.layout.kill_request)
    os.kill(term.started["supervisor_pid"], signal.SIGTERM)
    together(clean, interrupt, force, kill, term)
    assert time.monotonic() - begin < 15  # nobody waited out the grace of 20 s
    reasons = [run.ended["reason"] for run in (clean, interrupt, force, kill, term)]
    assert reasons == ["stop", "interrupt", "stop", "stop", "stop"]
    assert not clean.ended["forced"] and not term.ended["forced"]
    assert force.ended["forced"] and kill.ended["signal"] == signal.SIGKILL
    for run in (clean, interrupt, force, kill, term):
        run.clean()


def test_hung_after_success_is_told_from_work_after_training() -> None:
    done = "emit('env', world_size=1)\nstep(1)\nend(scope={scope!r})\n"
    after = {
        "hung": "time.sleep(60)",
        "hung_segment": "time.sleep(60)",
        "cpu": "t = time.time()\nwhile time.time() - t < 4: pass",
        "output": "for _ in range(20): print('uploading', flush=True); time.sleep(0.2)",
        "file": "f = open('grow', 'wb')\nfor _ in range(20): f.write(b'x' * 99999); time.sleep(.2)",
        "failed": "time.sleep(4)",
    }
    runs = {}
    for name, code in after.items():
        scope = "segment" if name == "hung_segment" else "process"
        script = done.format(scope=scope) + code
        if name == "failed":
            script = script.replace("end(", "end(reason='exception', ")
        runs[name] = start(script, gates={"hung_after_s": 2.0})
    together(*runs.values())
    reasons = {name: run.ended["reason"] for name, run in runs.items()}
    assert reasons == {
        "hung": "hung_after_success",
        "hung_segment": "hung_after_success",
        "cpu": "natural",
        "output": "natural",
        "file": "natural",
        "failed": "natural",
    }
    assert runs["hung"].ended["seconds"] < 15
    for run in runs.values():
        run.clean()


def test_the_finalizer_is_handed_command_and_environment_and_may_leave_them_unread() -> None:
    take = (
        "import json, sys; m = json.load(sys.stdin);"
        " open(m['plan']['record'] + '/took', 'w').write(json.dumps([sys.argv[1:], m['argv'],"
        " m['env']['HANDED']]))"
    )
    env = {**os.environ, "HANDED": "over", "LONG": "x" * 100000}
    with supervised("step(1)", finalizer=(sys.executable, "-c", take), env=env) as run:
        assert run.json(os.path.join(run.record, "took")) == [["--legs"], run.argv, "over"]
    with supervised("step(1)", finalizer=(sys.executable, "-c", "pass"), env=env) as run:
        assert run.ended["reason"] == "natural"


def test_the_finalizer_runs_behind_the_last_words_and_cannot_change_them() -> None:
    look = "import os,sys; print('finalized', os.path.exists('launch/ended.json')); sys.exit(9)"
    with supervised("step(1)", finalizer=(sys.executable, "-c", look)) as run:
        assert "finalized True" in run.text(run.layout.supervisor_log)
        assert run.ended["exit_code"] == 0 and run.process.returncode == 0
    with supervised("step(1)", finalizer=("/no/such/finalizer",)) as run:
        assert "cannot be started" in run.text(run.layout.supervisor_log)
        assert run.ended["exit_code"] == 0 and run.process.returncode == 0


def test_a_message_that_is_none_is_refused() -> None:
    run = FakeRun("")
    for raw in (b"", b"nonsense", b"[]", b'{"plan": {}, "argv": ["x"], "env": {}}'):
        done = subprocess.run(entry_command(), input=raw, capture_output=True, check=False)
        assert done.returncode == 2 and b"Traceback" not in done.stderr and done.stderr
    run.clean()


def test_a_user_module_named_like_the_standard_library_does_no_harm() -> None:
    run = FakeRun("import json\nprint(json.dumps({'a': 1}))")
    for name in ("json.py", "signal.py", "select.py", "typing.py"):
        with open(run.file(name), "w", encoding="ascii") as file:
            file.write("raise RuntimeError('the module of the user')\n")
    command = [part for part in entry_command() if part != "-I"]  # the weaker way to start it
    done = subprocess.run(
        command,
        input=LaunchMessage(run.plan, ("true",), run.env).to_bytes(),
        env={**os.environ, "PYTHONPATH": run.folder},
        cwd=run.folder,
        check=False,
    )
    assert done.returncode == 0 and run.ended["exit_code"] == 0
    run.clean()


def _limited_group() -> str:
    """A control group of 80 MiB below our own; where none can be made the test is skipped."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.strip().split(":", 2)
            if controllers not in ("memory", ""):
                continue
            base = "/sys/fs/cgroup" + ("/memory" if controllers == "memory" else "")
            name = "memory.limit_in_bytes" if controllers == "memory" else "memory.max"
            folder = f"{base}{path.rstrip('/')}/seatrial-test-{os.getpid()}"
            try:
                os.mkdir(folder)
            except OSError:
                continue
            try:
                with open(os.path.join(folder, name), "r+", encoding="ascii") as limit:
                    limit.write(str(80 << 20))
                return folder
            except OSError:
                os.rmdir(folder)
    raise unittest.SkipTest("no control group with a memory limit can be made here")


def test_a_kill_by_the_kernel_for_memory_is_told_from_any_other() -> None:
    folder = _limited_group()
    script = f"""
open({os.path.join(folder, "cgroup.procs")!r}, "w").write(str(os.getpid()))
step(1)
block = bytearray(200 << 20)
block[::4096] = b"x" * len(block[::4096])
"""
    try:
        with supervised(script) as run:
            assert run.ended["oom_killed"] is True, run.ended
            assert run.ended["signal"] == signal.SIGKILL and run.ended["reason"] == "natural"
    finally:
        os.rmdir(folder)


def test_a_gate_that_breaks_does_not_end_the_training() -> None:
    bad = {"metric": "loss", "op": "no such operator", "value": 1.0, "from_step": 0, "window": 1}
    script = "step(1)\nprint(json.dumps({'loss': 1.0}), flush=True)\ntime.sleep(0.5)\nend()"
    with supervised(script, ad_hoc=False, gates={"project": [bad]}) as run:
        assert run.ended["reason"] == "natural" and run.ended["exit_code"] == 0, run.ended
        assert "a gate failed" in run.said("gate_failed")
        assert "Traceback" in run.text(run.layout.supervisor_log)
