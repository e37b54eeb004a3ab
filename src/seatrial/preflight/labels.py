"""Which tokens get labels: the frozen tokenizer on the first train rows, as the trainer does it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from seatrial.core.child import MEMORY, TIMEOUT, Ask
from seatrial.core.finding import Evidence, Finding, NotJudged, Place
from seatrial.core.limited_json import parse_limited
from seatrial.core.trial import Trial
from seatrial.preflight.ask_child import Asked, ask_child
from seatrial.preflight.sft_facts import COMPUTED, DEFAULT_MAX_LENGTH, SftFacts

FAMILY = "labels"
RULE = "labels.completion_only"
MAX_ROWS = 64
MAX_CONFIG_BYTES = 16 * 2**20
TEMPLATE_SECONDS = 20.0
TEMPLATE_BYTES = 2**30
TIMEOUT_S = 90.0  # importing transformers on a busy machine, and the templates
MEMORY_BYTES = 6 * 2**30
# From this share of rows on, rows that lose their answer to the length limit are an error.
MAX_LOST_SHARE = 0.1
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model")
_SHOWN = 5


@dataclass(frozen=True)
class _Seen:
    """The child's answer, and where it comes from."""

    value: Mapping[str, Any]
    rows: str
    tokenizer: str
    script: str
    facts: SftFacts
    read: int

    def rows_with(self, name: str) -> list[int]:
        tally = self.value.get("tally")
        found = tally.get(name) if isinstance(tally, dict) else None
        return [int(number) for number in found] if isinstance(found, list) else []

    def note(self, name: str) -> str:
        notes = self.value.get("notes")
        return str(notes.get(name) or "") if isinstance(notes, dict) else ""

    def of_tokenizer(self, name: str) -> Any:
        told = self.value.get("tokenizer")
        return told.get(name) if isinstance(told, dict) else None


def label_findings(
    trial: Trial, script: str, facts: SftFacts, ask: Ask, how: Asked
) -> tuple[list[Finding], list[NotJudged]]:
    """Judge the labels of the first rows of the trial's train file.

    Args:
        trial: names the tokenizer (or a model folder with one) and the train file.
        script: path of the script, for messages.
        facts: what the script tells the trainer.
        ask: runs a capped child.
        how: interpreter, working directory and environment of the runner.
    """
    tokenizer = tokenizer_folder(trial)
    found = _pad_is_eos(script, facts, tokenizer)
    rows = next((i.path for i in trial.inputs if i.role == "train" and i.path is not None), None)
    reason = _why_not(facts, tokenizer, rows)
    if reason or tokenizer is None or rows is None:
        return found, [_open(reason)]
    request = {
        "tokenizer": tokenizer,
        "rows": rows,
        "max_rows": MAX_ROWS,
        "template": facts.template,
        "eos_token": facts.get("eos_token"),
        "assistant_only": facts.get("assistant_only_loss") is True,
        "completion_only": facts.get("completion_only_loss"),
        "max_length": _max_length(facts),
        "keep_end": facts.get("truncation_mode") == "keep_end",
        "text_field": facts.get("dataset_text_field") or "text",
        "template_seconds": TEMPLATE_SECONDS,
        "template_bytes": TEMPLATE_BYTES,
    }
    capped = Asked(how.interpreter, how.cwd, how.env, how.options, TIMEOUT_S, MEMORY_BYTES)
    told = ask_child(ask, "chat_labels.py", capped, request)
    if told.value is None:
        if told.began and told.ended in (TIMEOUT, MEMORY):
            return [*found, _endless(tokenizer, told.reason, None)], []
        return found, [_open(f"{how.interpreter} could not make the labels: {told.reason}")]
    read = told.value.get("read")
    count = read if isinstance(read, int) else 0
    findings, reason = _judged(_Seen(told.value, rows, tokenizer, script, facts, count))
    version = str(told.value.get("trl") or "")
    if told.value.get("state") == "judged" and not version.startswith("1."):
        # Older trainers masked and cut in other ways: what was found is likely, the rest is open.
        findings = [replace(finding, confidence="likely") for finding in findings]
        have = f"TRL {version}" if version else "no TRL"
        reason = reason or f"the labels were made as TRL 1.16 makes them, and the runner has {have}"
    return [*found, *findings], [_open(reason)] if reason else []


def tokenizer_folder(trial: Trial) -> str | None:
    """The local tokenizer of a trial: its own input, or a model folder that holds one."""
    for role in ("tokenizer", "model"):
        for entry in trial.inputs:
            if entry.role == role and entry.path is not None and _holds_tokenizer(entry.path):
                return entry.path
    return None


def _holds_tokenizer(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in _TOKENIZER_FILES)


def _open(reason: str) -> NotJudged:
    return NotJudged(RULE, FAMILY, reason)


def _max_length(facts: SftFacts) -> int | None:
    if facts.get("packing") not in (None, False):
        return None  # rows are packed, not cut
    value = facts.get("max_length", DEFAULT_MAX_LENGTH)
    return value if isinstance(value, int) and value > 0 else None


def _why_not(facts: SftFacts, tokenizer: str | None, rows: str | None) -> str:
    if not facts.used:
        return "the script makes no SFTTrainer: how it makes labels is its own affair"
    if tokenizer is None:
        return "the trial names no local tokenizer (an [[input]] with role tokenizer or model)"
    if rows is None:
        return "the trial names no local train file"
    if not os.path.isfile(rows):
        return f"{rows} is no file of rows"
    if facts.reshapes:
        return f"{facts.reshapes}: the rows of the file are not what the trainer sees"
    if facts.template is COMPUTED:
        return "the script chooses the chat template while it runs"
    for name in ("assistant_only_loss", "completion_only_loss", "eos_token", "dataset_text_field"):
        if facts.get(name) is COMPUTED:
            return f"{name} is computed while the script runs"
    return ""


def _judged(seen: _Seen) -> tuple[list[Finding], str]:
    state = str(seen.value.get("state"))
    message = str(seen.value.get("message") or "")
    if state in ("template_time", "template_memory"):
        row = seen.value.get("row")
        what = (
            f"it ran for more than {TEMPLATE_SECONDS:.0f} s"
            if state == "template_time"
            else "it took more memory than it may"
        )
        return [_endless(seen.tokenizer, what, row if isinstance(row, int) else None)], ""
    if state == "no_eos_token":
        text = f"eos_token={message!r} is no token of {seen.tokenizer}"
        return [_finding(seen, "eos_unknown", "error", text, [], "name a token it has")], ""
    if state != "judged":
        return [], {
            "no_library": f"the runner's interpreter has no transformers: {message}",
            "no_tokenizer": f"{seen.tokenizer} cannot be loaded as a tokenizer: {message}",
            "no_rows": f"{seen.rows} cannot be read as rows: {message}",
        }.get(state, "the answer about the labels cannot be read")
    lost = seen.rows_with("not_json") + seen.rows_with("bad_shape")
    if len(lost) == seen.read:
        why = seen.note("bad_shape") or "they are no JSON objects"
        return [], f"none of the first {seen.read} rows of {seen.rows} is of a kind of TRL's: {why}"
    reason = ""
    if lost:
        reason = (
            f"{len(lost)} of the first {seen.read} rows are of no kind of TRL's (row {lost[0]})"
        )
    return [*_template(seen), *_masks(seen), *_ends(seen), *_lengths(seen)], reason


def _finding(
    seen: _Seen, code: str, severity: str, text: str, rows: list[int], remedy: str
) -> Finding:
    row = rows[0] if rows else None
    return Finding(
        f"labels.{code}",
        "tokenizer" if code in ("double_bos", "eos_unknown") else FAMILY,
        severity,
        text,
        Place(file=seen.rows, row=row) if rows else Place(file=seen.script, line=seen.facts.line),
        Evidence(observed={"rows": len(rows), "of": seen.read, "first": rows[:_SHOWN]}),
        remedy,
        "proven",
    )


def _of(seen: _Seen, rows: list[int]) -> str:
    return f"{len(rows)} of the first {seen.read} rows of {seen.rows}"


def _endless(tokenizer: str, reason: str, row: int | None) -> Finding:
    return Finding(
        "labels.template_endless",
        FAMILY,
        "error",
        f"the chat template of {tokenizer} does not come to an end: {reason}",
        Place(file=tokenizer, row=row),
        Evidence(observed=reason),
        "correct chat_template of the tokenizer",
        "measured",
    )


def _template(seen: _Seen) -> list[Finding]:
    failed = seen.rows_with("failed")
    if not failed:
        return []
    talks = seen.of_tokenizer("has_template")
    if talks is False:
        text = f"{seen.tokenizer} has no chat template, and the rows are conversations"
        remedy = "give the tokenizer a chat_template, or the trainer a chat_template_path"
        return [_finding(seen, "no_template", "error", text, failed, remedy)]
    text = f"{_of(seen, failed)} cannot be made into tokens: {seen.note('failed')}"
    remedy = "correct the chat template, or these rows"
    return [_finding(seen, "template_failed", "error", text, failed, remedy)]


def _masks(seen: _Seen) -> list[Finding]:
    found = []
    empty = seen.rows_with("empty_mask")
    marked = seen.of_tokenizer("marked")
    if empty:
        if seen.facts.get("assistant_only_loss") is True and marked is False:
            text = (
                "assistant_only_loss is on, and the chat template has no {% generation %} marks: "
                f"{_of(seen, empty)} have no token with a label"
            )
            remedy = "put {% generation %} and {% endgeneration %} around what the assistant says"
        else:
            text = f"{_of(seen, empty)} have no token with a label: nothing is learnt from them"
            remedy = "look at these rows: is there an answer, and does the template show it?"
        found.append(_finding(seen, "empty_mask", "error", text, empty, remedy))
    whole = [number for number in seen.rows_with("whole_row") if number not in empty]
    asked = ("assistant_only_loss", "completion_only_loss")
    if whole:
        said = any(seen.facts.get(name) is False for name in asked)
        text = f"{_of(seen, whole)} are trained on as a whole, what the user says as well: " + (
            "the script asks for it" if said else "SFTConfig says neither way"
        )
        remedy = (
            "set assistant_only_loss=True to train on answers alone, or write "
            "assistant_only_loss=False where the whole row is meant"
        )
        severity = "note" if said else "warning"
        found.append(_finding(seen, "whole_row", severity, text, whole, remedy))
    bare = seen.rows_with("tokens_without_labels")
    if bare:
        text = f"{_of(seen, bare)} have input_ids and no labels: every token gets a label"
        found.append(_finding(seen, "whole_row", "warning", text, bare, "add a labels column"))
    astray = seen.rows_with("not_prefix")
    if astray:
        text = (
            f"in {_of(seen, astray)} the tokens of the prompt are not how the whole row begins; "
            f"{seen.note('not_prefix')!r} is left out: training and use see different prompts"
        )
        remedy = "end the prompt where a token ends, or let the template render both the same way"
        found.append(_finding(seen, "prompt_not_prefix", "warning", text, astray, remedy))
    return found


def _ends(seen: _Seen) -> list[Finding]:
    found = []
    outside = seen.rows_with("end_outside")
    if outside:
        text = (
            f"in {_of(seen, outside)} the token {seen.note('end_outside')!r} that ends an answer "
            "has no label: the model does not learn to stop"
        )
        remedy = "put the end token before {% endgeneration %} in the chat template"
        found.append(_finding(seen, "end_outside", "error", text, outside, remedy))
    missing = seen.rows_with("no_end")
    if missing:
        text = f"{_of(seen, missing)} end without an end token: the model does not learn to stop"
        remedy = f"let the template end an answer with {seen.of_tokenizer('eos_token')!r}"
        found.append(_finding(seen, "no_end", "error", text, missing, remedy))
    other = seen.rows_with("other_end")
    if other:
        text = (
            f"{_of(seen, other)} end with {seen.note('other_end')!r}, and generation stops at "
            f"{seen.of_tokenizer('eos_token')!r}"
        )
        remedy = f"set eos_token={seen.note('other_end')!r} in SFTConfig"
        found.append(_finding(seen, "other_end", "warning", text, other, remedy))
    doubled = seen.rows_with("double_bos")
    if doubled:
        text = f"{_of(seen, doubled)} begin with two start tokens"
        remedy = "take the start token out of the chat template, or out of the rows"
        found.append(_finding(seen, "double_bos", "warning", text, doubled, remedy))
    return found


def _lengths(seen: _Seen) -> list[Finding]:
    lost, cut = seen.rows_with("emptied"), seen.rows_with("cut")
    limit = _max_length(seen.facts)
    where = f"max_length={limit}" + (
        "" if "max_length" in (seen.facts.settings or {}) else " (TRL's default)"
    )
    if lost:
        severity = "error" if len(lost) > MAX_LOST_SHARE * seen.read else "warning"
        text = (
            f"{_of(seen, lost)} lose their whole answer to {where}, and the trainer drops them "
            "without a word"
        )
        remedy = "raise max_length, or shorten these rows"
        return [_finding(seen, "answer_cut_off", severity, text, lost, remedy)]
    if len(cut) > seen.read / 2:
        text = f"{_of(seen, cut)} are cut at {where}: the end of the answer is not learnt"
        remedy = "raise max_length, or shorten these rows"
        return [_finding(seen, "answer_cut_off", "warning", text, cut, remedy)]
    return []


def _pad_is_eos(script: str, facts: SftFacts, tokenizer: str | None) -> list[Finding]:
    """A collator that takes the label of every padding token away, and the end token is one."""
    if not facts.masking_collator:
        return []
    if facts.pad_is_eos:
        what = f"line {facts.pad_is_eos} makes the end token the padding token"
    elif tokenizer is not None and _pads_with_eos(tokenizer):
        what = f"the padding token of {tokenizer} is its end token"
    else:
        return []
    return [
        Finding(
            "labels.pad_is_eos",
            FAMILY,
            "error",
            f"{what}, and the collator in line {facts.masking_collator} takes the label of every "
            "padding token away: the model does not learn to stop",
            Place(file=script, line=facts.masking_collator),
            Evidence(observed="pad_token = eos_token", expected="a padding token of its own"),
            "add a padding token of its own, or make labels yourself",
            "likely",
        )
    ]


def _pads_with_eos(tokenizer: str) -> bool:
    try:
        with open(os.path.join(tokenizer, "tokenizer_config.json"), "rb") as handle:
            table = parse_limited(handle.read(MAX_CONFIG_BYTES))
    except (OSError, ValueError):
        return False
    told = table if isinstance(table, dict) else {}
    pad, end = (_token(told.get(name)) for name in ("pad_token", "eos_token"))
    return pad is not None and pad == end


def _token(value: Any) -> Any:
    return value.get("content") if isinstance(value, dict) else value
