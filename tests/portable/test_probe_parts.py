"""The probe's torch-free parts: faults, settings, stops, the writer, attachments, import hooks."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any, Dict, List, Tuple

from seatrial.core.redaction import Redactor
from seatrial.probe.attach import Attachment
from seatrial.probe.driver import current_driver
from seatrial.probe.faults import Faults
from seatrial.probe.import_hooks import AfterImport
from seatrial.probe.settings import Settings
from seatrial.probe.stopping import StopControl, StopTraining
from seatrial.probe.wrapping import wrap
from seatrial.probe.writer import EventWriter


def record_in(folder: str) -> str:
    os.makedirs(os.path.join(folder, "run", "attach"))
    os.makedirs(os.path.join(folder, "control"))
    return folder


def written(record: str, rank: int = 0) -> List[Dict[str, Any]]:
    with open(os.path.join(record, "run", f"events.rank{rank}.jsonl"), encoding="ascii") as file:
        return [json.loads(line) for line in file]


def test_a_fault_is_reported_and_switched_off_after_three() -> None:
    told: List[Tuple[str, str, int]] = []
    faults = Faults(lambda where, error, count: told.append((where, error, count)))
    calls: List[int] = []

    def broken() -> None:
        calls.append(1)
        raise ValueError("planted")

    guarded = faults.guard("here", broken, "default")
    assert [guarded() for _ in range(10)] == ["default"] * 10
    assert len(calls) == 3
    assert told == [("here", "ValueError: planted", n) for n in (1, 2, 3)]
    assert faults.guard("there", lambda: 5)() == 5


def test_a_stop_passes_every_guard_and_a_report_that_fails_is_survived() -> None:
    def report(*_args: Any) -> None:
        raise OSError("no space")

    faults = Faults(report)

    def stop() -> None:
        raise StopTraining(0)

    def broken() -> None:
        raise ValueError("planted")

    assert faults.guard("broken", broken)() is None
    try:
        faults.guard("stop", stop)()
    except SystemExit as leaving:
        assert leaving.code == 0
    else:
        raise AssertionError("the stop was swallowed")


def test_settings_take_only_what_makes_sense() -> None:
    bad = Settings("/r", {"SEATRIAL_MAX_STEPS": "-3", "SEATRIAL_DEADLINE": "soon"})
    assert (bad.max_steps, bad.deadline, bad.secrets, bad.run_id) == (None, None, (), "")
    good = Settings(
        "/r",
        {"SEATRIAL_MAX_STEPS": "7", "SEATRIAL_DEADLINE": "1.5", "SEATRIAL_SECRET_NAMES": "A,,B"},
    )
    assert (good.max_steps, good.deadline, good.secrets) == (7, 1.5, ("A", "B"))


def control(folder: str, alone: bool = True, **bounds: Any) -> StopControl:
    environ = {f"SEATRIAL_{name.upper()}": str(value) for name, value in bounds.items()}
    return StopControl(Settings(folder, environ), lambda: alone)


def ask(folder: str, text: str) -> None:
    with open(os.path.join(folder, "control", "stop.json"), "w", encoding="utf-8") as file:
        file.write(text)


def test_one_process_stops_at_the_cap_the_deadline_or_the_request() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record_in(folder)
        capped = control(folder, max_steps=3)
        assert [capped.due(step) for step in (1, 2, 3, 4)] == [None, None, "step_cap", "step_cap"]
        assert control(folder, deadline=time.monotonic() - 1).due(1) == "wall"
        assert control(folder, deadline=time.monotonic() + 60).due(1) is None
        ask(folder, '{"at_step": 5}')
        asked = control(folder)
        assert [asked.due(step) for step in (4, 5)] == [None, "stop_request"]
        ask(folder, "{ torn")
        assert control(folder).due(1) == "stop_request"
        assert [capped.may_raise_again() for _ in range(4)] == [True, True, True, False]


def test_ranks_agree_on_one_last_step_whoever_sees_the_reason_first() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record_in(folder)
        ahead, behind = control(folder, alone=False), control(folder, alone=False)
        assert ahead.due(6) is None
        ask(folder, '{"at_step": 2}')  # both are beyond it already
        assert behind.due(6) is None  # first to see it: 7 is the last
        assert ahead.due(7) == "stop_request"
        assert behind.due(7) == "stop_request"
    with tempfile.TemporaryDirectory() as folder:
        record_in(folder)
        late = control(folder, alone=False, deadline=time.monotonic() - 1)
        other = control(folder, alone=False, deadline=time.monotonic() + 60)
        assert late.due(4) is None
        assert other.due(4) is None
        assert late.due(5) == other.due(5) == "wall"


def test_the_writer_writes_whole_lines_without_secrets() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record_in(folder)
        opened: List[int] = []
        writer = EventWriter(folder, lambda: 3, lambda: Redactor(["plum-cake-55"]))
        writer.on_open = lambda: opened.append(1)
        assert not writer.is_open
        digest = "ab" * 32
        assert writer.write(
            "save", {"path": "/x/plum-cake-55", "digests": {"token.weight": digest}}
        )
        assert writer.write("step", {"loss_raw": float("nan")}, plain=True)
        first, second = written(folder, 3)
        assert "plum" not in json.dumps(first)
        assert first["data"]["digests"] == {"token.weight": digest}
        assert second["data"] == {"loss_raw": "nan"}
        assert [line["seq"] for line in (first, second)] == [1, 2]
        assert (first["rank"], first["pid"], opened) == (3, os.getpid(), [1])
        writer.forget()
        assert not writer.write("step", {}, plain=True)
        assert len(written(folder, 3)) == 2


def test_a_record_that_is_gone_breaks_the_writer_for_good() -> None:
    writer = EventWriter("/no/such/record", lambda: 0, lambda: Redactor([]))
    assert not writer.write("step", {})
    assert writer.is_broken
    Attachment("/no/such/record").write()  # and an attachment says nothing


def test_an_attachment_is_json_whatever_the_text() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record_in(folder)
        attachment = Attachment(folder)
        attachment.write()
        attachment.update(torch="2.0", role="rank", argv=["a b", 'q"\n\u00e4\udcff'], error="x")
        (name,) = os.listdir(os.path.join(folder, "run", "attach"))
        assert name == f"{os.getpid()}.json"
        with open(os.path.join(folder, "run", "attach", name), encoding="ascii") as file:
            value = json.load(file)
        assert value["argv"] == ["a b", 'q"\n\u00e4\udcff']
        assert (value["torch"], value["role"], value["error"]) == ("2.0", "rank", "x")
        assert value["pid"] == os.getpid()
        attachment.forked()
        attachment.write()
        with open(os.path.join(folder, "run", "attach", name), encoding="ascii") as file:
            assert json.load(file)["role"] == "interpreter"


def test_an_installer_runs_after_its_import_and_leaves_the_loader_as_it_was() -> None:
    import importlib

    faults: List[Tuple[str, str]] = []
    seen: List[Any] = []
    hooks = AfterImport(lambda name, error: faults.append((name, str(error))))

    def broken(_module: Any) -> None:
        raise ValueError("planted")

    with tempfile.TemporaryDirectory() as folder:
        for name in ("probe_wanted_one", "probe_wanted_two", "probe_raises"):
            with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as file:
                file.write("raise KeyError('own')\n" if name == "probe_raises" else "VALUE = 4\n")
        sys.path.insert(0, folder)
        try:
            hooks.add("probe_wanted_one", seen.append)
            hooks.add("probe_wanted_two", broken)
            hooks.add("probe_raises", seen.append)
            hooks.start()
            one = importlib.import_module("probe_wanted_one")
            importlib.import_module("probe_wanted_two")
            try:
                importlib.import_module("probe_raises")
            except KeyError:
                pass
            assert seen == [one]
            assert faults == [("probe_wanted_two", "planted")]
            assert "exec_module" not in vars(one.__spec__.loader)
            importlib.reload(one)
            assert seen == [one, one]
            hooks.add("probe_wanted_one", seen.append)  # already there: at once
            assert len(seen) == 3
        finally:
            sys.path.remove(folder)
            sys.meta_path.remove(hooks)  # type: ignore[arg-type]
            for name in ("probe_wanted_one", "probe_wanted_two"):
                sys.modules.pop(name, None)


def test_a_wrapped_function_looks_like_the_original_and_is_wrapped_once() -> None:
    import inspect

    class Owner:
        @staticmethod
        def work(a: int, b: int = 2) -> int:
            """Add."""
            return a + b

    original = Owner.work

    def make(inner: Any) -> Any:
        return lambda *args, **kwargs: inner(*args, **kwargs) + 100

    wrap([Owner], "work", make)
    wrap([Owner], "work", make)
    wrap([Owner], "absent", make)
    assert Owner.work(1) == 103
    assert inspect.signature(Owner.work) == inspect.signature(original)
    assert (Owner.work.__name__, Owner.work.__doc__) == ("work", "Add.")


def test_the_driver_is_read_off_the_stack() -> None:
    code = "def call(f): return f()\nclass T:\n    def train(self, f): return f()\n"

    def module(name: str) -> Dict[str, Any]:
        space: Dict[str, Any] = {"__name__": name}
        exec(code, space)
        return space

    accelerate, trainer, model = (
        module(name) for name in ("accelerate.optimizer", "transformers.trainer", "transformers.x")
    )
    assert current_driver() is None
    assert model["call"](current_driver) is None
    assert accelerate["call"](current_driver) == "accelerate"
    assert trainer["call"](lambda: accelerate["call"](current_driver)) == "transformers"
    mine = type("Mine", (type("SFTTrainer", (trainer["T"],), {"__module__": "trl.trainer"}),), {})
    assert mine().train(current_driver) == "trl"
    assert trainer["T"]().train(current_driver) == "transformers"
