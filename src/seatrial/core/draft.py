"""The text of a drafted ``trial.toml``: facts in, TOML out.

What was not found stands there as a comment; nothing is made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Tuple

_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r",
}  # fmt: skip


@dataclass(frozen=True)
class DraftInput:
    """One ``[[input]]``; ``source`` says where it was found."""

    id: str
    role: str
    source: str
    path: Optional[str] = None
    hub: Optional[str] = None
    revision: Optional[str] = None
    split: Optional[str] = None


@dataclass(frozen=True)
class Draft:
    """Everything that a drafted trial says.

    Attributes:
        sources: for ``command``, ``max_steps``, ``memory``, ``seed``, ``output``: where from.
        not_found: key and why, in the order of the file.
        optional_secrets: read by the script if they are set, and not set here.
        heldout_cases: a file that can be used as held-out cases.
        metrics: names for gates that the script emits.
    """

    script: str
    name: str
    command: Tuple[str, ...]
    max_steps: int
    memory: Optional[str]
    sources: Mapping[str, str]
    seed: Optional[int] = None
    cwd: Optional[str] = None
    inputs: Tuple[DraftInput, ...] = ()
    output_dir: Optional[str] = None
    hub: Optional[str] = None
    private: Optional[bool] = None
    secrets: Tuple[str, ...] = ()
    optional_secrets: Tuple[str, ...] = ()
    heldout_cases: Optional[str] = None
    metrics: Tuple[str, ...] = ()
    not_found: Tuple[Tuple[str, str], ...] = field(default_factory=tuple)


def toml_string(text: str) -> str:
    """A basic string of TOML.

    Raises:
        ValueError: the text holds bytes that are no Unicode (a lone surrogate).
    """
    out = []
    for char in text:
        code = ord(char)
        if 0xD800 <= code <= 0xDFFF:
            raise ValueError("it holds bytes that are no UTF-8")
        if char in _ESCAPES:
            out.append(_ESCAPES[char])
        elif code < 32 or code == 127:
            out.append(f"\\u{code:04x}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def comment(text: str) -> str:
    """One line of a comment: no control character may end it early or hide in it."""
    plain = "".join(
        char if char.isprintable() else f"\\x{ord(char):02x}" for char in text if char != "\r"
    )
    return f"# {plain}".rstrip()


def draft_text(draft: Draft) -> str:
    """The whole file."""
    reasons = dict(draft.not_found)
    lines = [
        comment(f"Drafted from {draft.script} without running it. Read every line, then:"),
        comment("seatrial freeze, and seatrial run trial.toml. Keys: seatrial schema trial."),
        "schema = 1",
        f"name = {toml_string(draft.name)}",
        comment("not found: what this trial could disprove; one sentence, shown with the verdict"),
        comment('hypothesis = ""'),
    ]
    if draft.seed is None:
        lines.append(comment("not found: seed: " + reasons.get("seed", "")))
    else:
        lines += [f"seed = {draft.seed}" + _trailing(draft.sources.get("seed", ""))]
    lines += _bounds(draft, reasons) + _inputs(draft, reasons) + _runner(draft)
    lines += _output(draft, reasons) + _gates(draft) + _heldout(draft)
    return "\n".join(lines) + "\n"


def _trailing(source: str) -> str:
    return "  " + comment(source) if source else ""


def _bounds(draft: Draft, reasons: Mapping[str, str]) -> List[str]:
    lines = ["", "[bounds]"]
    if "max_steps" in reasons:
        lines.append(comment("not found: max_steps: " + reasons["max_steps"]))
    lines += [
        f"max_steps = {draft.max_steps}" + _trailing(draft.sources.get("max_steps", "")),
        'wall = "15m"' + _trailing("the default of a run without a trial"),
    ]
    if draft.memory is None:
        lines.append(comment("not found: memory: the memory of this machine cannot be told"))
    else:
        memory = f"memory = {toml_string(draft.memory)}"
        lines.append(memory + _trailing(draft.sources.get("memory", "")))
    return lines


def _inputs(draft: Draft, reasons: Mapping[str, str]) -> List[str]:
    lines: List[str] = []
    for entry in draft.inputs:
        lines += ["", comment(entry.source), "[[input]]"]
        for key in ("id", "role", "path", "hub", "revision", "split"):
            value = getattr(entry, key)
            if value is not None:
                lines.append(f"{key} = {toml_string(value)}")
        if entry.hub is not None and entry.revision is None:
            lines.append(comment("not found: revision: seatrial freeze pins what is there then"))
    for key, reason in draft.not_found:
        if key.startswith("input"):
            lines += ["", comment(f"not found: {key}: {reason}")]
    if "inputs" in reasons:
        lines += [
            comment("[[input]]"),
            comment('id = "train"'),
            comment('role = "train"'),
            comment('path = ""'),
        ]
    return lines


def _runner(draft: Draft) -> List[str]:
    lines = ["", "[runner]"]
    lines += [
        comment(f"not found: {key.partition(' ')[2]}: {reason}")
        for key, reason in draft.not_found
        if key.startswith("argument ")
    ]
    words = ", ".join(toml_string(word) for word in draft.command)
    lines.append(f"command = [{words}]")
    if draft.cwd is not None:
        lines.append(f"cwd = {toml_string(draft.cwd)}")
    if draft.secrets:
        names = ", ".join(toml_string(name) for name in draft.secrets)
        lines.append(f"secrets = [{names}]" + _trailing("names only; export the values"))
    lines += [
        comment(f"the script reads {name} if it is set; to pass it on, add it to secrets")
        for name in draft.optional_secrets
    ]
    return lines


def _output(draft: Draft, reasons: Mapping[str, str]) -> List[str]:
    lines = ["", "[output]"]
    if draft.output_dir is None:
        lines.append(comment("not found: dir: " + reasons.get("output.dir", "")))
    else:
        source = _trailing(draft.sources.get("output", ""))
        lines.append(f"dir = {toml_string(draft.output_dir)}" + source)
    if draft.hub is not None:
        lines.append(f"hub = {toml_string(draft.hub)}")
    if draft.private is not None:
        lines.append(f"private = {'true' if draft.private else 'false'}")
    return lines


def _gates(draft: Draft) -> List[str]:
    lines = ["", comment("A gate ends the run where its metric does not hold; the value is yours.")]
    for metric in draft.metrics or ("loss_raw",):
        lines += [
            comment("[[gate]]"),
            comment(f"metric = {toml_string(metric)}"),
            comment('op = "<"'),
            comment("value = 1.0"),
            comment("from_step = 100"),
        ]
    return lines


def _heldout(draft: Draft) -> List[str]:
    if draft.heldout_cases is None:
        lines = [
            "",
            comment("not found: held-out cases: JSON lines with id, messages or prompt, expected"),
            comment("[heldout]"),
            comment('cases = "heldout.jsonl"'),
        ]
    else:
        lines = ["", "[heldout]", f"cases = {toml_string(draft.heldout_cases)}"]
    return [
        *lines,
        comment('validator = "validate.py:validate"'),
        comment("[[heldout.gate]]"),
        comment('field = "correct"'),
        comment('op = ">="'),
        comment("value = 0.5"),
    ]
