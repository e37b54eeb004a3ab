"""Held-out results as values: what a field is worth over all cases, and which thresholds hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from seatrial.core.finding import Evidence, Finding, NotJudged
from seatrial.core.trial import HeldoutGate

GATE = "eval_mode.heldout_gate"
TRAINED, BASE = "trained", "base"
_NAMED = 3
_WORST = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Answer:
    """What one model said to one case, and what that was worth.

    Attributes:
        case_id: of the case.
        role: ``trained`` or ``base``.
        raw: as decoded, special tokens left out; None when nothing was decoded.
        text: after the user's normalizer.
        result: the validator's fields; None without a validator or for a failed case.
        error: why the case failed: generation, normalizer or validator.
        stopped: ``eos``, ``length``, or empty when unknown.
        seconds: of decoding.
        prompt_tokens, new_tokens: counts; None when the model does not count.
    """

    case_id: str
    role: str
    raw: Optional[str] = None
    text: Optional[str] = None
    result: Optional[Mapping[str, Any]] = None
    error: Optional[str] = None
    stopped: str = ""
    seconds: float = 0.0
    prompt_tokens: Optional[int] = None
    new_tokens: Optional[int] = None

    def to_json(self) -> Dict[str, Any]:
        """One line of ``heldout/<role>.jsonl``."""
        value = dict(vars(self))
        value["id"] = value.pop("case_id")
        value["result"] = None if self.result is None else dict(self.result)
        return value


@dataclass(frozen=True)
class FieldSum:
    """A field over all cases of a model.

    Attributes:
        kind: ``bool``, ``number`` or ``text``.
        mean: share of true cases (a failed case is not true), or the mean of a number; None for
            text, and where a number is missing in a case.
        missing: cases without the field.
        values: by case id.
    """

    kind: str
    mean: Optional[float]
    missing: Tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)


def sums(answers: Sequence[Answer]) -> Dict[str, FieldSum]:
    """Every field that at least one case has, in the order in which they appear."""
    names: List[str] = []
    for answer in answers:
        names += [name for name in answer.result or () if name not in names]
    return {name: _sum(name, answers) for name in names}


def _sum(name: str, answers: Sequence[Answer]) -> FieldSum:
    values = {a.case_id: a.result[name] for a in answers if a.result and name in a.result}
    missing = tuple(a.case_id for a in answers if a.case_id not in values)
    if all(isinstance(value, bool) for value in values.values()):
        count = sum(1 for value in values.values() if value)
        return FieldSum("bool", count / len(answers), missing, values)
    numbers = [_number(value) for value in values.values()]
    if any(number is None for number in numbers):
        return FieldSum("text", None, missing, values)
    known = [number for number in numbers if number is not None]
    return FieldSum("number", None if missing else _mean(known), missing, values)


def _mean(values: Sequence[float]) -> float:
    """The mean; NaN, which satisfies no threshold, when a value is not finite."""
    if not all(math.isfinite(value) for value in values):
        return math.nan
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def _number(value: Any) -> Optional[float]:
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return _WORST.get(value) if isinstance(value, str) else None


@dataclass(frozen=True)
class GateResult:
    """Whether a threshold holds. ``held`` is None when no case has the field."""

    gate: HeldoutGate
    observed: Union[float, str, None]
    held: Optional[bool]
    against: Tuple[str, ...] = ()
    reason: str = ""

    def to_json(self) -> Dict[str, Any]:
        """A row of the report."""
        return {
            "field": self.gate.field,
            "op": self.gate.op,
            "value": self.gate.value,
            "observed": self.observed,
            "held": self.held,
            "reason": self.reason,
        }


def judge_gates(gates: Sequence[HeldoutGate], answers: Sequence[Answer]) -> Tuple[GateResult, ...]:
    """Judge thresholds over the answers of one model.

    A number is compared with the mean over all cases; for a bool field that is the share of true
    ones. A case without the field (it failed, or the validator left it out) counts against the
    threshold: as not true where more is better, as true where less is. A number that is missing in
    a case makes the threshold not hold. A bool or a text as the value must hold in every case.
    """
    found = sums(answers)
    return tuple(_judge(gate, found.get(gate.field), answers) for gate in gates)


def _judge(gate: HeldoutGate, known: Optional[FieldSum], answers: Sequence[Answer]) -> GateResult:
    if known is None:
        failed = sum(1 for answer in answers if answer.error)
        reason = f"no case has the field {gate.field!r}"
        if failed:
            reason += f" ({failed} of {len(answers)} cases failed)"
        return GateResult(gate, None, None, reason=reason)
    if isinstance(gate.value, (bool, str)):
        against = tuple(
            answer.case_id
            for answer in answers
            if not _holds_in(gate, known.values.get(answer.case_id))
        )
        share = 1 - len(against) / len(answers)
        return GateResult(gate, share, not against, against, "it must hold in every case")
    if known.mean is None:
        if known.kind == "text":
            return GateResult(gate, None, False, (), f"{gate.field} is text, not a number")
        count = len(known.missing)
        reason = f"{count} of {len(answers)} cases have no {gate.field}"
        return GateResult(gate, None, False, known.missing, reason)
    observed, reason = known.mean, ""
    held = _compare(observed, gate.op, float(gate.value))
    if known.kind == "bool" and known.missing:
        # Whatever the missing ones would have been: the threshold holds only when it does for both.
        most = observed + len(known.missing) / len(answers)
        reason = f"{len(known.missing)} of {len(answers)} cases have no {gate.field}"
        if held and not _compare(most, gate.op, float(gate.value)):
            observed, held = most, False
    against = () if held else _against(gate, known, answers)
    return GateResult(gate, observed, held, against, "" if held else reason)


def _against(gate: HeldoutGate, known: FieldSum, answers: Sequence[Answer]) -> Tuple[str, ...]:
    """Cases that speak against a mean: not true, or beyond the threshold themselves."""
    if known.kind == "bool":
        wanted = gate.op in (">", ">=") or (gate.op == "==" and float(gate.value) > 0)
        return tuple(
            a.case_id for a in answers if bool(known.values.get(a.case_id, not wanted)) != wanted
        )
    return tuple(
        case
        for case, value in known.values.items()
        if not _compare(_number(value) or 0.0, gate.op, float(gate.value))
    )


def _holds_in(gate: HeldoutGate, value: Any) -> bool:
    if value is None or isinstance(value, bool) != isinstance(gate.value, bool):
        return False
    if gate.op == "==":
        return bool(value == gate.value)
    if gate.op == "!=":
        return bool(value != gate.value)
    try:
        return _compare(value, gate.op, gate.value)
    except TypeError:
        return False


def _compare(left: Any, op: str, right: Any) -> bool:
    if left != left or right != right:  # nan holds against nothing
        return False
    held: bool = {
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "==": left == right,
        "!=": left != right,
    }[op]
    return held


def gate_findings(results: Sequence[GateResult], cases: int) -> Tuple[Finding, ...]:
    """An error for each threshold that does not hold."""
    return tuple(_missed(result, cases) for result in results if result.held is False)


def _missed(result: GateResult, cases: int) -> Finding:
    gate = result.gate
    observed = "nothing" if result.observed is None else _shown(result.observed)
    text = f"{gate.field} is {observed} over {cases} held-out cases, not {gate.op} {gate.value}"
    if result.reason:
        text += f": {result.reason}"
    names = ", ".join(result.against[:_NAMED])
    more = len(result.against) - _NAMED
    also = f" and {more} more" if more > 0 else ""
    return Finding(
        GATE,
        "eval_mode",
        "error",
        text + ".",
        evidence=Evidence(result.observed, f"{gate.op} {gate.value}"),
        remedy=f"Look at the answers to {names}{also} on the page, under held-out cases."
        if names
        else "Look at the validator: what does it return?",
        confidence="measured",
    )


def _shown(value: Union[float, str]) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def gate_open_points(results: Sequence[GateResult]) -> Tuple[NotJudged, ...]:
    """Thresholds on a field that no case has: required, and not judged."""
    return tuple(
        NotJudged(f"{GATE}:{result.gate.field}", "eval_mode", result.reason, True)
        for result in results
        if result.held is None
    )


def summary(answers: Sequence[Answer]) -> Dict[str, Any]:
    """What the page says of one model: fields, failed cases, time and tokens."""
    found = sums(answers)
    seconds = sorted(answer.seconds for answer in answers)
    middle = len(seconds) // 2
    tokens = [answer.new_tokens for answer in answers if answer.new_tokens is not None]
    return {
        "fields": {name: one.mean for name, one in found.items() if one.kind != "text"},
        "answered": len(answers),
        "failed": sum(1 for answer in answers if answer.error),
        "cut_at_length": sum(1 for answer in answers if answer.stopped == "length"),
        "median_seconds": round(seconds[middle], 6) if seconds else None,
        "slowest_seconds": round(seconds[-1], 6) if seconds else None,
        "new_tokens": sum(tokens) if tokens else None,
    }
