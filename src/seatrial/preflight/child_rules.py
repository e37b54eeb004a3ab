"""The rules that ask a child process, or read data files: one table, one call.

Without ``execute`` nothing of the user's runs: the children look modules up by name and render a
chat template in a sandbox. With it, the script runs up to its argument parser, and the trial's own
dry run is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seatrial.core.check_report import CheckReport
from seatrial.core.child import Ask
from seatrial.core.finding import Finding, NotJudged
from seatrial.core.redaction import from_environment
from seatrial.core.trial import Trial
from seatrial.preflight import argv_child, child_imports, hub_pins, labels, overlap
from seatrial.preflight.ask_child import Asked
from seatrial.preflight.dry_run import dry_run
from seatrial.preflight.runner_words import RunnerWords, runner_words
from seatrial.preflight.sft_facts import sft_facts

Judged = tuple[list[Finding], list[NotJudged]]
ARGUMENTS_TIMEOUT_S = 60.0
IMPORTS_TIMEOUT_S = 20.0
DEFAULT_MEMORY_BYTES = 4 * 2**30
# A script imports torch before it parses: a trial's bound may be smaller than that alone needs.
MIN_MEMORY_BYTES = 2**30


@dataclass
class ChildSubject:
    """What is judged.

    Attributes:
        script: path of the runner's script.
        source: its bytes, as they were read and hashed.
        tree: parsed; None when it is no Python.
        command: argv of the runner; the script stands in it.
        cwd: absolute working directory of the runner.
        env: environment of the runner (``core.runner_env``).
        ask: runs a capped child (``process.child.run_child``).
        trial: None for a script without one.
        locked: revision of Hub inputs by id, as the lock holds them.
        values: what the script's parser made of the command line; filled by the rule on that.
    """

    script: str
    source: bytes
    tree: ast.Module | None
    command: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    ask: Ask
    trial: Trial | None = None
    locked: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def words(self) -> RunnerWords:
        """The command taken apart."""
        return runner_words(self.command, self.cwd, self.env)

    def how(self, timeout_s: float) -> Asked | None:
        """How a child runs here; None when the interpreter is not known."""
        words = self.words
        if words.interpreter is None:
            return None
        memory = DEFAULT_MEMORY_BYTES
        if self.trial is not None:
            memory = max(MIN_MEMORY_BYTES, self.trial.bounds.memory_bytes)
        return Asked(words.interpreter, self.cwd, self.env, words.options, timeout_s, memory)


def imports(subject: ChildSubject) -> Judged:
    """Every module that the script and its local modules import is there for its interpreter.

    The interpreter of the command is asked, with the environment and the path that the run will
    have; nothing is imported. What is imported only under a condition is a warning, what the script
    is made to do without is a note.

    Why it costs: the run dies at the import, after queue, image and downloads were paid.

    What it cannot see: names that are imported by a computed text, and whether the module that is
    found can really be loaded.

    Remedy: install the module for the interpreter of the runner, at the version that was tested.

    Example: `import flash_attn` where only torch is installed.
    """
    code = "environment.imports"
    how = subject.how(IMPORTS_TIMEOUT_S)
    if subject.tree is None:
        return _open(code, "environment", "the script cannot be parsed")
    if how is None:
        return _open(code, "environment", _no_interpreter(subject))
    words = subject.words
    package = words.module.rpartition(".")[0] if words.module else ""
    start = child_imports.Module(subject.script, subject.tree, package)
    path0 = words.first_on_path(subject.cwd)
    return child_imports.missing_imports(start, subject.ask, how, path0, _project(subject, path0))


def arguments(subject: ChildSubject) -> Judged:
    """The exact command line fits the script's own parser.

    The script runs in a child up to its first ``parse_args`` (argparse, HfArgumentParser,
    TrlParser), which reports and leaves. Unknown flags are errors, flags that ``parse_known_args``
    swallows as well, abbreviations are warnings.

    Why it costs: a flag that is dropped trains something else than was meant, and says nothing.

    What it cannot see: scripts that parse with something else than argparse, or not at all. The
    script's own code up to its parser runs, so this is asked only with `--dry-run`.

    Remedy: write the flag as the script's `--help` names it.

    Example: `--learning-rte 1e-4` swallowed by `parse_known_args()`.
    """
    how = subject.how(ARGUMENTS_TIMEOUT_S)
    if how is None:
        return _open(argv_child.RULE, "environment", _no_interpreter(subject))
    words = subject.words
    if words.script is None and words.module is None:
        return _open(argv_child.RULE, "environment", "which script the command runs is not known")
    secrets = subject.trial.runner.secrets if subject.trial is not None else ()
    redactor = from_environment(subject.env, secrets, subject.command)
    findings, unjudged, values = argv_child.parsed_arguments(
        words, subject.source, subject.ask, how, redactor
    )
    subject.values = values
    return findings, unjudged


def label_rule(subject: ChildSubject) -> Judged:
    """Labels are where they are meant to be, with the end token inside.

    The frozen tokenizer and the first 64 rows of the frozen train file go the way that TRL's
    SFTTrainer sends them: empty masks, rows trained on as a whole, an end token without a label,
    answers lost to ``max_length``, a prompt that tokenizes differently, two start tokens, a
    template that raises or does not end.

    Why it costs: a model that learns its prompts, or never learns to stop, has a fine loss.

    What it cannot see: scripts that build their rows themselves or use a collator of their own, and
    trials that freeze no tokenizer.

    Remedy: the finding names the row and the setting.

    Example: `messages` rows without `assistant_only_loss`: the user's turns are learned, too.
    """
    if subject.tree is None:
        return _open(labels.RULE, "labels", "the script cannot be parsed")
    if subject.trial is None:
        return _open(labels.RULE, "labels", "no trial names a tokenizer and a train file")
    how = subject.how(labels.TIMEOUT_S)
    if how is None:
        return _open(labels.RULE, "labels", _no_interpreter(subject))
    facts = sft_facts(subject.tree, subject.values)
    return labels.label_findings(subject.trial, subject.script, facts, subject.ask, how)


def shared_rows(subject: ChildSubject) -> Judged:
    """No train or validation row asks what a held-out case asks.

    Compared are what is asked, exactly and without case, white space and system turns; a shared
    system turn or a shared answer alone is no overlap.

    Why it costs: a result on rows that were trained on says nothing.

    What it cannot see: rephrased rows, Parquet files and Hub data sets.

    Remedy: take the cases out of the training rows, or take other cases.

    Example: the held-out file is the last part of the training file.
    """
    if subject.trial is None:
        return _open("inputs.heldout_in_train", "inputs", "no trial names train and held-out files")
    return overlap.overlap(subject.trial)


def revisions(subject: ChildSubject) -> Judged:
    """Everything from the Hub is pinned to a commit that was looked up when it was frozen.

    Why it costs: a branch moves, and the next run trains on something else under the same name.

    What it cannot see: what the script itself loads beside the trial's inputs.

    Remedy: `seatrial freeze` looks the revision up and pins it.

    Example: `hub = "org/data"` without a revision, and no lock.
    """
    if subject.trial is None:
        return [], []
    return hub_pins.hub_pins(subject.trial, subject.locked)


def target(subject: ChildSubject) -> Judged:
    """The Hub target of the trial is private.

    Why it costs: what is published cannot be called back.

    What it cannot see: whether the repository is there already, and public.

    Remedy: write `private = true` under `[output]`.

    Example: `hub = "me/model"` with `private = false`.
    """
    return ([], []) if subject.trial is None else hub_pins.hub_target(subject.trial)


def own_dry_run(subject: ChildSubject) -> Judged:
    """The trial's ``[runner] dry_run`` ends with exit code 0 within its caps.

    At most 120 s or the trial's wall, and the trial's memory. A command that ends in ``-`` gets the
    bytes of the script that were hashed.

    Why it costs: what fails in a minute here fails in a paid hour there.

    What it cannot see: anything that the dry run leaves out.

    Remedy: run the command of the finding by hand; its last lines are in the evidence.

    Example: `dry_run = ["python", "train.py", "--dry-run"]` ends with exit code 1.
    """
    if subject.trial is None:
        return _open("environment.dry_run_failed", "environment", "no trial names a dry run")
    report = dry_run(subject.trial, subject.source, subject.env, subject.ask)
    return list(report.findings), list(report.not_judged)


@dataclass(frozen=True)
class ChildRule:
    """One rule: its code, whether it executes what is the user's, and the function."""

    code: str
    family: str
    executes: bool
    check: Callable[[ChildSubject], Judged]


# The arguments come first: what the script's parser says helps the rules behind it.
CHILD_RULES = (
    ChildRule(argv_child.RULE, "environment", True, arguments),
    ChildRule("environment.imports", "environment", False, imports),
    ChildRule(labels.RULE, "labels", False, label_rule),
    ChildRule("inputs.heldout_in_train", "inputs", False, shared_rows),
    ChildRule(hub_pins.PINS, "inputs", False, revisions),
    ChildRule(hub_pins.TARGET, "secrets", False, target),
    ChildRule("environment.dry_run_failed", "environment", True, own_dry_run),
)


def judge_by_children(subject: ChildSubject, *, execute: bool) -> CheckReport:
    """Apply the table.

    Args:
        subject: what is judged.
        execute: whether rules that run the user's code may do so (``--dry-run``).
    """
    findings: list[Finding] = []
    unjudged: list[NotJudged] = []
    for rule in CHILD_RULES:
        if rule.executes and not execute:
            reason = "it runs the script; seatrial preflight --dry-run does"
            unjudged.append(NotJudged(rule.code, rule.family, reason))
            continue
        found, left = rule.check(subject)
        findings += found
        unjudged += left
    return CheckReport("preflight", tuple(findings), tuple(unjudged))


def _open(code: str, family: str, reason: str) -> Judged:
    return [], [NotJudged(code, family, reason)]


def _no_interpreter(subject: ChildSubject) -> str:
    program = subject.command[0] if subject.command else "an empty command"
    return f"which interpreter {program!r} runs the script with is not known"


def _project(subject: ChildSubject, path0: str) -> str:
    """Modules below this folder are local: the working folder, or that of the script outside it."""
    inside = (path0 + "/").startswith(subject.cwd.rstrip("/") + "/")
    return subject.cwd if inside else path0
