"""Reports of runs that could have been: a pass, a failure, an empty run, and hostile ones."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from seatrial.core.curve import Curve
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.gates.settings import GateSettings
from seatrial.core.plan import Plan
from seatrial.core.run_result import RunResult
from seatrial.core.trial import GateSpec
from seatrial.core.trip import Trip
from seatrial.evidence.report_input import ReportInput, gate_lines_for

GIB = 2**30
HOSTILE = (
    "</script><script>document.title='owned'</script>"
    "\"'><img src=x onerror=alert(1)><svg onload=alert(2)> &amp; {{ 7*7 }} {% raw %}"
    "\n# heading\n[link](https://evil.invalid/x) `code` |cell| ![i](http://evil.invalid/i.png)"
    "\r\x1b[31mred\x1b]0;title\x07\x00\u202egpj.exe\u2066\ud800 @everyone #12 https://evil.invalid"
)


def plan(**changes: object) -> Plan:
    settings = GateSettings(
        wall_s=900.0,
        max_steps=200,
        memory_bytes=12 * GIB,
        project=(GateSpec("eval_loss", "<", 2.5, from_step=100, window=2),),
    )
    start = Plan(
        run_id="20261130-225014-legal-moves-7f3a",
        record="/home/ada/moves/.seatrial/runs/20261130-225014-legal-moves-7f3a",
        command=("python", "train.py", "--out", "my model", "--token", "[secret token]"),
        cwd="/home/ada/moves",
        max_steps=200,
        wall_s=900.0,
        memory_bytes=12 * GIB,
        ad_hoc=True,
        name="legal-moves",
        sources={"max_steps": "flag", "wall": "default", "memory": "trial"},
        gates=settings.to_json(),
    )
    return replace(start, **changes)  # type: ignore[arg-type]


def curves(steps: int = 200, ranks: int = 1, bad_from: int | None = None) -> tuple[Curve, ...]:
    noise = random.Random(7)
    found = []
    for rank in range(ranks):
        loss, norm, rate, memory = [], [], [], []
        for step in range(1, steps + 1):
            value = 0.4 + 2.1 * math.exp(-step / (steps / 4)) + noise.gauss(0, 0.05)
            grad = 0.6 + abs(noise.gauss(0.3, 0.25))
            if bad_from is not None and step >= bad_from - 6:
                grad *= 4.0 ** (step - bad_from + 6)
                value *= 1.5 ** (step - bad_from + 6)
            if bad_from is not None and step >= bad_from:
                value = grad = math.nan
            loss.append((float(step), value))
            norm.append((float(step), grad))
            rate.append((float(step), 2e-4 * min(step / 20, 1 - (step - 20) / steps)))
            memory.append((float(step), 1.1e9 + 2e6 * math.sin(step / 9) + rank * 3e7))
        found += [
            Curve("loss_raw", "step", tuple(loss), rank=rank),
            Curve("grad_norm", "step", tuple(norm), rank=rank),
            Curve("lr", "step", tuple(rate), rank=rank),
            Curve("rss_bytes", "step", tuple(memory), "B", rank=rank),
        ]
    tree = tuple((s / 2, 1.3e9 * (1 - math.exp(-s / 9)) + noise.random() * 2e7) for s in range(90))
    found.append(Curve("rss_bytes", "seconds", tree, "B"))
    return tuple(found)


def passing() -> ReportInput:
    the_plan = plan()
    evaluations = tuple(
        {
            "step": step,
            "metrics": {"eval_loss": 2.4 - step / 110, "eval_legal": 0.3 + step / 320},
            "source": "trainer",
        }
        for step in (50, 100, 150, 200)
    )
    names = ("eval_loss", "eval_legal")
    evaluated = tuple(
        Curve(n, "step", tuple((float(e["step"]), e["metrics"][n]) for e in evaluations), rank=0)
        for n in names
    )
    return ReportInput(
        result=RunResult(
            exit_code=0,
            outcome="completed",
            conclusion="200 of 200 planned optimizer steps ran on 2 ranks within bounds, and no "
            "check found an error.",
            run_id=the_plan.run_id,
            record=the_plan.record,
            probe_attached=True,
            ranks=2,
            framework="transformers",
            planned=200,
            done=200,
            findings=(
                Finding(
                    "inputs.no_heldout",
                    "inputs",
                    "note",
                    "No held-out cases were given, so nothing is known about unseen data.",
                    remedy="Add [heldout] to trial.toml; seatrial init train.py drafts one.",
                ),
            ),
            not_judged=(
                NotJudged("resume.same_loss", "resume", "no resume command was given"),
                NotJudged("checkpoint.reload", "checkpoint", "120 s for extra legs were used up"),
            ),
            best={"metric": "eval_loss", "value": 0.582, "step": 200, "path": "out/best"},
            seconds=43.2,
            peak_memory_bytes=int(1.31e9),
        ),
        plan=the_plan,
        curves=curves(ranks=2) + evaluated,
        gate_lines=gate_lines_for(the_plan),
        environment={
            "python": "3.11.9",
            "platform": "Linux-6.1-x86_64",
            "torch": "2.13.0",
            "threads": 1,
            "world_size": 2,
            "deterministic": False,
            "packages": {"transformers": "5.24.0", "trl": "1.16.0", "peft": "0.18.1"},
            "env": {"OMP_NUM_THREADS": "1"},
        },
        model={
            "name": "LlamaForCausalLM",
            "parameters": 1_204_224,
            "trainable": 65_536,
            "dtypes": {"float32": 1_204_224},
            "wrappers": ["DistributedDataParallel"],
            "lora": True,
        },
        tested=(
            "Every optimizer step's raw loss, gradient norm and learning rate were watched.",
            "Bounds on steps, time, memory and money were enforced.",
            "Two checkpoints were written without an error.",
        ),
        not_tested=(
            "Whether the model is any good: no held-out cases were given.",
            "Resuming from a checkpoint.",
            "Hardware other than this machine's 2 CPU cores.",
        ),
        next_command="seatrial open 20261130-225014-legal-moves-7f3a",
        started="2026-11-30 22:50:14 UTC",
        evaluations=evaluations,
        saves=(
            {"step": 100, "path": "out/checkpoint-100", "kind": "safetensors", "tensors": 42,
             "bytes": 4_816_896, "error": None},
            {"step": 200, "path": "out/checkpoint-200", "kind": "safetensors", "tensors": 42,
             "bytes": 4_816_896, "error": None},
        ),
        output_tail="loading\n\x1b[32mepoch 1\x1b[0m\n 10%|#   |\r 90%|### |\r100%|####|\ndone\n",
    )  # fmt: skip


def failing() -> ReportInput:
    base = passing()
    trips = (
        Trip("gate.divergence", "warn", "gradients", "the loss is 8.1 times its start", "loss_raw",
             8.126, "at most 2 times 2.4", 70, 0),
        Trip("gate.non_finite_loss", "stop", "gradients",
             "the raw loss of step 72 is nan; an optimizer step used it", "loss_raw", "nan",
             "a finite number", 72, 0, "Lower the learning rate."),
        Trip("gate.non_finite_gradient", "stop", "gradients",
             "the gradient norm of step 72 is nan; an optimizer step used it", "grad_norm", "nan",
             "a finite number", 72, 0),
    )  # fmt: skip
    findings = (
        Finding("optimizer.not_clipped", "optimizer", "warning",
                "max_grad_norm is 0, so gradients are not clipped.",
                Place(file="train.py", line=41), Evidence(0, 1.0),
                "Set max_grad_norm=1.0.", "proven"),
        Finding("schedule.no_warmup", "schedule", "error",
                "The learning rate is at its peak of 0.05 from step 1 on.",
                Place(file="train.py", line=38, step=1), Evidence(0.05, "at most 0.0005", 10),
                "Set warmup_ratio=0.1 and lower learning_rate to 2e-4.", "measured",
                ("gate.non_finite_loss", "gate.non_finite_gradient", "checkpoint.missing")),
        Finding("gate.non_finite_loss", "gradients", "error",
                "The raw loss of step 72 is nan; an optimizer step used it.",
                Place(step=72, rank=0), Evidence("nan", "a finite number"),
                "Look at the batch of this step, lower the learning rate, and compute the loss in "
                "float32."),
        Finding("gate.non_finite_gradient", "gradients", "error",
                "The gradient norm of step 72 is nan.", Place(step=72, rank=0, module="lm_head",
                parameter="lm_head.weight"), Evidence("nan", "a finite number")),
    )  # fmt: skip
    result = replace(
        base.result,
        exit_code=1,
        outcome="gate",
        conclusion="The setup is disproved: from step 72 on the raw loss is nan, 6 steps after the "
        "gradient began to grow without limit.",
        ranks=1,
        done=74,
        findings=findings,
        best=None,
        seconds=16.4,
    )
    return replace(
        base,
        result=result,
        curves=curves(steps=74, bad_from=72),
        trips=trips,
        evaluations=(),
        next_command="seatrial run --max-steps 80 -- python train.py --lr 2e-4",
    )


def inconclusive() -> ReportInput:
    base = passing()
    result = RunResult(
        exit_code=3,
        outcome="completed",
        conclusion="Nothing can be said: the probe saw no optimizer step in 12.0s.",
        run_id=base.plan.run_id,
        probe_attached=True,
        ranks=0,
        seconds=12.0,
        peak_memory_bytes=3 * 10**8,
        not_judged=(
            NotJudged("gradients.watched", "gradients", "no optimizer step was seen", True),
            NotJudged("inputs.heldout", "inputs", "no held-out cases were given"),
        ),
    )
    return ReportInput(result=result, plan=base.plan, gate_lines=base.gate_lines,
                       curves=(curves()[-1],), environment=base.environment,
                       not_tested=("Everything about the training itself.",),
                       next_command="seatrial doctor", started=base.started)  # fmt: skip


def empty() -> ReportInput:
    result = RunResult(exit_code=3, outcome=None, conclusion="Nothing ran.")
    return ReportInput(result=result, plan=plan(gates={}, name="", sources={}))


def odd() -> ReportInput:
    """Values at the ends of what floats hold, many ranks, text that never ends."""
    base = passing()
    nan, inf = math.nan, math.inf
    many = tuple(
        Curve("loss_raw", "step",
              tuple((float(s), 3.0 / s + rank * 0.01) for s in range(1, 400)), rank=rank)
        for rank in range(24)
    )  # fmt: skip
    strange = (
        Curve("grad_norm", "step", ((1.0, 1e308), (2.0, -1e308), (3.0, inf), (4.0, -inf), (5, 0))),
        Curve("all_nan", "step", tuple((float(s), nan) for s in range(1, 9))),
        Curve("tiny", "step", ((1.0, 5e-324), (2.0, 1e-323))),
        Curve("spread", "step", tuple((float(s), 10.0 ** (s - 12)) for s in range(24))),
        Curve("constant", "step", tuple((float(s), 2.302585093) for s in range(50))),
        Curve("one_point", "step", ((7.0, 1.0),)),
        Curve("near", "step", tuple((float(s), 1e6 + s * 1e-3) for s in range(30))),
        Curve("x" * 500, "step", ((1.0, 2.0), (2.0, 3.0)), unit="y" * 300),
        Curve("negative", "step", tuple((float(s), math.sin(s) * 1e-7) for s in range(30))),
        Curve("no points", "step", ()),
        Curve("restarts", "step", ((1.0, 3.0), (2.0, 2.0), (3.0, 1.0), (1.0, 2.5), (2.0, 1.5))),
        Curve("alternating", "step",
              tuple((float(s), nan if s % 2 else 1.0 + s) for s in range(40))),
    )  # fmt: skip
    return replace(
        base,
        result=replace(
            base.result,
            exit_code=1,
            outcome="failed",
            conclusion="w" * 1_000_000,
            done=10**15,
            planned=3,
            seconds=1e300,
            peak_memory_bytes=2**80,
            findings=tuple(
                Finding(f"c{i}", "labels", "error", "m" * 3000, symptoms=(f"c{(i + 1) % 3}",))
                for i in range(3)
            ),
        ),
        curves=many + strange,
        trips=tuple(
            Trip("gate.x", "warn", "labels", "again", "loss_raw", i / 9, 1, 100) for i in range(5)
        ),
    )


def hostile() -> ReportInput:
    """Every text of the run is an attack."""
    base = failing()
    text = HOSTILE
    return ReportInput(
        result=replace(
            base.result, conclusion=text, run_id=text, record=text, framework=text, cost=text,
            currency=text, outcome=text, hypothesis=text, best={"path": text},
            heldout={text: text, "nested": {text: [text]}},
            findings=(
                Finding(text, "labels", "error", text, Place(text, 1, module=text, parameter=text),
                        Evidence(text, {text: text}, [text]), text, symptoms=(text + "2",)),
            ),
            not_judged=(NotJudged(text, text, text, True),),
        ),
        plan=replace(base.plan, name=text, command=("sh", "-c", text), cwd=text, record=text,
                     money=text, engine=text, sources={"max_steps": text}),
        curves=(
            Curve(text, "step", ((1.0, 1.0), (2.0, math.nan)), text),
            Curve("loss_raw", text, ((1.0, 1.0), (2.0, 2.0)), "", 0),
        ),
        trips=(Trip(text, text, text, text, "loss_raw", text, text, 1),),
        gate_lines=base.gate_lines,
        environment={text: text, "packages": {text: text}},
        model={text: [text]},
        tested=(text,),
        not_tested=(text,),
        next_command=text,
        started=text,
        evaluations=({"step": text, "metrics": {text: text}, "source": text},),
        saves=({"step": 1, "path": text, "kind": text, "bytes": text, "error": text},),
        output_tail=text,
    )  # fmt: skip


REPORTS: dict[str, Callable[[], ReportInput]] = {
    "pass": passing,
    "fail": failing,
    "inconclusive": inconclusive,
    "empty": empty,
    "odd": odd,
    "hostile": hostile,
}


@pytest.fixture(params=list(REPORTS))
def any_report(request: pytest.FixtureRequest) -> ReportInput:
    """Each of the reports in turn."""
    return REPORTS[request.param]()


@pytest.fixture(scope="session")
def reports() -> dict[str, ReportInput]:
    """All reports by name."""
    return {name: build() for name, build in REPORTS.items()}
