"""The runner's output: bounded, prompt, without secrets, and never in the runner's way."""

from __future__ import annotations

import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from fake_run import start, supervised, together

from seatrial.core.redaction import Redactor
from seatrial.supervisor.metric_lines import LineSplitter, parse_metric_line
from seatrial.supervisor.output import OutputPump
from seatrial.supervisor.output_log import OutputLog

SECRET = "wJalr-XUtnF EMI/K7 MDENG"


def _everything(folder: str) -> bytes:
    parts = []
    for base, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(base, name), "rb") as file:
                parts.append(name.encode() + b"\n" + file.read())
    return b"\n".join(parts)


def test_secrets_in_output_argv_events_and_messages_are_nowhere_in_the_record() -> None:
    script = """
secret = os.environ["MY_TOKEN"]
def slowly(text, fd):
    for character in text:
        os.write(fd, character.encode()); time.sleep(0.004)
slowly("one " + secret + " two\\n", 1)
slowly("on stderr " + secret, 2)
os.write(1, b"half " + secret[:9].encode()); time.sleep(1.6)
os.write(1, secret[9:].encode() + b" done\\n")
print(json.dumps({"loss": 1.0, secret: 2.0}), flush=True)
step(1)
raise RuntimeError("it was " + secret)
"""
    env = {**os.environ, "MY_TOKEN": SECRET}
    argv_secret = start(
        "",
        argv=["/no/such/" + SECRET.replace("/", "-"), "--x"],
        env={**os.environ, "MY_TOKEN": SECRET.replace("/", "-")},
    )
    with supervised(script, env=env) as run:
        text = run.text(run.layout.stdout)
        assert "one [secret MY_TOKEN] two\n" in text and "half [secret MY_TOKEN] done" in text
        assert SECRET.encode() not in _everything(run.record)
        assert SECRET[:9].encode() not in _everything(run.record)
        metrics = [e["data"]["metrics"] for e in run.events() if e["event"] == "eval"]
        assert metrics == [{"loss": 1.0, "[secret MY_TOKEN]": 2.0}]
    argv_secret.wait()
    assert SECRET.replace("/", "-").encode() not in _everything(argv_secret.record)
    assert "[secret MY_TOKEN]" in argv_secret.ended["message"]
    argv_secret.clean()


def test_who_holds_the_pipes_open_does_not_keep_the_run() -> None:
    """A daemon that left the tree for good cannot be made here; a stopped pump can."""
    script = """
print("before", flush=True)
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
"""
    with supervised(script, wall_s=1.0, grace_s=0.3) as run:
        assert "before" in run.text(run.layout.stdout) and run.ended["seconds"] < 5


def test_a_pump_leaves_while_the_other_end_is_open() -> None:
    folder = tempfile.mkdtemp()
    read, write = os.pipe()
    errors: list[OSError] = []
    pump = OutputPump(read, OutputLog(os.path.join(folder, "x.log")), Redactor(()), errors.append)
    pump.start()
    os.write(write, b'{"a": 1}\nrest')
    begin = time.monotonic()
    assert pump.finish(1.0) and time.monotonic() - begin < 1.0
    os.close(write)
    with open(os.path.join(folder, "x.log"), "rb") as file:
        assert file.read() == b'{"a": 1}\nrest'
    assert [line.metrics for line in pump.take_metrics()] == [{"a": 1.0}] and not errors


def test_a_log_that_cannot_be_written_is_told_once_and_the_pipe_is_drained() -> None:
    read, write = os.pipe()
    errors: list[OSError] = []
    pump = OutputPump(read, OutputLog("/no/such/folder/x.log"), Redactor(()), errors.append)
    pump.start()
    for _ in range(40):
        os.write(write, b"x" * 65535 + b"\n")  # 40 times more than a pipe holds
    os.close(write)
    assert pump.finish(5.0) and len(errors) == 1
    assert pump.dropped_bytes > 30 * 65536


def test_metrics_printed_as_json_are_fed_to_gates_and_written_as_events() -> None:
    script = """
step(1)
print(json.dumps({"step": 3, "accuracy": 0.25, "name": "x"}), flush=True)
print("not a metric {}", flush=True)
print("{'dict': 1}", flush=True)
while not asked(): time.sleep(0.02)
end("stop_request")
"""
    gate = {"metric": "accuracy", "op": ">=", "value": 0.5, "from_step": 0, "window": 1}
    tripped = start(script, ad_hoc=False, gates={"project": [gate]}, wall_s=15.0)
    healthy = start(
        script.replace("while not asked()", "while False"),
        ad_hoc=False,
        gates={"project": [{**gate, "value": 0.1}]},
    )
    together(tripped, healthy)
    (event,) = [e for e in tripped.events() if e["event"] == "eval"]
    assert event["data"] == {
        "step": 3, "segment": None, "metrics": {"accuracy": 0.25}, "source": "stdout",
    }  # fmt: skip
    assert event["rank"] is None
    assert tripped.ended["reason"] == "gate", tripped.ended
    assert tripped.ended["trigger"]["metric"].startswith("accuracy")
    assert healthy.ended["reason"] == "natural"
    tripped.clean()
    healthy.clean()


def test_what_is_a_metric_line() -> None:
    assert parse_metric_line(b'{"loss": NaN, "step": 2.0}') is not None
    found = parse_metric_line(b' {"loss": 1, "flag": true, "text": "abc", "x": {"y": 1}}\r')
    assert found is not None and found.step is None and found.metrics == {"loss": 1.0}
    for line in (b"", b"{}", b'{"step": 1}', b"{'a': 1}", b"[1]", b'{"a": 1', b'{"a": "text"}'):
        assert parse_metric_line(line) is None, line
    assert parse_metric_line(b'{"a": 1, "b": "' + b"x" * 9000 + b'"}') is None
    assert parse_metric_line(b'{"a": 1' + b"0" * 400 + b"}") is None
    assert parse_metric_line(b"{" * 5000) is None
    inf = parse_metric_line(b'{"step": Infinity, "a": "inf"}')
    assert inf is not None and inf.step is None and inf.metrics["a"] == float("inf")


def test_lines_are_cut_at_any_place() -> None:
    data = b"one\n\ntwo\nlong" + b"x" * 50 + b"\nthree\n"
    for size in (1, 2, 3, 7, len(data)):
        splitter = LineSplitter(limit=20)
        lines = []
        for at in range(0, len(data), size):
            lines += splitter.feed(data[at : at + size])
        assert lines == [b"one", b"", b"two", b"three"], size


def test_a_log_keeps_head_and_tail_of_any_stream() -> None:
    folder = tempfile.mkdtemp()
    for total, chunk in ((90, 7), (100, 100), (130, 9), (170, 33), (1000, 11), (1000, 1000)):
        path = os.path.join(folder, f"{total}.{chunk}.log")
        log = OutputLog(path, head_bytes=100, tail_bytes=50)
        data = bytes(33 + n % 90 for n in range(total))
        for at in range(0, total, chunk):
            log.write(data[at : at + chunk])
        log.close()
        with open(path, "rb") as file:
            kept = file.read()
        assert kept.startswith(data[:100])
        if total > 100:
            assert kept.endswith(data[max(100, total - 50) :])
        assert log.dropped_bytes == max(0, total - 150)
        assert (b"%d bytes of output are missing" % (total - 150) in kept) == (total > 150)
        assert not [name for name in os.listdir(folder) if "tail" in name]
