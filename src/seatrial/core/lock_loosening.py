"""What a newer set of terms lets pass that an older one did not. It knows which way is easier."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Iterator, List, Mapping, Optional, Tuple

_BOUNDS = ("max_steps", "wall_s", "memory_bytes")
_EQUALITY = ("==", "!=")


@dataclass(frozen=True)
class Loosening:
    """One term that got easier to meet, or whose change cannot be ordered.

    Attributes:
        what: the term: ``bounds.max_steps``, ``gate eval_loss``, ``heldout gate legal``, ...
        before, after: its values; None where it was not there.
        how: ``raised``, ``removed``, ``weakened``, ``disabled``, ``shrunk`` or ``changed``.
    """

    what: str
    before: Any
    after: Any
    how: str

    @property
    def text(self) -> str:
        """One line for people."""
        after = "nothing" if self.after is None else shown(self.after)
        before = "nothing" if self.before is None else shown(self.before)
        return f"{self.what} {self.how}: {before}, now {after}"


def shown(value: Any) -> str:
    """A term's value for people."""
    if isinstance(value, dict) and "op" in value:
        rest = [
            f"{name} {value[name]}"
            for name, usual in (("from_step", 0), ("window", 1))
            if value.get(name, usual) != usual
        ]
        return " ".join([str(value["op"]), str(value.get("value")), *rest])
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def loosened(before: Mapping[str, Any], after: Mapping[str, Any]) -> Tuple[Loosening, ...]:
    """Every way in which ``after`` is easier to meet than ``before``.

    Args:
        before: the terms of an earlier lock, see ``lock_terms.terms_of``.
        after: the terms now.
    """
    return (
        *_bounds(_table(before, "bounds"), _table(after, "bounds")),
        *_gates("gate", "metric", _rows(before, "gates"), _rows(after, "gates")),
        *_gates(
            "heldout gate",
            "field",
            _rows(before, "heldout_gates"),
            _rows(after, "heldout_gates"),
        ),
        *_checks(_table(before, "checks"), _table(after, "checks")),
        *_cases(before.get("heldout_cases"), after.get("heldout_cases")),
        *_judges(_table(before, "heldout_files"), _table(after, "heldout_files")),
        *_new_tokens(before.get("max_new_tokens"), after.get("max_new_tokens")),
        *_others(before, after),
    )


def _table(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _rows(value: Mapping[str, Any], name: str) -> List[Mapping[str, Any]]:
    found = value.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _bounds(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Loosening]:
    for name in _BOUNDS:
        old, new = before.get(name), after.get(name)
        if not _is_number(old):
            continue  # the default of a machine is no number that could be raised
        if new is None:
            yield Loosening(f"bounds.{name}", old, None, "removed")
        elif _is_number(new) and new > old:
            yield Loosening(f"bounds.{name}", old, new, "raised")
    old, new = before.get("money"), after.get("money")
    if isinstance(old, str) and isinstance(new, str):
        amounts = _money(old), _money(new)
        if amounts[0] is None or amounts[1] is None or amounts[0][1] != amounts[1][1]:
            # Nothing is nothing in every currency.
            if old != new and not (amounts[1] is not None and amounts[1][0] == 0):
                yield Loosening("bounds.money", old, new, "changed")
        elif amounts[1][0] > amounts[0][0]:
            yield Loosening("bounds.money", old, new, "raised")


def _money(text: str) -> Optional[Tuple[Decimal, str]]:
    amount, _, currency = text.partition(" ")
    try:
        return Decimal(amount), currency
    except InvalidOperation:
        return None


def _gates(
    kind: str, key: str, before: List[Mapping[str, Any]], after: List[Mapping[str, Any]]
) -> Iterator[Loosening]:
    """Each old gate must still be implied by one of the new ones on the same metric."""
    for old in before:
        rivals = [new for new in after if new.get(key) == old.get(key)]
        if any(is_as_strict(new, old) for new in rivals):
            continue
        counterpart = _nearest(old, rivals)
        yield Loosening(
            f"{kind} {old.get(key)}",
            dict(old),
            None if counterpart is None else dict(counterpart),
            "removed" if counterpart is None else "weakened",
        )


def _nearest(
    old: Mapping[str, Any], rivals: List[Mapping[str, Any]]
) -> Optional[Mapping[str, Any]]:
    """The gate that the old one was most likely turned into: same direction first."""

    def distance(new: Mapping[str, Any]) -> Tuple[bool, bool]:
        return (
            str(new.get("op"))[:1] != str(old.get("op"))[:1],
            new.get("value") != old.get("value"),
        )

    return min(rivals, key=distance, default=None)


def is_as_strict(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether whatever meets the gate ``new`` would have met the gate ``old``, too."""
    if (new.get("from_step") or 0) > (old.get("from_step") or 0):
        return False
    if (new.get("window") or 1) > (old.get("window") or 1):
        return False
    return _implies(str(new.get("op")), new.get("value"), str(old.get("op")), old.get("value"))


def _implies(op: str, value: Any, old_op: str, limit: Any) -> bool:
    """Whether ``x op value`` has ``x old_op limit`` as a consequence, for every x."""
    if op == "==":
        return _holds(value, old_op, limit)
    if not _is_number(value) or not _is_number(limit):
        return op == old_op and value == limit and type(value) is type(limit)
    if op == "!=":
        return bool(old_op == "!=" and value == limit)
    if old_op == "==":
        return False
    if old_op == "!=":
        # Of a half line nothing may be the limit itself.
        beyond = value < limit if op[0] == "<" else value > limit
        return bool(beyond or (value == limit and len(op) == 1))
    if op[:1] != old_op[:1]:
        return False
    inside = value < limit if op[0] == "<" else value > limit
    return bool(inside or (value == limit and not (op[1:] == "=" and old_op[1:] == "")))


def _holds(value: Any, op: str, limit: Any) -> bool:
    if op in _EQUALITY:
        return bool((value == limit) == (op == "=="))
    if not _is_number(value) or not _is_number(limit):
        return False
    below, equal = value < limit, value == limit
    return bool(
        {"<": below, "<=": below or equal, ">": not (below or equal), ">=": not below}.get(
            op, False
        )
    )


def _checks(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Loosening]:
    for name in sorted(set(before.get("require") or ()) - set(after.get("require") or ())):
        yield Loosening(f"check {name}", "required", None, "removed")
    for name in sorted(set(after.get("disable") or ()) - set(before.get("disable") or ())):
        yield Loosening(f"check {name}", "enabled", "disabled", "disabled")


def _cases(before: Any, after: Any) -> Iterator[Loosening]:
    what = "held-out cases"
    if not isinstance(before, dict) or not before.get("count"):
        return
    if not isinstance(after, dict):
        yield Loosening(what, before["count"], None, "removed")
        return
    old, new = before.get("named"), after.get("named")
    if after.get("sha256") == before.get("sha256"):
        return
    count = after.get("count") or 0
    if isinstance(old, list) and isinstance(new, list):
        gone = len(set(old) - set(new))
        if gone:
            how = "shrunk" if count < before["count"] else "changed"
            yield Loosening(
                what, before["count"], f"{count}, {gone} of the old ones gone or changed", how
            )
    elif count < before["count"]:
        yield Loosening(what, before["count"], count, "shrunk")
    else:
        yield Loosening(what, before["count"], f"{count} others", "changed")


def _judges(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Loosening]:
    """Prompt, validator and normalizer decide what counts as right; which way cannot be told."""
    for name in sorted(before):
        if name == "loader":
            continue  # it loads a model, it judges nothing
        old, new = before[name], after.get(name)
        if new is None:
            yield Loosening(f"held-out {name}", str(old)[:12], None, "removed")
        elif new != old:
            yield Loosening(f"held-out {name}", str(old)[:12], str(new)[:12], "changed")


def _new_tokens(before: Any, after: Any) -> Iterator[Loosening]:
    if _is_number(before) and after is None:
        yield Loosening("max_new_tokens", before, None, "removed")
    elif _is_number(before) and _is_number(after) and after > before:
        yield Loosening("max_new_tokens", before, after, "changed")


def _others(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Loosening]:
    old, new = _table(before, "output"), _table(after, "output")
    if old.get("private") is True and new.get("private") is False:
        yield Loosening("output.private", "private", "public", "removed")
    old, new = _table(before, "legs"), _table(after, "legs")
    for leg in ("resume", "rehearse"):
        if old.get(leg) is True and new.get(leg) is not True:
            yield Loosening(f"leg {leg}", "run", None, "removed")
