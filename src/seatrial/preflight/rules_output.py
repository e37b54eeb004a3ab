"""Rules on where a run's results go: the folder, and the repository that is pushed to."""

from __future__ import annotations

import os
from collections.abc import Iterator

from seatrial.preflight.rule import SEEN, Answer, Hit, Open, Rule, Subject, rule
from seatrial.preflight.script import Call, Script
from seatrial.preflight.settings import Settings, has_value, settings_of
from seatrial.preflight.values import NOWHERE, Value

# Calls that make or fill a repository -> (keyword of the id, position, keyword of privacy).
_PUSHES = {
    "push_to_hub": ("repo_id", 0, "private"),
    "create_repo": ("repo_id", 0, "private"),
    "push_dataset_to_hub": ("repo_id", 0, "private"),
}


def _all(subject: Subject) -> tuple[Settings, ...]:
    return settings_of(subject.script) if subject.script is not None else ()


@rule(
    "checkpoint.output_dir_not_given",
    severity="warning",
    ad_hoc="note",
    title="the output folder is not said",
)
def output_dir_not_given(subject: Subject) -> Iterator[Answer]:
    """Without `output_dir` the library writes to `trainer_output` of the working directory.

    Why it costs: in a container that folder is gone at the end; elsewhere checkpoints of several
    runs mix.

    What it cannot see: a folder that is computed.

    Remedy: `output_dir="..."`, the folder that the trial names.

    Example: `TrainingArguments(max_steps=100)`
    """
    for settings in _all(subject):
        folder = settings.get("output_dir", position=0)
        if folder.unknown or has_value(folder):
            yield SEEN  # said, be it computed
        else:
            yield Hit(
                f"{settings.class_name} has no output_dir: checkpoints go to ./trainer_output",
                line=settings.line,
                expected=subject.trial.output.dir if subject.trial is not None else None,
                remedy='output_dir="out"',
            )


@rule(
    "checkpoint.output_dir_differs",
    severity="warning",
    ad_hoc="note",
    title="script and trial name different output folders",
)
def output_dir_differs(subject: Subject) -> Iterator[Answer]:
    """`[output] dir` of the trial and the script's `output_dir` are different places.

    Why it costs: checkpoints are looked for in the trial's folder; what is judged there is old, or
    nothing.

    What it cannot see: folders that are computed, and those that a plain loop writes to.

    Remedy: give the script the trial's folder, or correct `[output] dir`.

    Example: `dir = "out"` in the trial, `output_dir="runs/a"` in the script.
    """
    wanted = subject.trial.output.dir if subject.trial is not None else None
    if wanted is None:
        return
    place = os.path.realpath(os.path.join(subject.cwd, wanted))
    for settings in _all(subject):
        folder = settings.get("output_dir", position=0)
        text = folder.text
        if folder.unknown:
            yield Open(settings.unsure("output_dir is computed"))
        elif text is None:
            continue
        else:
            named = os.path.realpath(os.path.join(subject.cwd, text))
            if os.path.commonpath([place, named]) in (place, named):
                yield SEEN
            else:
                yield Hit(
                    f"the script writes to {text!r}, and the trial looks in "
                    f"{os.path.relpath(place, subject.cwd)!r}",
                    line=folder.line or settings.line,
                    observed=text,
                    expected=os.path.relpath(place, subject.cwd),
                    remedy=f'dir = "{text}" under [output], or that folder in the script',
                )


def _pushes(script: Script) -> Iterator[tuple[str, int, Value, Value]]:
    """Every place that pushes: what it is, line, id and privacy."""
    for settings in settings_of(script):
        on = settings.get("push_to_hub")
        if on.is_(True):
            target = settings.get("hub_model_id", "push_to_hub_model_id")
            yield "push_to_hub=True", settings.line, target, settings.get("hub_private_repo")
    for call in script.calls_named(*_PUSHES):
        if call.name == "push_to_hub" and "Trainer()" in call.dotted:
            continue  # goes where the configuration says
        if call.dotted.startswith(("__main__.", "builtins.")):
            continue
        keyword, position, privacy = _PUSHES[call.name]
        yield f"{call.name}()", call.line, _target(call, keyword, position), call.argument(privacy)


def _target(call: Call, keyword: str, position: int) -> Value:
    found = call.argument(keyword, position)
    return call.argument("repo_id", position) if found.absent else found


def _may_push(settings: tuple[Settings, ...]) -> Iterator[Answer]:
    for one in settings:
        on = one.get("push_to_hub")
        if on.unknown:
            yield Open(one.unsure("whether it pushes to the Hub is computed"))


@rule(
    "secrets.hub_target_not_private",
    severity="warning",
    ad_hoc="warning",
    title="the script pushes to a repository that is not asked to be private",
)
def hub_target_not_private(subject: Subject) -> Iterator[Answer]:
    """A repository that a push creates is public unless private is asked for.

    Why it costs: weights, and what they were trained on, are published at the first save.

    What it cannot see: repositories that exist already, and defaults of an organisation.

    Remedy: `hub_private_repo=True`; `private=True` at `push_to_hub()` and `create_repo()`.

    Example: `TrainingArguments(output_dir="out", push_to_hub=True)`
    """
    script = subject.script
    if script is None:
        return
    if subject.trial is not None and not subject.trial.output.private:
        yield SEEN  # the trial says that it is meant
        return
    yield from _may_push(_all(subject))
    made_private = any(
        call.name == "create_repo" and call.argument("private").is_(True) for call in script.calls
    )
    for what, line, _target_id, private in _pushes(script):
        if private.is_(True) or made_private:
            yield SEEN
        elif private.unknown:
            yield Open(f"line {line}: whether the target of {what} is private is computed")
        else:
            yield Hit(
                f"{what} at line {line} does not ask for a private repository",
                line=line,
                observed=private.value,
                expected=True,
                remedy="hub_private_repo=True"
                if what == "push_to_hub=True"
                else "private=True in this call",
            )


@rule(
    "checkpoint.hub_id_without_owner",
    severity="warning",
    ad_hoc="note",
    title="the script pushes to a repository without saying whose",
)
def hub_id_without_owner(subject: Subject) -> Iterator[Answer]:
    """Without an owner in the id the repository is made for whoever's token it is.

    Why it costs: results land in a personal account, or in a repository named after the folder.

    What it cannot see: ids that are computed.

    Remedy: `hub_model_id="owner/name"`.

    Example: `push_to_hub=True` with `output_dir="out"`: the repository is called `out`.
    """
    if subject.script is None:
        return
    yield from _may_push(_all(subject))
    for what, line, target, _private in _pushes(subject.script):
        text = target.text
        if target.unknown:
            yield Open(f"line {line}: the target of {what} is computed")
        elif text is not None and "/" in text:
            yield SEEN
        else:
            named = "no repository" if text is None else f"{text!r}, without an owner"
            yield Hit(
                f"{what} at line {line} names {named}",
                line=line,
                observed=text,
                expected="owner/name",
                remedy='hub_model_id="owner/name"'
                if what == "push_to_hub=True"
                else '"owner/name" as the id',
            )


@rule(
    "checkpoint.hub_target_differs",
    severity="warning",
    ad_hoc="note",
    title="the script pushes elsewhere than the trial says",
    detects="launch",
)
def hub_target_differs(subject: Subject) -> Iterator[Answer]:
    """The trial's `[output] hub` and the ids in the script are compared.

    Why it costs: what is uploaded is not what was approved.

    What it cannot see: ids that are computed.

    Remedy: one id in both; without a push leave `hub` out of the trial.

    Example: `hub = "lab/moves"` in the trial and `hub_model_id="me/test"` in the script.
    """
    script, trial = subject.script, subject.trial
    if script is None or trial is None or trial.ad_hoc:
        return
    yield from _may_push(_all(subject))
    wanted, targets = trial.output.hub, list(_pushes(script))
    for what, line, target, _private in targets:
        text = target.text
        if target.unknown:
            yield Open(f"line {line}: the target of {what} is computed")
        elif wanted is None or (text is not None and text != wanted):
            said = "names none" if wanted is None else f"says {wanted!r}"
            yield Hit(
                f"{what} at line {line} pushes to {text or 'a repository'!r}; the trial {said}",
                line=line,
                observed=text,
                expected=wanted,
                remedy=f'hub = "{text or "owner/name"}" under [output] of the trial, or no push',
            )
        else:
            yield SEEN
    if wanted is not None and not targets and script.imported & {"transformers", "trl"}:
        yield Hit(
            f"the trial names {wanted!r} as target, and the script pushes nowhere",
            expected=wanted,
            observed=NOWHERE.value,
            remedy="push_to_hub=True with hub_model_id, or no hub in the trial",
            confidence="likely",
            severity="note",
        )


RULES: tuple[Rule, ...] = (
    output_dir_not_given,
    output_dir_differs,
    hub_target_not_private,
    hub_id_without_owner,
    hub_target_differs,
)
