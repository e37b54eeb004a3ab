"""Held-out cases, once: reload the best checkpoint, answer, validate, judge."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from seatrial.core import strict_json
from seatrial.core.check_report import CheckReport
from seatrial.core.errors import CouldNotJudgeError, SeatrialError
from seatrial.core.finding import Finding, NotJudged
from seatrial.core.heldout import (
    BASE,
    TRAINED,
    Answer,
    gate_findings,
    gate_open_points,
    judge_gates,
    summary,
)
from seatrial.core.observation import Observation
from seatrial.core.plan import Plan
from seatrial.core.record_layout import RecordLayout
from seatrial.core.redaction import Redactor
from seatrial.core.trial import HeldoutSpec, Trial
from seatrial.heldout.base_model import (
    BaseModel,
    adapter_base_of,
    adapter_folder,
    base_model,
    weight_files,
)
from seatrial.heldout.examples import example_rows
from seatrial.heldout.load_request import load_request
from seatrial.heldout.reload import (
    changed_while_answering,
    changed_while_loading,
    reload_findings,
    reload_open_points,
)
from seatrial.heldout.remarks import (
    base_holds,
    first_difference,
    prompt_differs,
    seen_before,
    used_again,
)
from seatrial.heldout.special_tokens import special_tokens
from seatrial.process.lines import LineChild, LineChildError
from seatrial.readers.case_file import read_cases
from seatrial.store.atomic import append_line, create_exclusive, make_folder
from seatrial.store.heldout_rows import begin_use, refuse_used, seen_elsewhere, used_by_run
from seatrial.store.ledger import open_ledger
from seatrial.store.state_folder import StateFolder
from seatrial.workflows.heldout_children import (
    EvaluationEndedError,
    RunningModel,
    Validator,
    child_program,
    file_hashes,
)
from seatrial.workflows.heldout_prompts import render_prompts

DEFAULT_NEW_TOKENS = 128
_ANSWER_S = 120.0
_SAY_EVERY_S = 5.0


def refuse_before_launch(
    trial: Trial, lock_sha256: str, state: StateFolder, again_reason: str | None
) -> int:
    """The number of the use that a launch would be.

    Raises:
        UsageError: the cases were used under this lock, and no reason to use them again was given.
    """
    if not os.path.exists(state.ledger):
        return 1
    with open_ledger(state.ledger) as ledger:
        return refuse_used(ledger, lock_sha256, trial.file or "trial.toml", again_reason)


def begun_before(layout: RecordLayout, ledger_path: str, run_id: str) -> bool:
    """Whether this run has used cases already, finished or not."""
    if os.path.exists(os.path.join(layout.heldout, "begun.json")):
        return True
    if not os.path.exists(ledger_path):
        return False
    with open_ledger(ledger_path) as ledger:
        return used_by_run(ledger, run_id) > 0


def evaluate_heldout(
    *,
    plan: Plan,
    trial: Trial,
    lock_sha256: str,
    best: Mapping[str, Any],
    observation: Observation,
    env: Mapping[str, str],
    interpreter: str | None,
    layout: RecordLayout,
    ledger_path: str,
    redactor: Redactor,
    stop: Callable[[], bool],
    deadline_s: float,
    say: Callable[[str], None],
) -> CheckReport:
    """Evaluate every case once with the best checkpoint and once with the base model.

    No case is used before the checkpoint is loaded and proven. What breaks after that leaves the
    cases used and is not judged.

    Args:
        plan: of the run.
        trial: of the run; one without ``[heldout]`` has nothing to evaluate.
        lock_sha256: of the lock that the run was launched under.
        best: facts of the best checkpoint: ``path``, ``step``, ``kind``, ``files``.
        observation: of the run.
        env: of the runner; children see it without its secrets.
        interpreter: the one that trained; None when it is not known.
        layout: the record, which takes the answers.
        ledger_path: where the uses are written.
        redactor: knows the run's secrets.
        stop: asked some times a second; True ends the evaluation.
        deadline_s: seconds that all of it may take.
        say: takes progress.
    """
    if trial.heldout is None:
        return CheckReport("heldout")
    if interpreter is None:
        return _open("the interpreter that trained is not known; no case was used")
    work = _Evaluation(
        plan, trial, trial.heldout, lock_sha256, best, observation, env, interpreter, layout,
        ledger_path, redactor, stop, time.monotonic() + deadline_s, say,
    )  # fmt: skip
    try:
        return work.run()
    except EvaluationEndedError as end:
        return work.unfinished(end.reason)
    except SeatrialError as error:
        return work.unfinished(error.message)


def _open(reason: str) -> CheckReport:
    return CheckReport("heldout", not_judged=(NotJudged("heldout", "eval_mode", reason, True),))


@dataclass
class _Evaluation:
    plan: Plan
    trial: Trial
    spec: HeldoutSpec
    lock_sha256: str
    best: Mapping[str, Any]
    observation: Observation
    env: Mapping[str, str]
    interpreter: str
    layout: RecordLayout
    ledger_path: str
    redactor: Redactor
    stop: Callable[[], bool]
    deadline: float
    say: Callable[[str], None]
    findings: list[Finding] = field(default_factory=list)
    open_points: list[NotJudged] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    used: bool = False

    def run(self) -> CheckReport:
        """All of it."""
        read = read_cases(self.spec.cases, f"heldout.cases ({self.spec.cases})")
        cases = [case for _line, case in read.cases]
        hashes = dict(read.hashes())
        path = str(self.best["path"])
        self.facts = {
            "cases": len(cases),
            "use": max(1, self.plan.heldout_use),
            "reason": self.plan.heldout_again,
            "max_new_tokens": self.spec.max_new_tokens or DEFAULT_NEW_TOKENS,
            "models": {},
        }
        if begun_before(self.layout, self.ledger_path, self.plan.run_id):
            self.used = True
            return self.unfinished("the evaluation was begun before and not finished")
        kind = str(self.best.get("kind"))
        path = adapter_folder(path) if kind == "peft" else path
        adapter_base = adapter_base_of(self.trial, path, self.plan.cwd) if kind == "peft" else None
        base = base_model(self.trial, self.observation, adapter_base)
        files = self.best.get("files")
        weights = tuple(files) if isinstance(files, Mapping) and files else weight_files(path)
        request = self._request(path, kind, weights)
        if kind == "peft":
            request["base"] = adapter_base or base.path
            request["tokenizers"] += [request["base"]] if request["base"] else []
        prompts = self._prompts(cases, request["tokenizers"])
        before = file_hashes(path, request["weights"])
        with Validator(self.spec, self._child, self._left) as validator:
            with self._load(request) as (child, ready):
                hashed = self._prove(ready, path, before)
                for finding in self.findings:
                    if finding.severity == "error":
                        return self.unfinished(finding.message)
                self._look(child, cases, prompts)
                validator.check()
                self._begin(hashes, base)
                self._answer_all(TRAINED, child, validator, cases, prompts)
                self._prove_again(child, ready, path)
            self._describe(TRAINED, ready, path, hashed, {"step": self.best.get("step")})
            if base.path is None:
                reason = f"what training changed is not known: {base.source}"
                self.open_points.append(NotJudged("heldout.base", "eval_mode", reason))
            else:
                self._evaluate_base(base, validator, cases, prompts)
        return self._judged(cases)

    def unfinished(self, reason: str) -> CheckReport:
        """The report of an evaluation that ended before its end."""
        done = {role: len(found) for role, found in self.answers.items()}
        state = "its cases count as used" if self.used else "no case was used"
        told = f"{reason.rstrip('.')}; {state}"
        if self.used:
            told += f" (answered: {done})"
        entry = NotJudged("heldout", "eval_mode", told, True)
        facts = {**self.facts, "models": {}, "answered": done}
        return CheckReport("heldout", tuple(self.findings), (*self.open_points, entry), facts)

    def _prompts(
        self, cases: Sequence[Mapping[str, Any]], folders: Sequence[str]
    ) -> list[str | None]:
        """The exact text of every case by the prompt contract; None without one."""
        if self.spec.prompt is None:
            return [None] * len(cases)
        return list(render_prompts(self.spec.prompt, cases, special_tokens(folders), self.stop))

    def _request(self, path: str, kind: str, weights: Sequence[str]) -> dict[str, Any]:
        devices = [
            str(device)
            for model in self.observation.models
            for device in model.data.get("devices") or ()
        ]
        device = next((one for one in devices if one.startswith("cuda")), "cpu")
        tokens = self.spec.max_new_tokens or DEFAULT_NEW_TOKENS
        return load_request(self.trial, self.spec, path, kind, weights, device, tokens)

    def _load(self, request: Mapping[str, Any]) -> RunningModel:
        self.say(f"loading {request['path']} in a fresh process")
        memory = self.trial.bounds.memory_bytes
        return RunningModel(lambda: self._child("generate", memory), request, self._left)

    def _child(self, name: str, memory_bytes: int, cwd: str | None = None) -> LineChild:
        secret = set(self.trial.runner.secrets)
        env = {name: value for name, value in self.env.items() if name not in secret}
        env |= {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        # Threads of a small model that wait for each other by spinning take the cores from it.
        env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        env["SEATRIAL_RUN_ID"] = self.plan.run_id  # whoever ends the run finds this one, too
        if cwd is not None:
            env["TMPDIR"] = cwd
        return LineChild(
            (self.interpreter, child_program(name)),
            cwd=cwd or self.plan.cwd,
            env=env,
            memory_bytes=memory_bytes,
            stop=self.stop,
        )

    def _left(self, at_most: float) -> float:
        """Seconds for one answer.

        Raises:
            EvaluationEndedError: the leg's time is up.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise EvaluationEndedError("the time of the held-out leg was up")
        return min(left, at_most)

    def _prove(
        self, ready: Mapping[str, Any], path: str, before: Mapping[str, str]
    ) -> dict[str, str]:
        """What was loaded is what was scanned and what lies there now; hashes of the files."""
        own = self.spec.loader is not None
        self.findings += reload_findings(ready, path, own_loader=own)
        self.open_points += reload_open_points(ready)
        now = file_hashes(path, list(before))
        scanned = self.best.get("files")
        known = scanned if isinstance(scanned, Mapping) else {}
        wanted = {
            name: known[name] if isinstance(known.get(name), str) else sha
            for name, sha in before.items()
        }
        self.findings += changed_while_loading(wanted, now, path)
        return now

    def _prove_again(self, child: LineChild, ready: Mapping[str, Any], path: str) -> None:
        """The weights that answered the last case are those that were proven before the first."""
        own = self.spec.loader is not None
        try:
            now = child.ask({"state": True}, self._left(_ANSWER_S)).get("state")
        except LineChildError as error:
            now = f"not known: {error.message}"
        self.findings += changed_while_answering(ready.get("state"), now, path, own_loader=own)

    def _look(
        self,
        child: LineChild,
        cases: Sequence[Mapping[str, Any]],
        prompts: Sequence[str | None],
    ) -> None:
        """How each case would be asked, before one is: a case that cannot be is no case used up."""
        differing = ""
        for case, prompt in zip(cases, prompts, strict=True):
            told = self._ask(child, {"look": case, "prompt": prompt}, case)
            if "error" in told:
                raise EvaluationEndedError(f"case {case['id']!r} cannot be asked: {told['error']}")
            own = told.get("own_prompt")
            if isinstance(own, str) and own != prompt and not differing:
                differing = first_difference(str(case["id"]), prompt or "", own)
        if differing:
            self.findings.append(prompt_differs(differing, self.spec.prompt))

    def _begin(self, hashes: Mapping[str, str], base: BaseModel) -> None:
        """Mark all cases as used; from here on there is no second look."""
        roles = [TRAINED, *([BASE] if base.path is not None else [])]
        now = datetime.now(timezone.utc)
        if self.stop():
            raise EvaluationEndedError("a stop was asked for")
        with open_ledger(self.ledger_path) as ledger:
            count, runs = seen_elsewhere(ledger, self.lock_sha256, list(hashes.values()))
            begin_use(
                ledger,
                lock_sha256=self.lock_sha256,
                roles=roles,
                cases=hashes,
                run_id=self.plan.run_id,
                trial_file=self.trial.file,
                reason=self.plan.heldout_again,
                use=self.facts["use"],
                now=now,
            )
        self.used = True
        make_folder(self.layout.heldout)
        note = {"t": now.isoformat(), "roles": roles, "cases": len(hashes)}
        begun = os.path.join(self.layout.heldout, "begun.json")
        if not create_exclusive(begun, strict_json.dumps(note).encode("utf-8")):
            raise CouldNotJudgeError(f"{begun} is there: another process evaluates this run")
        if self.facts["use"] > 1:
            self.findings.append(used_again(self.facts["use"], self.plan.heldout_again))
        if count:
            self.findings.append(seen_before(count, len(hashes), runs))

    def _answer_all(
        self,
        role: str,
        child: LineChild,
        validator: Validator,
        cases: Sequence[Mapping[str, Any]],
        prompts: Sequence[str | None],
    ) -> None:
        said = time.monotonic()
        found = self.answers.setdefault(role, [])
        for case, prompt in zip(cases, prompts, strict=True):
            told = self._ask(child, {"case": case, "prompt": prompt}, case)
            answer = validator.judge(role, case, told)
            found.append(answer)
            line = strict_json.dumps(self.redactor.value(answer.to_json()))
            append_line(os.path.join(self.layout.heldout, f"{role}.jsonl"), line)
            if time.monotonic() - said > _SAY_EVERY_S:
                said = time.monotonic()
                self.say(f"held-out, {role} model: {len(found)} of {len(cases)} cases")
        self.say(f"held-out, {role} model: {len(found)} of {len(cases)} cases answered")

    def _ask(
        self, child: LineChild, question: Mapping[str, Any], case: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            return child.ask(question, self._left(_ANSWER_S))
        except LineChildError as error:
            if error.kind == "stopped":
                raise EvaluationEndedError(error.message) from error
            self._left(_ANSWER_S)  # says so when it was the leg's time that was up
            raise EvaluationEndedError(
                f"the model stopped at case {case['id']!r}: {error.message}"
            ) from error

    def _evaluate_base(
        self,
        base: BaseModel,
        validator: Validator,
        cases: Sequence[Mapping[str, Any]],
        prompts: Sequence[str | None],
    ) -> None:
        """The base model; what goes wrong with it never hides the trained one."""
        path = str(base.path)
        request = self._request(path, base.kind, base.weights)
        try:
            before = file_hashes(path, base.weights)
            with self._load(request) as (child, ready):
                self._answer_all(BASE, child, validator, cases, prompts)
            self._describe(BASE, ready, path, before, {"source": base.source})
        except (EvaluationEndedError, SeatrialError) as end:
            if self.stop():
                raise
            self.answers.pop(BASE, None)
            told = end.reason if isinstance(end, EvaluationEndedError) else end.message
            reason = f"the base model ({base.source}) was not evaluated: {told}"
            self.open_points.append(NotJudged("heldout.base", "eval_mode", reason))

    def _describe(
        self,
        role: str,
        ready: Mapping[str, Any],
        path: str,
        files: Mapping[str, str],
        more: Mapping[str, Any],
    ) -> None:
        self.facts["models"][role] = {
            **more,
            "path": path,
            "class": ready.get("class"),
            "files": dict(files),
            "proof": ready.get("proof"),
            "pid": ready.get("pid"),
            "load_seconds": ready.get("load_seconds"),
            **summary(self.answers[role]),
        }

    def _judged(self, cases: Sequence[Mapping[str, Any]]) -> CheckReport:
        results = judge_gates(self.spec.gates, self.answers[TRAINED])
        self.findings += gate_findings(results, len(cases))
        self.open_points += gate_open_points(results)
        against = [name for result in results for name in result.against if not result.held]
        self.facts["gates"] = [result.to_json() for result in results]
        self.facts["examples"] = example_rows(cases, self.answers, against)
        if results and BASE in self.answers:
            before = judge_gates(self.spec.gates, self.answers[BASE])
            if all(result.held for result in before):
                self.findings.append(base_holds())
        return CheckReport("heldout", tuple(self.findings), tuple(self.open_points), self.facts)
