"""Every difference between a lock and what is there now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, List, Mapping, Tuple

from seatrial.core.lock_values import Lock

INPUT = "input"
RUNNER = "runner"
PROMPT = "prompt"
VALIDATOR = "validator"
HELDOUT = "heldout"
TERMS = "terms"
CONTEXT = "context"
KINDS = (INPUT, RUNNER, PROMPT, VALIDATOR, HELDOUT, TERMS, CONTEXT)

_OF_ROLE = {"prompt": PROMPT, "validator": VALIDATOR, "heldout": HELDOUT}
# Terms that only repeat what has drifted as files or cases of its own.
_REPEATED = ("heldout_cases", "heldout_files")


@dataclass(frozen=True)
class Drift:
    """One difference.

    Attributes:
        kind: one of ``KINDS``; all but ``context`` are refused.
        place: the file, or the term by its dotted name.
        message: what differs, with both values.
        before, after: JSON values; None where there was or is nothing.
    """

    kind: str
    place: str
    message: str
    before: Any = None
    after: Any = None

    @property
    def refused(self) -> bool:
        """Whether a run under the lock is refused because of it."""
        return self.kind != CONTEXT


def drift(lock: Lock, now: Lock) -> Tuple[Drift, ...]:
    """Every difference, inputs first and context last; empty when nothing differs.

    Context is compared only when both locks have it.

    Args:
        lock: what was frozen.
        now: what is there.
    """
    found = [
        *_inputs(lock, now),
        *_heldout(lock.heldout or {}, now.heldout or {}),
        *_runner(lock.runner, now.runner),
        *_terms(lock.terms, now.terms),
    ]
    if not found and lock.sha256 != now.sha256:
        found.append(Drift(TERMS, "trial.lock", "the locks differ in a part that has no name here"))
    if lock.context is not None and now.context is not None:
        found += _context(lock.context, now.context)
    return tuple(found)


def _inputs(lock: Lock, now: Lock) -> Iterator[Drift]:
    before = {entry["id"]: entry for entry in lock.inputs}
    after = {entry["id"]: entry for entry in now.inputs}
    for name, old in before.items():
        kind = _OF_ROLE.get(old["role"], INPUT)
        place = str(old.get("path") or old.get("hub") or name)
        new = after.get(name)
        if new is None:
            yield Drift(kind, place, f"input {name!r} is no longer in the trial", old["role"], None)
            continue
        label = f"input {name!r}"
        keys = ["role", "path", "hub", "asked", "split"]
        if new.get("error") is None:
            keys.append("kind")
        moved = [*_values(kind, place, label, old, new, keys)]
        yield from moved
        was, is_now = old.get("revision"), new.get("revision")
        if was != is_now and not moved:
            text = f"{label}: revision {_short(was)}, now {_short(is_now)}"
            yield Drift(kind, place, text, was, is_now)
        if new.get("error") is not None:
            yield Drift(kind, place, f"{label}: {new['error']}", old.get("sha256"), None)
        elif old.get("kind") == new.get("kind"):
            yield from _content(kind, place, label, old, new)
    for name, new in after.items():
        if name not in before:
            place = str(new.get("path") or new.get("hub") or name)
            kind = _OF_ROLE.get(new["role"], INPUT)
            yield Drift(kind, place, f"input {name!r} is not in the lock", None, new["role"])


def _content(
    kind: str, place: str, label: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Drift]:
    if old.get("sha256") == new.get("sha256"):
        return
    if old.get("kind") == "folder":
        yield from _files(kind, old.get("files"), new.get("files"), f"{label}: ", place)
        return
    yield Drift(kind, place, f"{label}: {_changed(old, new)}", old.get("sha256"), new.get("sha256"))


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    sizes = ""
    if old.get("bytes") != new.get("bytes"):
        sizes = f", {old.get('bytes')} bytes before and {new.get('bytes')} now"
    return (
        f"its content changed ({_short(old.get('sha256'))}, now {_short(new.get('sha256'))}{sizes})"
    )


def _short(value: Any) -> str:
    return "none" if value is None else str(value)[:12]


def _files(
    kind: str, before: Any, after: Any, label: str = "", folder: str = ""
) -> Iterator[Drift]:
    """Files that were added, removed or changed, by their paths."""
    old = {str(entry.get("path")): entry for entry in before or ()}
    new = {str(entry.get("path")): entry for entry in after or ()}
    for path in sorted(set(old) | set(new)):
        place = f"{folder}/{path}" if folder else path
        if path not in new:
            what = str(old[path].get("what") or "a file")
            text, values = f"{label}{what} is gone", (old[path].get("sha256"), None)
        elif path not in old:
            what = str(new[path].get("what") or "a file")
            text, values = f"{label}{what} is not in the lock", (None, new[path].get("sha256"))
        elif new[path].get("error") is not None:
            text, values = f"{label}{new[path]['error']}", (old[path].get("sha256"), None)
        elif old[path].get("sha256") != new[path].get("sha256"):
            text = f"{label}{_changed(old[path], new[path])}"
            values = (old[path].get("sha256"), new[path].get("sha256"))
        else:
            continue
        yield Drift(kind, place, text, *values)


def _heldout(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Drift]:
    for part, kind in (("cases_file", HELDOUT), ("prompt", PROMPT)):
        yield from _one_file(kind, part.replace("_", " "), old.get(part), new.get(part))
    if "error" not in (new.get("cases_file") or {}):
        yield from _cases(old.get("cases"), new.get("cases"), new, old)
    for part in ("validator", "normalize", "loader"):
        was, is_now = old.get(part), new.get(part)
        if was != is_now:
            name = f"heldout.{part}"
            text = f"{name} is {is_now or 'none'}, in the lock {was or 'none'}"
            yield Drift(VALIDATOR, name, text, was, is_now)
    yield from _files(VALIDATOR, old.get("files"), new.get("files"))


def _one_file(kind: str, label: str, old: Any, new: Any) -> Iterator[Drift]:
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            entry = old if isinstance(old, dict) else new
            state = "is no longer in the trial" if isinstance(old, dict) else "is not in the lock"
            yield Drift(kind, str(entry.get("path")), f"held-out {label} {state}")
        return
    place = str(old.get("path"))
    if old.get("path") != new.get("path"):
        text = f"held-out {label} is {new.get('path')}, in the lock {place}"
        yield Drift(kind, place, text, place, new.get("path"))
    if new.get("error") is not None:
        yield Drift(kind, place, f"held-out {label}: {new['error']}", old.get("sha256"), None)
    elif old.get("sha256") != new.get("sha256"):
        values = (old.get("sha256"), new.get("sha256"))
        yield Drift(kind, place, f"held-out {label}: {_changed(old, new)}", *values)


def _cases(
    before: Any, after: Any, new: Mapping[str, Any], old: Mapping[str, Any]
) -> Iterator[Drift]:
    place = str((new.get("cases_file") or old.get("cases_file") or {}).get("path"))
    cases = {str(entry.get("id")): entry.get("sha256") for entry in before or ()}
    cases_now = {str(entry.get("id")): entry.get("sha256") for entry in after or ()}
    for name in [*cases, *(name for name in cases_now if name not in cases)]:
        was, now = cases.get(name), cases_now.get(name)
        if was != now:
            state = "changed" if was and now else ("is gone" if was else "is not in the lock")
            yield Drift(HELDOUT, place, f"held-out case {name!r} {state}", was, now)


def _runner(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Drift]:
    keys = sorted((set(old) | set(new)) - {"files"})
    yield from _values(RUNNER, "", "runner", old, new, keys)
    known = {str(entry.get("path")) for entry in old.get("files") or ()}
    for entry in _files(RUNNER, old.get("files"), new.get("files")):
        added = entry.place not in known
        what = [file.get("what") for file in new.get("files") or () if file["path"] == entry.place]
        if added and what == ["config"]:
            # As likely a file that an earlier run of the script wrote as one that it reads.
            text = f"{entry.place} is there now, and was not when the trial was frozen"
            yield Drift(CONTEXT, entry.place, text, entry.before, entry.after)
        else:
            yield entry


def _values(
    kind: str,
    place: str,
    label: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    keys: Any,
) -> Iterator[Drift]:
    for key in keys:
        if old.get(key) != new.get(key):
            yield Drift(
                kind,
                place or f"{label}.{key}",
                f"{label}: {key} is {_told(new.get(key))}, in the lock {_told(old.get(key))}",
                old.get(key),
                new.get(key),
            )


def _told(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict) and {"op", "value"} <= set(value):
        since = f" from step {value['from_step']}" if value.get("from_step") else ""
        mean = f", mean of {value['window']}" if value.get("window", 1) != 1 else ""
        return f"{value['op']} {value['value']}{since}{mean}"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        text = " ".join(value) or "nothing"
    else:
        text = str(value)
    return text if len(text) <= 200 else text[:197] + "..."


def _terms(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Drift]:
    flat_old = _flat({key: item for key, item in old.items() if key not in _REPEATED})
    flat_new = _flat({key: item for key, item in new.items() if key not in _REPEATED})
    for name in [*flat_old, *(name for name in flat_new if name not in flat_old)]:
        was, now = flat_old.get(name), flat_new.get(name)
        if was != now or type(was) is not type(now):
            yield Drift(TERMS, name, f"{name} is {_told(now)}, in the lock {_told(was)}", was, now)


def _flat(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in table.items():
        if isinstance(item, dict):
            found.update(_flat(item, f"{before}{key}."))
        elif isinstance(item, list) and any(isinstance(entry, dict) for entry in item):
            for name, entry in _named(item):
                found[f"{before}{key}[{name}]"] = entry
        else:
            found[f"{before}{key}"] = item
    return found


def _named(rows: List[Any]) -> Iterator[Tuple[str, Any]]:
    """Gates by their metric, numbered where one comes again."""
    seen: dict[str, int] = {}
    for row in rows:
        name = str(row.get("metric") or row.get("field")) if isinstance(row, dict) else "?"
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name} {seen[name]}", row


def _context(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Drift]:
    flat_old, flat_new = _flat(old), _flat(new)
    for name in sorted(set(flat_old) | set(flat_new)):
        was, now = flat_old.get(name), flat_new.get(name)
        if was != now:
            text = f"{name} is {_told(now)}, in the lock {_told(was)}"
            yield Drift(CONTEXT, name, text, was, now)
