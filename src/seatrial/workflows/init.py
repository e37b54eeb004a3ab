"""``seatrial init``: a ``trial.toml`` drafted from a script, which is read and never run."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seatrial.core.draft import Draft, DraftInput, draft_text, toml_string
from seatrial.core.errors import InternalError, UsageError
from seatrial.core.redaction import from_environment
from seatrial.core.secret_shapes import looks_secret_name
from seatrial.core.trial import AD_HOC_MAX_STEPS, AD_HOC_MEMORY_SHARE
from seatrial.readers.config_values import SUFFIXES, read_config
from seatrial.readers.draft_inputs import Places, found_inputs, is_case_file, role_of
from seatrial.readers.json_file import NotRegularError, open_regular
from seatrial.readers.machine import memory_bytes
from seatrial.readers.script_facts import (
    ALIASES,
    HubUse,
    Said,
    ScriptFacts,
    hub_named,
    script_facts,
)
from seatrial.readers.static_values import UNKNOWN

MAX_SCRIPT_BYTES = 4 * 2**20
# A smoke of this many steps is run to its planned end; a longer plan is capped at the default.
MAX_PLANNED_STEPS = 1000
MAX_SEED = 2**32


@dataclass(frozen=True)
class Drafted:
    """What ``init`` did: the file, what it holds, and what could not be found."""

    path: str
    found: Mapping[str, Any]
    not_found: tuple[tuple[str, str], ...]


def init(
    runner: str,
    words: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    out: str | None = None,
    *,
    force: bool = False,
) -> Drafted:
    """Draft a trial for a script and write it.

    Args:
        runner: the script, as typed.
        words: arguments that the script will get.
        cwd: working directory of the person.
        environ: her environment; only the names in it are looked at.
        out: the trial file; ``trial.toml`` beside the script when None.
        force: replace a file that is there.

    Raises:
        UsageError: no Python script, a path that TOML cannot hold, a secret among the words, or a
            file that is there.
        CouldNotJudgeError: the disk is full or broken.
    """
    if runner.endswith((".toml", ".lock", ".json", ".yaml", ".yml")):
        raise UsageError(
            f"{runner!r} is no training script", remedy="name the script: seatrial init train.py"
        )
    script = os.path.realpath(os.path.join(cwd, runner))
    tree = read_script(script, runner)
    path = os.path.join(cwd, out) if out is not None else _beside(script)
    # As whoever reads the trial will see its folder: relative paths start there.
    folder, name = os.path.split(os.path.abspath(path))
    path = os.path.join(os.path.realpath(folder), name)
    if os.path.lexists(path) and not (force and os.path.isfile(path)):
        raise UsageError(
            f"{path} is there already"
            if os.path.isfile(path)
            else f"{path} is no file that can be replaced",
            remedy="seatrial init --out FILE, or --force to replace it"
            if os.path.isfile(path)
            else "choose another name: --out trial.toml",
        )
    _refuse_secrets(words, environ)
    draft = draft_of(tree, script, words, cwd, environ, path)
    text = draft_text(draft)
    _check_text(text)
    _write(path, text, force=force)
    return Drafted(path, _found(draft), draft.not_found)


def _refuse_secrets(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """A trial is a file that gets shared: no secret of a command line goes into it."""
    shown = from_environment(environ, (), words).argv(words)
    for word, safe in zip(words, shown, strict=True):
        if word != safe:
            raise UsageError(
                f"the argument {safe} is a secret, and a trial is a file that gets shared",
                remedy="let the script read it from a variable, and name that under secrets",
            )


def _beside(script: str) -> str:
    return os.path.join(os.path.dirname(script), "trial.toml")


def read_script(script: str, shown: str) -> ast.Module:
    """Parse a script.

    Raises:
        UsageError: it is missing, too large, no text, or no Python.
    """
    try:
        with open_regular(script) as handle:
            data = handle.read(MAX_SCRIPT_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no script {shown!r}", remedy="ls") from None
    except (OSError, NotRegularError) as error:
        raise UsageError(f"the script {shown!r} cannot be read: {error}") from error
    if len(data) > MAX_SCRIPT_BYTES:
        raise UsageError(f"{shown!r} is larger than {MAX_SCRIPT_BYTES} bytes: no training script")
    if not data.strip():
        raise UsageError(f"the script {shown!r} is empty: there is nothing to draft from")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a string is the script's business
            return ast.parse(data)
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise UsageError(
            f"{shown}{line}: no Python that can be read: {error.msg}",
            remedy=f"python -m py_compile {shown}",
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{shown} cannot be read as Python: {error}") from error


def draft_of(
    tree: ast.Module,
    script: str,
    words: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    path: str,
) -> Draft:
    """The facts of a draft. Reads the files that the script names, and writes nothing."""
    facts = script_facts(tree, script, words)
    places = Places(_base_folder(facts, script, cwd), os.path.dirname(path))
    settings, texts, loads = _with_configs(facts, places)
    inputs = found_inputs(facts, texts, loads, places)
    missing: list[tuple[str, str]] = []
    steps, steps_source = _steps(settings, missing)
    seed, seed_source = _seed(settings, missing)
    output, output_source = _output(settings, places, missing)
    # What an earlier run left there is no input of the next one.
    inputs = [one for one in inputs if not _is_below(one.path, output)]
    command = _command(facts, script, words, places.base, missing)
    if not inputs:
        reason = "no file of this script that is there, and no Hub name in its text"
        missing.append(("inputs", reason))
    memory = _memory()
    required, optional = _secrets(facts, environ)
    cases, inputs = _cases(inputs, places.trial)
    return Draft(
        script=os.path.basename(script),
        name=_name(script),
        command=command,
        max_steps=steps,
        memory=memory,
        sources={
            "max_steps": steps_source,
            "memory": f"{AD_HOC_MEMORY_SHARE:.0%} of this machine, rounded down",
            "seed": seed_source,
            "output": output_source,
        },
        seed=seed,
        cwd=None if places.base == places.trial else os.path.relpath(places.base, places.trial),
        inputs=tuple(inputs),
        output_dir=output,
        hub=_text(settings, "hub_model_id"),
        private=_private(settings),
        secrets=required,
        optional_secrets=optional,
        heldout_cases=cases,
        metrics=_metrics(facts, settings),
        not_found=tuple(missing),
    )


def _base_folder(facts: ScriptFacts, script: str, cwd: str) -> str:
    """The folder from which most of the script's relative paths are there: its own, or ours."""
    own = os.path.dirname(script)
    cwd = os.path.realpath(cwd)
    texts = {
        said.value
        for said in facts.texts
        if "/" in said.value or "." in os.path.basename(said.value)
    }
    texts = {text for text in texts if not os.path.isabs(text) and "\0" not in text}

    def count(folder: str) -> int:
        return sum(os.path.exists(os.path.join(folder, text)) for text in texts)

    return cwd if count(cwd) > count(own) and script.startswith(cwd + os.sep) else own


def _with_configs(
    facts: ScriptFacts, places: Places
) -> tuple[dict[str, Said], list[Said], list[HubUse]]:
    """Settings with those of the configuration files that are named, and their texts and loads."""
    settings = dict(facts.settings)
    texts: list[Said] = []
    loads: list[HubUse] = []
    named = [said.value for said in facts.texts] + [
        value for value in facts.given.values() if isinstance(value, str)
    ]
    for name in dict.fromkeys(named):
        path = places.absolute(name)
        if "\0" in path or not name.lower().endswith(SUFFIXES) or role_of(path) is not None:
            continue
        table = read_config(path)
        loads += hub_named(table, f"in {name}")
        for key, value in table.items():
            said = Said(value, 0, f"{key} in {name}")
            if isinstance(value, str):
                texts.append(said)
            for wanted in {wanted for wanted, names in ALIASES.items() if key in names} | {key}:
                held = settings.get(wanted)
                if held is None or held.value is UNKNOWN:
                    settings[wanted] = said
    return settings, texts, loads


def _steps(settings: Mapping[str, Said], missing: list[tuple[str, str]]) -> tuple[int, str]:
    said = settings.get("max_steps")
    value = None if said is None else said.value
    if isinstance(value, int) and not isinstance(value, bool) and value > 0 and said is not None:
        if value <= MAX_PLANNED_STEPS:
            return value, said.where
        return AD_HOC_MAX_STEPS, f"the script plans {value} ({said.where}); capped for a smoke"
    reason = (
        "no step count in the script"
        if said is None
        else f"{said.where} does not tell it ({'computed' if value is UNKNOWN else repr(value)})"
    )
    epochs = settings.get("num_train_epochs")
    if epochs is not None and isinstance(epochs.value, (int, float)):
        reason += f"; it counts epochs ({epochs.value}, {epochs.where})"
    missing.append(("max_steps", f"{reason}; {AD_HOC_MAX_STEPS} is the default of any run"))
    return AD_HOC_MAX_STEPS, "the default of a run without a trial"


def _seed(settings: Mapping[str, Said], missing: list[tuple[str, str]]) -> tuple[int | None, str]:
    said = settings.get("seed")
    value = None if said is None else said.value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_SEED:
        return value, "" if said is None else said.where
    reason = "the script sets none" if said is None else f"{said.where} does not tell it"
    missing.append(("seed", f"{reason}; a trial without one has the seed 17"))
    return None, ""


def _is_below(path: str | None, folder: str | None) -> bool:
    if path is None or folder is None:
        return False
    return os.path.normpath(path).startswith(os.path.normpath(folder) + os.sep)


def _output(
    settings: Mapping[str, Said], places: Places, missing: list[tuple[str, str]]
) -> tuple[str | None, str]:
    said = settings.get("output_dir")
    if said is not None and isinstance(said.value, str) and said.value.strip():
        written = places.written(places.absolute(said.value))
        try:
            toml_string(written)
        except ValueError as error:
            missing.append(("output.dir", f"{said.where}: {error}"))
            return None, ""
        return written, said.where
    reason = "no output_dir in the script" if said is None else f"{said.where} computes it"
    missing.append(("output.dir", reason))
    return None, ""


def _command(
    facts: ScriptFacts,
    script: str,
    words: Sequence[str],
    base: str,
    missing: list[tuple[str, str]],
) -> tuple[str, ...]:
    command = ["python", os.path.relpath(script, base), *words]
    for option in facts.options:
        if option.required and option.name not in facts.given:
            flag = option.flags[-1] if option.flags else option.name
            hint = f" (one of {', '.join(option.choices[:8])})" if option.choices else ""
            command += [*option.flags[-1:], f"<{option.name}>"]
            missing.append(
                (f"argument {flag}", f"required, line {option.line}{hint}: replace <{option.name}>")
            )
    for word in command:
        try:
            toml_string(word)
        except ValueError as error:
            shown = word.encode("utf-8", "backslashreplace").decode()
            raise UsageError(
                f"{shown!r} cannot stand in a trial file: {error}", remedy="rename it"
            ) from error
        if "\0" in word:
            raise UsageError("an argument holds a NUL byte; no program can be given that")
    return tuple(command)


def _memory() -> str | None:
    share = int(memory_bytes() * AD_HOC_MEMORY_SHARE)
    if share >= 2**30:
        return f"{share // 2**30}GiB"
    return f"{share // 2**20}MiB" if share >= 2**20 else None


def _secrets(
    facts: ScriptFacts, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Secret variables that the script reads: those it needs or that are set, and the others."""
    names = {name: False for name, _, _ in facts.secrets if looks_secret_name(name)}
    for name, needed, _ in facts.secrets:
        if name in names and name.isidentifier() and name.isascii():
            names[name] = names[name] or needed or name in environ
    usable = {name: held for name, held in names.items() if name.isidentifier() and name.isascii()}
    return (
        tuple(name for name, held in usable.items() if held),
        tuple(name for name, held in usable.items() if not held),
    )


def _text(settings: Mapping[str, Said], key: str) -> str | None:
    said = settings.get(key)
    if said is None or not isinstance(said.value, str) or not said.value.strip():
        return None
    try:
        toml_string(said.value)
    except ValueError:
        return None
    return said.value if "\0" not in said.value else None


def _private(settings: Mapping[str, Said]) -> bool | None:
    said = settings.get("hub_private_repo")
    return said.value if said is not None and isinstance(said.value, bool) else None


def _cases(inputs: list[DraftInput], folder: str) -> tuple[str | None, list[DraftInput]]:
    """A file of held-out cases becomes ``[heldout]``; it is then no input of its own."""
    for entry in inputs:
        if (
            entry.role == "heldout"
            and entry.path is not None
            and is_case_file(os.path.join(folder, entry.path))
        ):
            return entry.path, [other for other in inputs if other is not entry]
    return None, [
        replace(entry, source=f"{entry.source}; no held-out cases with an id in it")
        if entry.role == "heldout" and entry.path is not None
        else entry
        for entry in inputs
    ]


def _metrics(facts: ScriptFacts, settings: Mapping[str, Said]) -> tuple[str, ...]:
    names = [said.value for said in facts.metrics]
    best = settings.get("metric_for_best_model")
    if best is not None and isinstance(best.value, str):
        names.insert(0, best.value if best.value.startswith("eval_") else f"eval_{best.value}")
    kept = [name for name in dict.fromkeys(names) if name.strip() and name.isprintable()]
    return tuple(kept[:4])


def _name(script: str) -> str:
    stem = os.path.splitext(os.path.basename(script))[0]
    folder = os.path.basename(os.path.dirname(script))
    generic = ("train", "main", "run", "finetune", "sft", "trainer", "__main__")
    name = folder if stem.lower() in generic and folder else stem
    return "".join(
        char if char.isprintable() and not 0xD800 <= ord(char) <= 0xDFFF else "-" for char in name
    )


def _check_text(text: str) -> None:
    """A draft that we could not read ourselves is a fault of ours, and is not written."""
    import tomllib
    from pydantic import ValidationError

    from seatrial.readers.trial_model import trial_model

    try:
        trial_model().model_validate(tomllib.loads(text))
    except (ValueError, ValidationError) as error:
        raise InternalError(f"the draft would not be a trial: {error}") from error


def _write(path: str, text: str, *, force: bool) -> None:
    from seatrial.store.atomic import create_exclusive, write_text

    if force:
        write_text(path, text)
    elif not create_exclusive(path, text.encode("utf-8")):
        raise UsageError(f"{path} is there already", remedy="--force to replace it")


def _found(draft: Draft) -> dict[str, Any]:
    """What stands in the file, as plain JSON values."""
    found: dict[str, Any] = {
        "name": draft.name,
        "command": list(draft.command),
        "bounds": {"max_steps": draft.max_steps, "wall": "15m", "memory": draft.memory},
        "inputs": [
            {key: value for key, value in vars(entry).items() if value is not None}
            for entry in draft.inputs
        ],
        "seed": draft.seed,
        "output": {"dir": draft.output_dir, "hub": draft.hub, "private": draft.private},
        "secrets": list(draft.secrets),
        "heldout": draft.heldout_cases,
    }
    return {key: value for key, value in found.items() if value not in (None, [], {})}
