"""Held-out results for people: what training changed, which gates hold, what was answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.core.check_report import CheckReport, report_named
from seatrial.evidence.plain_text import any_value, number, one_line

MAX_EXAMPLES = 20
_TEXT = 600
_ROLES = ("base", "trained")
Row = tuple[str, ...]


@dataclass(frozen=True)
class HeldoutView:
    """Everything that a report says of held-out cases; plain strings.

    Attributes:
        sentence: what was evaluated, how often.
        header, rows: one row a field: base, trained, gate, whether it holds.
        models: per role its name and the facts of its proof.
        examples: case, what was expected, the answers and what they were found to be.
        examples_left_out: how many more are in the record.
    """

    sentence: str
    header: Row
    rows: list[Row]
    models: list[tuple[str, list[tuple[str, str]]]]
    examples: list[dict[str, Any]]
    examples_left_out: int


def heldout_view(checks: Sequence[CheckReport]) -> HeldoutView | None:
    """The view, or None when no case was evaluated."""
    report = report_named(checks, "heldout")
    models = _table(report.facts, "models") if report is not None else {}
    if report is None or not models:
        return None
    facts = report.facts
    roles = [role for role in _ROLES if role in models]
    examples = [item for item in _list(facts, "examples") if isinstance(item, Mapping)]
    return HeldoutView(
        sentence=_sentence(facts, models),
        header=("field", *(_role_title(role) for role in roles), "gate", "holds"),
        rows=_rows(facts, models, roles),
        models=[(_role_title(role), _proof(_table(models, role))) for role in roles],
        examples=[_example(item) for item in examples[:MAX_EXAMPLES]],
        examples_left_out=max(0, _whole(facts.get("cases")) - len(examples[:MAX_EXAMPLES])),
    )


def heldout_lines(checks: Sequence[CheckReport]) -> list[str]:
    """A few lines for a terminal: ``legal  base 0.00  trained 1.00  (gate >= 0.95: holds)``."""
    view = heldout_view(checks)
    if view is None:
        return []
    width = max((len(row[0]) for row in view.rows), default=0)
    lines = [view.sentence]
    for row in view.rows:
        values = "  ".join(
            f"{name} {value}" for name, value in zip(view.header[1:-2], row[1:-2], strict=True)
        )
        gate = f"  (gate {row[-2]}: {row[-1]})" if row[-2] else ""
        lines.append(f"{row[0]:<{width}}  {values}{gate}")
    return lines


def _sentence(facts: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    trained = _table(models, "trained")
    step = trained.get("step")
    where = f" (step {any_value(step, 20)})" if step is not None else ""
    who = f"by the trained model{where}" if trained else "by no trained model"
    if "base" in models:
        who += " and by the base model"
    use = _whole(facts.get("use"))
    again = ""
    if use > 1:
        again = f" This is use {use} of these cases: {one_line(str(facts.get('reason')), 200)}."
    return f"{number(_whole(facts.get('cases')))} held-out cases, each answered once {who}.{again}"


def _rows(facts: Mapping[str, Any], models: Mapping[str, Any], roles: Sequence[str]) -> list[Row]:
    names: list[str] = []
    for role in roles:
        names += [name for name in _table(_table(models, role), "fields") if name not in names]
    gates = [gate for gate in _list(facts, "gates") if isinstance(gate, Mapping)]
    names += [str(g["field"]) for g in gates if g.get("field") and str(g["field"]) not in names]
    rows = []
    for name in names:
        mine = [gate for gate in gates if gate.get("field") == name]
        told = "; ".join(f"{g.get('op')} {any_value(g.get('value'), 40)}" for g in mine)
        held = "; ".join(_held(g.get("held")) for g in mine)
        values = (_share(_table(_table(models, role), "fields").get(name)) for role in roles)
        rows.append((one_line(name, 60), *values, told, held))
    return rows


def _held(value: Any) -> str:
    if value is None:
        return "not judged"
    return "holds" if value is True else "does not hold"


def _share(value: Any) -> str:
    """The number behind a field; a table of numbers shows its mean."""
    if isinstance(value, Mapping):
        value = next((value[key] for key in ("mean", "share", "value") if key in value), None)
    if value is None:
        return "none"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.4g}" if abs(value) >= 10 else f"{value:.3f}"
    return any_value(value, 60)


def _role_title(role: str) -> str:
    return {"base": "base", "trained": "trained"}.get(role, one_line(role, 40))


def _proof(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What shows that the folder that was evaluated is the one that is named."""
    pairs = []
    for key, value in model.items():
        if key == "fields":
            continue
        items = value.items() if isinstance(value, Mapping) else ((None, value),)
        for inner, item in list(items)[:20]:
            name = key if inner is None else f"{key} {inner}"
            pairs.append((one_line(str(name), 120).replace("_", " "), any_value(item, 300)))
    return pairs


def _example(item: Mapping[str, Any]) -> dict[str, Any]:
    answers = []
    for role in _ROLES:
        answer = item.get(role)
        if not isinstance(answer, Mapping):
            continue
        result = answer.get("error") or answer.get("result")
        shown = (
            ", ".join(f"{one_line(str(k), 60)} {any_value(v, 60)}" for k, v in result.items())
            if isinstance(result, Mapping)
            else any_value(result, 300)
        )
        raw = answer.get("raw", answer.get("text"))
        answers.append((_role_title(role), one_line(str(raw), _TEXT), shown))
    return {
        "id": any_value(item.get("id"), 120),
        "asked": one_line(str(item.get("asked") or ""), _TEXT),
        "expected": one_line(str(item["expected"]), _TEXT) if "expected" in item else "",
        "failed": item.get("failed") is True,
        "answers": answers,
    }


def _table(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    return list(found) if isinstance(found, (list, tuple)) else []


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
