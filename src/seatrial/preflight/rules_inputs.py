"""Rules on what a script reads: pinned revisions, code from elsewhere, texts that must be there."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import PurePath

from seatrial.preflight.rule import SEEN, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.script import Call, Script
from seatrial.preflight.settings import trainers_of
from seatrial.preflight.values import Value

_HEX = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?")
# What is called -> (keyword of the id, its position).
_LOADERS = {
    "from_pretrained": ("pretrained_model_name_or_path", 0),
    "load_dataset": ("path", 0),
    "hf_hub_download": ("repo_id", 0),
    "snapshot_download": ("repo_id", 0),
    "load_dataset_builder": ("path", 0),
}
_PACKAGES = (
    "transformers", "datasets", "huggingface_hub", "peft", "diffusers", "unsloth",
    "sentence_transformers", "timm", "trl", "evaluate",
)  # fmt: skip
# Builders of `datasets` that read files; their names are no repositories.
_BUILDERS = frozenset(
    {
        "json", "csv", "parquet", "arrow", "text", "imagefolder", "audiofolder", "videofolder",
        "webdataset", "pandas", "xml", "sql", "generator",
    }
)  # fmt: skip


def _loads(script: Script) -> Iterator[tuple[Call, str, Value]]:
    """Calls that may fetch from the Hub, with the kind and the id."""
    for call in script.calls_named(*_LOADERS):
        if call.dotted and not call.comes_from(*_PACKAGES):
            continue
        keyword, position = _LOADERS[call.name]
        if call.name == "from_pretrained" and ".PeftModel" in call.dotted:
            keyword, position = "model_id", 1
        given = call.argument(keyword, position)
        if given.absent and call.name == "from_pretrained":
            given = call.argument("model_name", position)
        if not _is_path(call, keyword, position, given, script):
            yield call, call.name, given
    for trainer in trainers_of(script):
        model = trainer.call.argument("model", 0)
        pins = trainer.settings.get("model_init_kwargs") if trainer.settings is not None else None
        if isinstance(model.value, str) and (pins is None or pins.absent):
            yield trainer.call, trainer.class_name, model


def _is_local(text: str, subject: Subject) -> bool:
    """Whether an id is a path: by its form, or because the folder or file is there."""
    if text.startswith((".", "/", "~")) or "\\" in text or text.count("/") > 1:
        return True
    if not _HUB_ID.fullmatch(text):
        return True
    places = (subject.cwd, os.path.dirname(subject.content.path) if subject.content else "")
    return any(os.path.exists(os.path.join(place, text)) for place in places)


def _is_path(call: Call, keyword: str, position: int, given: Value, script: Script) -> bool:
    """Whether it is made by ``Path`` or ``os.path``: that names no repository."""
    if isinstance(given.value, PurePath):
        return True
    node = call.argument_node(keyword, position)
    source = script.evaluator.origin(node) if node is not None else None
    return isinstance(source, ast.Call) and script.evaluator.dotted(source.func).startswith(
        ("os.path.", "pathlib.")
    )


def _output_folders(script: Script) -> set[str]:
    """Texts that the script saves to: loading them is no download."""
    found = set()
    for call in script.calls_named("save_pretrained", "save_model", "TrainingArguments"):
        text = call.argument("output_dir", 0).text
        if text:
            found.add(text)
    return found


def _hub_loads(subject: Subject) -> Iterator[tuple[Call, str] | Open]:
    script = subject.script
    if script is None:
        return
    own = _output_folders(script)
    for call, kind, given in _loads(script):
        text = given.text
        if given.unknown:
            yield Open(f"line {call.line}: what {kind} loads is computed")
        elif text is None or text in own or (text in _BUILDERS and kind.startswith("load_dataset")):
            continue
        elif not _is_local(text, subject):
            yield call, text


@rule(
    "inputs.revision_not_pinned",
    severity="warning",
    ad_hoc="note",
    title="a model or data set of the Hub is loaded without a 40-hex revision",
)
def revision_not_pinned(subject: Subject) -> Iterator[Answer]:
    """A name, a branch or a tag means what its owner says today.

    Why it costs: two runs of one script train on different things, and nobody can tell which.

    What it cannot see: ids that are computed, and whether the revision exists. Paths and folders
    that are there are left alone.

    Remedy: `revision="<40 hex digits>"`, as `seatrial freeze` writes them.

    Example: `AutoModelForCausalLM.from_pretrained("org/model")`
    """
    for found in _hub_loads(subject):
        if isinstance(found, Open):
            yield found
            continue
        call, text = found
        revision = call.argument("revision")
        if revision.unknown:
            yield Open(f"line {call.line}: the revision of {text!r} is computed")
        elif revision.text is not None and _HEX.fullmatch(revision.text):
            yield SEEN
        else:
            shown = "no revision" if revision.text is None else f"revision {revision.text!r}"
            yield Hit(
                f"{call.name}({text!r}) has {shown}, which is no fixed version",
                line=call.line,
                observed=revision.text,
                expected="40 hex digits",
                remedy=f'revision="..." at line {call.line}; `seatrial freeze` finds the value',
            )


@rule(
    "inputs.remote_code_not_pinned",
    severity="warning",
    ad_hoc="warning",
    title="code of a repository is run without a fixed version of it",
)
def remote_code_not_pinned(subject: Subject) -> Iterator[Answer]:
    """`trust_remote_code=True` runs Python files of the repository, as they are at that moment.

    Why it costs: code that nobody here has read runs with your tokens.

    What it cannot see: whether the repository has code at all.

    Remedy: pin `revision`, after reading the code at that revision.

    Example: `AutoModel.from_pretrained("org/model", trust_remote_code=True)`
    """
    for found in _hub_loads(subject):
        if isinstance(found, Open):
            continue  # `inputs.revision_not_pinned` says so
        call, text = found
        trusted = call.argument("trust_remote_code")
        revision = call.argument("revision")
        if trusted.unknown:
            yield Open(f"line {call.line}: trust_remote_code for {text!r} is computed")
        elif not trusted.is_(True):
            yield SEEN
        elif revision.unknown:
            yield Open(f"line {call.line}: the revision of {text!r} is computed")
        elif revision.text is None or not _HEX.fullmatch(revision.text):
            yield Hit(
                f"{call.name}({text!r}) runs code of that repository in whatever version it has",
                line=call.line,
                observed=revision.text,
                expected="40 hex digits",
                remedy=f'revision="<40 hex digits>" at line {call.line}',
            )
        else:
            yield SEEN


def _line_of(data: bytes, needle: bytes) -> int:
    return data[: data.index(needle)].count(b"\n") + 1


@rule(
    "inputs.required_text_missing",
    severity="error",
    ad_hoc="error",
    title="a text of --require is not in the file",
    detects="launch",
    needs_script=False,
)
def required_text_missing(subject: Subject) -> Iterator[Answer]:
    """The literal text was asked for and is nowhere in the bytes of the file.

    Why it costs: what had to be in the runner (a revision, a guard, a setting) is not.

    What it cannot see: a text that the script puts together while it runs; a text in another file.

    Remedy: put it there, or ask for the text as it is written.

    Example: `seatrial preflight train.py --require 'greater_is_better=False'`
    """
    for text in subject.require if subject.content is not None else ():
        if text.encode("utf-8", "surrogateescape") in subject.content.data:  # type: ignore[union-attr]  # not None here
            yield SEEN
        else:
            yield Hit(
                f"the required text {text!r} is not in the file",
                expected=text,
                remedy="put it into the file, or name the text as it is written there",
            )


@rule(
    "inputs.forbidden_text_found",
    severity="error",
    ad_hoc="error",
    title="a text of --forbid is in the file",
    detects="launch",
    needs_script=False,
)
def forbidden_text_found(subject: Subject) -> Iterator[Answer]:
    """The literal text was forbidden and stands in the file, be it in a comment.

    Why it costs: what must not be in the runner is.

    What it cannot see: a text that the script puts together while it runs; a text in another file.

    Remedy: take it out.

    Example: `seatrial preflight train.py --forbid 'resume_from_checkpoint=True'`
    """
    for text in subject.forbid if subject.content is not None else ():
        data = subject.content.data  # type: ignore[union-attr]  # not None here
        needle = text.encode("utf-8", "surrogateescape")
        if needle in data:
            line = _line_of(data, needle)
            yield Hit(
                f"the forbidden text {text!r} is in the file, first in line {line}",
                line=line,
                observed=data.count(needle),
                expected=0,
                remedy=f"take it out of line {line}",
            )
        else:
            yield SEEN


RULES: tuple[Rule, ...] = (
    revision_not_pinned,
    remote_code_not_pinned,
    required_text_missing,
    forbidden_text_found,
)
