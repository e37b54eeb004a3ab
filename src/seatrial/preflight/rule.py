"""What a rule is, what it is asked about, what it may answer, and how rules are run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from seatrial.core.child import Ask
from seatrial.core.finding import SEVERITIES, Evidence, Finding, NotJudged, Place
from seatrial.core.trial import Trial
from seatrial.preflight.script import Content, Script
from seatrial.preflight.values import FOUND, MISSING, UNSURE

TRIAL = "trial"
AD_HOC = "ad_hoc"
FILE = "file"  # `seatrial preflight FILE`: no run is planned
DETECTS = ("static", "launch", "dry_run", "runner")
SYNTAX_CODE = "environment.script_syntax"
SCRIPT_CODE = "environment.script_unread"


@dataclass(frozen=True)
class Subject:
    """Everything a rule may look at.

    Attributes:
        mode: ``trial``, ``ad_hoc`` or ``file``.
        script: the runner as parsed; None when there is none that can be read.
        content: the bytes of the file, whatever it is; None when there is no file.
        command: the exact command; empty when there is none.
        trial: the trial, also that of an ad-hoc run; None for a lone file.
        env: environment of the runner.
        cwd: its working directory.
        require, forbid: literal texts.
        ask: runs a capped child, for rules that detect by a dry run; None: nothing may run.
        problem: why there is no script.
        locked: commit of each Hub input by its id, as the lock holds them.
        notes: what one rule learnt for the rules behind it; empty at the start.
    """

    mode: str
    script: Script | None = None
    content: Content | None = None
    command: tuple[str, ...] = ()
    trial: Trial | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    ask: Ask | None = None
    problem: str = ""
    locked: Mapping[str, str] = field(default_factory=dict)
    notes: dict[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """A fault that a rule found. ``severity`` makes it milder than the rule's own."""

    message: str
    line: int | None = None
    observed: object = None
    expected: object = None
    remedy: str = ""
    confidence: str = "proven"
    severity: str = ""
    file: str | None = None


@dataclass(frozen=True)
class Open:
    """Something that a rule looked for may be there; only a run would say."""

    reason: str


class Seen:
    """What a rule looks for is there and as it should be."""


SEEN = Seen()
Answer = Hit | Open | Seen | Finding | NotJudged
RuleFunction = Callable[[Subject], Iterable[Answer]]


@dataclass(frozen=True)
class Rule:
    """A rule: metadata, and one function with the docstring that is its page.

    Attributes:
        code: ``family.name``.
        severity: in a trial.
        ad_hoc_severity: without one.
        detects: ``static`` (the script's text), ``launch`` (text and exact command), ``dry_run``
            (asks the runner's interpreter, before every run of a trial) or ``runner`` (executes
            code of the user's, only when a dry run is asked for).
        title: what is wrong, in a line.
        function: see ``Subject`` and ``Answer``.
        needs_script: whether it can only look where the runner is a Python script.
    """

    code: str
    severity: str
    ad_hoc_severity: str
    detects: str
    title: str
    function: RuleFunction
    needs_script: bool = True

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES or self.ad_hoc_severity not in SEVERITIES:
            raise ValueError(f"{self.code}: unknown severity")
        if self.detects not in DETECTS:
            raise ValueError(f"{self.code}: unknown way of detection {self.detects!r}")
        if not inspect.getdoc(self.function):
            raise ValueError(f"{self.code}: the rule has no page")

    @property
    def family(self) -> str:
        """The first part of the code."""
        return self.code.partition(".")[0]

    @property
    def page(self) -> str:
        """The docstring: what is wrong, why it costs, what the rule cannot see, the remedy."""
        return inspect.getdoc(self.function) or ""

    def severity_of(self, hit: Hit, mode: str) -> str:
        """Severity of one hit. A lone file keeps an error where the fault is proven."""
        proven = hit.confidence == "proven" and self.severity == "error"
        full = mode == TRIAL or (mode == FILE and proven)
        own = self.severity if full else self.ad_hoc_severity
        if hit.severity:
            return max(own, hit.severity, key=SEVERITIES.index)
        return own


def rule(
    code: str,
    *,
    severity: str,
    ad_hoc: str,
    title: str,
    detects: str = "static",
    needs_script: bool = True,
) -> Callable[[RuleFunction], Rule]:
    """Declare the function below as a rule; see ``Rule``."""

    def declare(function: RuleFunction) -> Rule:
        return Rule(code, severity, ad_hoc, detects, title, function, needs_script)

    return declare


@dataclass(frozen=True)
class Judged:
    """What a set of rules said: findings, open points, and the state of every rule."""

    findings: tuple[Finding, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)

    def count(self, state: str) -> int:
        """Number of rules in a state."""
        return sum(1 for found in self.states.values() if found == state)


def judge(rules: Sequence[Rule], subject: Subject) -> Judged:
    """Run rules one after the other. One that raises is an open point, and our bug."""
    findings: list[Finding] = []
    open_points: list[NotJudged] = []
    states: dict[str, str] = {}
    unread = _unread(subject)
    if unread and any(one.needs_script for one in rules):
        open_points.append(NotJudged(SCRIPT_CODE, "environment", unread))
    for one in rules:
        if unread and one.needs_script and one.code != SYNTAX_CODE:
            states[one.code] = UNSURE
            continue
        made, reasons, state = _ask(one, subject)
        findings += made
        open_points += reasons
        states[one.code] = state
    return Judged(tuple(findings), tuple(open_points), states)


def _unread(subject: Subject) -> str:
    """Why the rules that read a script cannot look; empty when they can."""
    if subject.script is None:
        return subject.problem or "there is no Python script to read"
    if subject.script.error is not None:
        return f"the script cannot be parsed: {subject.script.error.message}"
    return ""


def _ask(one: Rule, subject: Subject) -> tuple[list[Finding], list[NotJudged], str]:
    made: list[Finding] = []
    reasons: list[str] = []
    others: list[NotJudged] = []
    seen = False
    if one.detects in ("dry_run", "runner") and subject.ask is None:
        return [], [NotJudged(one.code, one.family, "nothing may be executed here")], UNSURE
    try:
        for answer in one.function(subject):
            if isinstance(answer, Hit):
                made.append(_finding(one, answer, subject))
            elif isinstance(answer, Finding):
                made.append(answer)
            elif isinstance(answer, NotJudged):
                others.append(answer)
            elif isinstance(answer, Open):
                reasons.append(answer.reason)
            else:
                seen = True
    except Exception as error:  # noqa: BLE001 - a rule that breaks must not take the others along
        reasons.append(f"this rule broke, which is a fault of seatrial: {type(error).__name__}")
    if reasons:
        others.append(NotJudged(one.code, one.family, _joined(reasons)))
    if others:
        return made, others, UNSURE
    return made, [], FOUND if made or seen else MISSING


def _joined(reasons: Sequence[str]) -> str:
    unique = list(dict.fromkeys(reasons))
    more = f"; and {len(unique) - 3} more" if len(unique) > 3 else ""
    return "; ".join(unique[:3]) + more


def _finding(one: Rule, hit: Hit, subject: Subject) -> Finding:
    file = hit.file
    if file is None and subject.content is not None:
        file = subject.content.path
    return Finding(
        code=one.code,
        family=one.family,
        severity=one.severity_of(hit, subject.mode),
        message=hit.message,
        place=Place(file=file, line=hit.line),
        evidence=Evidence(observed=hit.observed, expected=hit.expected),
        remedy=hit.remedy,
        confidence=hit.confidence,
    )
