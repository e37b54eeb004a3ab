"""Locks as values: what their hash covers, how they drift, and what counts as loosened."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import Any, Dict, List, Optional, Tuple

from seatrial.core.gates.project import holds
from seatrial.core.lock import Earlier, Lock, case_sha256, drift, is_as_strict, loosened, terms_of
from seatrial.core.trial import Bounds, GateSpec, HeldoutGate, HeldoutSpec, RunnerSpec, Trial
from seatrial.core.units import Money

SHA = "a" * 64
SHB = "b" * 64

TRIAL = Trial(
    name="moves",
    runner=RunnerSpec(("python", "train.py"), dry_run=("python", "train.py", "--dry")),
    bounds=Bounds(500, 480.0, 2**30, Money(Decimal("2.00")), {"memory_bytes": "trial"}),
    hypothesis="It learns.",
    seed=17,
    gates=(GateSpec("eval_loss", "<", 0.25, 300, 1), GateSpec("acc", ">=", 0.9)),
    heldout=HeldoutSpec(
        "cases.jsonl",
        validator="v.py:validate",
        max_new_tokens=16,
        gates=(HeldoutGate("legal", ">=", 0.8), HeldoutGate("parse", "==", True)),
    ),
    require=("heldout",),
    resume_command=("python", "train.py", "--resume"),
    rehearse=True,
)
CASES = [SHA, SHB, "c" * 64]
JUDGES = {"validator": SHA, "prompt": SHB}


def terms(trial: Trial = TRIAL, cases: Any = None, judges: Any = None) -> Dict[str, Any]:
    return terms_of(trial, lambda path: path, CASES if cases is None else cases, judges or JUDGES)


def changed(**changes: Any) -> Trial:
    return replace(TRIAL, **changes)


def lock(**changes: Any) -> Lock:
    base = Lock(
        inputs=(
            {"id": "train", "role": "train", "kind": "file", "path": "t.jsonl", "sha256": SHA,
             "bytes": 10, "rows": 2},
            {"id": "base", "role": "model", "kind": "hub", "hub": "o/m", "asked": "main",
             "repo_type": "model", "revision": "1" * 40},
            {"id": "dev", "role": "validation", "kind": "folder", "path": "dev", "bytes": 2,
             "sha256": SHA, "files": [{"path": "a", "sha256": SHA, "bytes": 1},
                                      {"path": "b", "sha256": SHB, "bytes": 1}]},
        ),
        heldout={
            "cases_file": {"path": "cases.jsonl", "sha256": SHA, "bytes": 9, "count": 2},
            "cases": [{"id": "1", "sha256": SHA}, {"id": "2", "sha256": SHB}],
            "prompt": {"path": "prompt.txt", "sha256": SHA, "bytes": 3},
            "validator": "v.py:validate",
            "normalize": None,
            "loader": None,
            "files": [{"path": "v.py", "what": "validator", "sha256": SHA, "bytes": 3}],
        },
        runner={
            "command": ["python", "train.py"],
            "cwd": ".",
            "env": {},
            "files": [{"path": "train.py", "what": "script", "sha256": SHA, "bytes": 7}],
        },
        terms=terms(),
        context={"git": {"commit": "1" * 40, "dirty": False}, "packages": {"torch": "2.9"}},
        created="2026-12-01T00:00:00+00:00",
    )  # fmt: skip
    return replace(base, **changes)


def kinds(now: Lock) -> List[Tuple[str, str]]:
    return [(entry.kind, entry.place) for entry in drift(lock(), now)]


def raises(value: Any, text: str) -> None:
    try:
        Lock.from_json(value)
    except ValueError as error:
        assert text in str(error), str(error)
    else:
        raise AssertionError(f"nothing was refused; expected {text!r}")


# The hash


def test_the_hash_covers_what_is_frozen_and_nothing_else() -> None:
    same = lock(context=None, created="later", earlier=(Earlier(SHA, "x", {}),))
    assert same.sha256 == lock().sha256
    assert lock(runner={**lock().runner, "cwd": "sub"}).sha256 != lock().sha256
    assert lock(terms=terms(changed(seed=18))).sha256 != lock().sha256
    assert lock(heldout=None).sha256 != lock().sha256
    assert lock(inputs=lock().inputs[:1]).sha256 != lock().sha256


def test_a_lock_comes_back_and_is_sorted() -> None:
    first = lock(earlier=(Earlier(SHB, "2026", terms()),))
    text = json.dumps(first.to_json())
    back = Lock.from_json(json.loads(text))
    assert back.sha256 == first.sha256 and json.dumps(back.to_json()) == text
    assert list(first.to_json()) == sorted(first.to_json())


def test_a_lock_that_somebody_edited_is_refused() -> None:
    value = lock().to_json()
    value["terms"]["bounds"]["max_steps"] = 9000
    raises(value, "somebody changed it")
    raises([], "no JSON object")
    raises({**lock().to_json(), "schema": "seatrial.lock/9"}, "seatrial.lock/9")
    for spoiled in (
        {"inputs": {}},
        {"inputs": [{"id": 1, "role": "train"}]},
        {"inputs": [{"id": "x", "role": "train", "files": 3}]},
        {"runner": None},
        {"runner": {"files": ["x"]}},
        {"terms": []},
        {"heldout": 3},
        {"heldout": {"files": [], "cases": None}},
        {"context": "x"},
        {"earlier": [{"sha256": SHA}]},
        {"earlier": None},
    ):
        raises({**lock().to_json(), **spoiled}, "")


def test_a_case_is_hashed_by_all_that_it_holds() -> None:
    case = {"id": "1", "prompt": "x", "expected": 1}
    assert case_sha256(case) == case_sha256(dict(reversed(list(case.items()))))
    assert case_sha256(case) != case_sha256({**case, "expected": 2})
    assert case_sha256(case) != case_sha256({**case, "id": "2"})


# Drift


def test_nothing_drifts_from_itself() -> None:
    assert drift(lock(), lock()) == ()
    assert drift(lock(), Lock.from_json(json.loads(json.dumps(lock().to_json())))) == ()
    assert drift(lock(), lock(context=None)) == ()


def _inputs(index: int, **change: Any) -> Tuple[Any, ...]:
    entries = [dict(entry) for entry in lock().inputs]
    entries[index].update(change)
    return tuple(entries)


def _heldout(**change: Any) -> Dict[str, Any]:
    return {**(lock().heldout or {}), **change}


def _runner(**change: Any) -> Dict[str, Any]:
    return {**lock().runner, **change}


def test_inputs_drift() -> None:
    assert kinds(lock(inputs=_inputs(0, sha256=SHB, bytes=11))) == [("input", "t.jsonl")]
    (entry,) = drift(lock(), lock(inputs=_inputs(0, sha256=SHB, bytes=11)))
    assert "10 bytes before and 11 now" in entry.message and entry.refused
    assert kinds(lock(inputs=_inputs(1, revision="2" * 40))) == [("input", "o/m")]
    assert kinds(lock(inputs=_inputs(1, asked="dev", revision="2" * 40))) == [("input", "o/m")]
    assert kinds(lock(inputs=_inputs(0, path="u.jsonl", sha256=SHB))) == [("input", "t.jsonl")] * 2
    assert kinds(lock(inputs=_inputs(0, error="there is no such file"))) == [("input", "t.jsonl")]
    assert kinds(lock(inputs=lock().inputs[1:])) == [("input", "t.jsonl")]
    more = (*lock().inputs, {"id": "p", "role": "prompt", "kind": "file", "path": "p.txt"})
    assert kinds(lock(inputs=more)) == [("prompt", "p.txt")]


def test_files_of_a_folder_drift_one_by_one() -> None:
    files = [{"path": "b", "sha256": SHA, "bytes": 1}, {"path": "c", "sha256": SHA, "bytes": 1}]
    now = lock(inputs=_inputs(2, sha256=SHB, files=files))
    assert kinds(now) == [("input", "dev/a"), ("input", "dev/b"), ("input", "dev/c")]
    messages = [entry.message for entry in drift(lock(), now)]
    assert (
        "is gone" in messages[0] and "changed" in messages[1] and "not in the lock" in messages[2]
    )


def test_held_out_parts_drift() -> None:
    cases = [{"id": "2", "sha256": SHA}, {"id": "3", "sha256": SHA}]
    assert [kind for kind, _ in kinds(lock(heldout=_heldout(cases=cases)))] == ["heldout"] * 3
    moved = {"path": "cases.jsonl", "sha256": SHB, "bytes": 10, "count": 2}
    assert kinds(lock(heldout=_heldout(cases_file=moved))) == [("heldout", "cases.jsonl")]
    prompt = {"path": "prompt.txt", "sha256": SHB, "bytes": 3}
    assert kinds(lock(heldout=_heldout(prompt=prompt))) == [("prompt", "prompt.txt")]
    assert kinds(lock(heldout=_heldout(prompt=None))) == [("prompt", "prompt.txt")]
    files = [{"path": "v.py", "what": "validator", "sha256": SHB, "bytes": 3}]
    assert kinds(lock(heldout=_heldout(files=files))) == [("validator", "v.py")]
    other = lock(heldout=_heldout(validator="v.py:other"))
    assert kinds(other) == [("validator", "heldout.validator")]
    gone = {"path": "cases.jsonl", "error": "there is no such file"}
    assert kinds(lock(heldout=_heldout(cases_file=gone, cases=[]))) == [("heldout", "cases.jsonl")]
    assert {kind for kind, _ in kinds(lock(heldout=None))} == {"heldout", "prompt", "validator"}


def test_the_runner_drifts() -> None:
    script = {"path": "train.py", "what": "script", "sha256": SHB, "bytes": 7}
    assert kinds(lock(runner=_runner(files=[script]))) == [("runner", "train.py")]
    assert kinds(lock(runner=_runner(files=[]))) == [("runner", "train.py")]
    assert kinds(lock(runner=_runner(command=["python", "x.py"]))) == [("runner", "runner.command")]
    module = {"path": "new.py", "what": "module", "sha256": SHA, "bytes": 1}
    more = lock(runner=_runner(files=[*lock().runner["files"], module]))
    assert kinds(more) == [("runner", "new.py")]


def test_a_configuration_file_that_was_not_there_is_context() -> None:
    config = {"path": "metrics.json", "what": "config", "sha256": SHA, "bytes": 1}
    more = lock(runner=_runner(files=[*lock().runner["files"], config]))
    assert kinds(more) == [("context", "metrics.json")]
    assert not drift(lock(), more)[0].refused


def test_terms_drift_by_name_and_once() -> None:
    now = lock(terms=terms(changed(gates=(GateSpec("eval_loss", "<", 0.5, 300, 1),))))
    assert kinds(now) == [("terms", "gates[eval_loss]"), ("terms", "gates[acc]")]
    assert kinds(lock(terms=terms(changed(seed=3)))) == [("terms", "seed")]
    assert kinds(lock(terms=terms(cases=CASES[:2]))) != []
    both = lock(terms=terms(cases=CASES[:2]), heldout=_heldout(cases=[]))
    assert {kind for kind, _ in kinds(both)} == {"heldout"}


def test_context_is_listed_and_refuses_nothing() -> None:
    now = lock(context={"git": {"commit": "2" * 40, "dirty": True}, "packages": {"torch": "3.0"}})
    assert kinds(now) == [
        ("context", "git.commit"),
        ("context", "git.dirty"),
        ("context", "packages.torch"),
    ]
    assert not any(entry.refused for entry in drift(lock(), now))


# Loosening


def eased(trial: Trial, **rest: Any) -> List[Tuple[str, str]]:
    return [(entry.what, entry.how) for entry in loosened(terms(), terms(trial, **rest))]


def gates(*specs: GateSpec) -> Trial:
    return changed(gates=specs)


def bounds(**changes: Any) -> Trial:
    return changed(bounds=replace(TRIAL.bounds, **changes))


def heldout(**changes: Any) -> Trial:
    assert TRIAL.heldout is not None
    return changed(heldout=replace(TRIAL.heldout, **changes))


def test_nothing_is_loosened_by_the_same_or_stricter_terms() -> None:
    assert loosened(terms(), terms()) == ()
    stricter = [
        bounds(max_steps=100, wall_s=60.0, memory_bytes=2**20, money=Money(Decimal(0))),
        gates(GateSpec("eval_loss", "<", 0.2, 100, 1), GateSpec("acc", ">", 0.95)),
        gates(*TRIAL.gates, GateSpec("f1", ">", 0.5)),
        gates(*reversed(TRIAL.gates)),
        changed(require=("heldout", "checkpoint")),
        changed(seed=5, hypothesis="Another."),
        heldout(max_new_tokens=8),
        heldout(gates=(HeldoutGate("legal", ">", 0.9), HeldoutGate("parse", "==", True))),
    ]
    for trial in stricter:
        assert loosened(terms(), terms(trial)) == (), trial
    assert eased(TRIAL, cases=[*CASES, "d" * 64]) == []
    assert loosened({}, terms()) == () and loosened({"gates": 3, "bounds": []}, {}) == ()


def test_raised_bounds() -> None:
    assert eased(bounds(max_steps=501)) == [("bounds.max_steps", "raised")]
    assert eased(bounds(wall_s=481.0)) == [("bounds.wall_s", "raised")]
    assert eased(bounds(memory_bytes=2**31)) == [("bounds.memory_bytes", "raised")]
    assert eased(bounds(sources={})) == [("bounds.memory_bytes", "removed")]
    assert eased(bounds(money=Money(Decimal("2.01")))) == [("bounds.money", "raised")]
    assert eased(bounds(money=Money(Decimal("2.00"), "EUR"))) == [("bounds.money", "changed")]
    assert eased(bounds(money=Money(Decimal(0), "EUR"))) == []


def test_weakened_gates() -> None:
    acc = TRIAL.gates[1]
    for loss in (
        GateSpec("eval_loss", "<", 0.3, 300, 1),
        GateSpec("eval_loss", "<=", 0.25, 300, 1),
        GateSpec("eval_loss", "<", 0.25, 301, 1),
        GateSpec("eval_loss", "<", 0.25, 300, 2),
        GateSpec("eval_loss", ">", 0.25, 300, 1),
        GateSpec("eval_loss", "!=", 0.1, 300, 1),
    ):
        assert eased(gates(loss, acc)) == [("gate eval_loss", "weakened")], loss
    assert eased(gates(acc)) == [("gate eval_loss", "removed")]
    assert eased(gates()) == [("gate eval_loss", "removed"), ("gate acc", "removed")]
    told = loosened(terms(), terms(gates(GateSpec("eval_loss", "<", 0.3, 300, 1), acc)))[0]
    assert told.text == "gate eval_loss weakened: < 0.25 from_step 300, now < 0.3 from_step 300"


def test_weakened_held_out_gates_checks_and_legs() -> None:
    parse = HeldoutGate("parse", "==", True)
    lower = heldout(gates=(HeldoutGate("legal", ">=", 0.7), parse))
    assert eased(lower) == [("heldout gate legal", "weakened")]
    assert eased(heldout(gates=(parse,))) == [("heldout gate legal", "removed")]
    assert eased(changed(require=())) == [("check heldout", "removed")]
    assert eased(changed(disable=("gate.stall",))) == [("check gate.stall", "disabled")]
    assert eased(heldout(max_new_tokens=32)) == [("max_new_tokens", "changed")]
    assert eased(heldout(max_new_tokens=None)) == [("max_new_tokens", "removed")]
    assert eased(changed(resume_command=())) == [("leg resume", "removed")]
    assert eased(changed(rehearse=False)) == [("leg rehearse", "removed")]
    assert eased(changed(output=replace(TRIAL.output, private=False))) == [
        ("output.private", "removed")
    ]


def test_held_out_cases_and_judges() -> None:
    assert eased(TRIAL, cases=CASES[:2]) == [("held-out cases", "shrunk")]
    assert eased(TRIAL, cases=[*CASES[:2], "e" * 64]) == [("held-out cases", "changed")]
    assert eased(TRIAL, judges={**JUDGES, "validator": SHB}) == [("held-out validator", "changed")]
    assert eased(TRIAL, judges={"validator": SHA}) == [("held-out prompt", "removed")]
    many = [f"{number:064x}" for number in range(600)]
    few = loosened(terms(cases=many), terms(cases=many[:550]))
    assert [(entry.what, entry.how) for entry in few] == [("held-out cases", "shrunk")]
    assert loosened(terms(cases=many), terms(cases=many)) == ()
    nothing: Optional[Any] = changed(heldout=None)
    assert nothing is not None
    gone = loosened(terms(), {**terms(nothing), "heldout_cases": None})
    assert ("held-out cases", "removed") in [(entry.what, entry.how) for entry in gone]


def test_a_gate_that_is_called_as_strict_really_is() -> None:
    """Against the very comparison that gates make, on a grid around both limits."""
    ops = ("<", "<=", ">", ">=", "==", "!=")
    values = (0.0, 1.0, 2.0)
    grid = [number / 2 for number in range(-4, 9)]
    for new_op, old_op, new, old in product(ops, ops, values, values):
        strict = is_as_strict({"op": new_op, "value": new}, {"op": old_op, "value": old})
        really = all(holds(old_op, x, old) for x in grid if holds(new_op, x, new))
        assert strict == really, (new_op, new, old_op, old)
