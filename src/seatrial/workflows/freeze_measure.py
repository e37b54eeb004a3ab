"""What a lock of a trial would say now: every file read, every Hub name looked up."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seatrial import hub
from seatrial.core.errors import UsageError
from seatrial.core.lock import Lock, hash_of, terms_of
from seatrial.core.redaction import Redactor, from_environment
from seatrial.core.trial import InputSpec, Trial
from seatrial.process.child import run_child
from seatrial.readers.case_file import CaseFile, read_cases
from seatrial.readers.digests import Digest, DigestJob, digest_files
from seatrial.readers.input_files import Listed, has_rows, is_empty_json, list_input
from seatrial.readers.lock_file import lock_path
from seatrial.readers.run_context import context_of, runner_env_for_reading
from seatrial.readers.runner_files import RunnerFiles, judge_files, runner_files

_DATA_ROLES = ("train", "validation", "heldout")
# A file, and whether its rows are looked at.
_Key = tuple[str, bool]


@dataclass
class Measuring:
    """What is known while a trial is measured.

    Attributes:
        pinned: a lock whose Hub revisions are kept where the same thing is asked for.
        tolerant: put what is wrong with a file into its entry, for a comparison, instead of
            raising it.
    """

    trial: Trial
    environ: Mapping[str, str]
    say: Callable[[str], None]
    pinned: Lock | None = None
    tolerant: bool = False
    folder: str = ""
    jobs: dict[_Key, DigestJob] = field(default_factory=dict)
    digests: dict[_Key, Digest | UsageError] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    unparsed: dict[str, Any] = field(default_factory=dict)

    def placed(self, path: str) -> str:
        """A path as the lock writes it: relative where it is inside the trial's folder."""
        relative = os.path.relpath(path, self.folder)
        return path if relative == ".." or relative.startswith("../") else relative

    def want(self, path: str, label: str, *, rows: bool = False) -> _Key:
        """Ask for the digest of a file; the same file is read once."""
        key = (path, rows)
        if (path, True) in self.jobs:
            return (path, True)
        self.jobs.setdefault(key, DigestJob(path, label, rows))
        return key

    def read(self) -> None:
        """Read all files that were asked for.

        Raises:
            UsageError: see ``digest_files``.
        """
        keys = list(self.jobs)
        jobs = [self.jobs[key] for key in keys]
        found = digest_files(jobs, self.say, keep_going=self.tolerant)
        self.digests = dict(zip(keys, found, strict=True))

    def digest(self, key: _Key) -> dict[str, Any]:
        """Hash and size of a file as an entry holds them, or what is wrong with it."""
        found = self.digests[key]
        if isinstance(found, UsageError):
            return {"error": found.message}
        return {"sha256": found.sha256, "bytes": found.size}


def measure(
    trial: Trial,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    *,
    pinned: Lock | None = None,
    tolerant: bool = False,
    context: bool = True,
) -> Lock:
    """The lock that the trial would get now, without a moment and without ancestors.

    Args:
        trial: read from its file.
        environ: environment of the person.
        say: told about progress.
        pinned: see ``Measuring``.
        tolerant: see ``Measuring``.
        context: whether commit, packages and machine are looked at.

    Raises:
        UsageError: an input cannot be frozen as it is (never when ``tolerant``, but for what is
            wrong with the trial itself).
    """
    if trial.file is None:
        raise UsageError("only a trial file can be frozen", remedy="seatrial init train.py")
    work = Measuring(
        trial, environ, say, pinned, tolerant, folder=os.path.dirname(os.path.realpath(trial.file))
    )
    listed = [_listed(work, spec) for spec in trial.inputs]
    cases = _cases(work)
    env = runner_env_for_reading(trial, environ)
    runner = runner_files(trial, env, _apart(work))
    judges = _judges(work, env)
    keys = {path: work.want(path, f"runner file {work.placed(path)}") for path in runner.files}
    judge_keys = {path: work.want(path, f"held-out file {work.placed(path)}") for path in judges}
    prompt = None
    if trial.heldout is not None and trial.heldout.prompt is not None:
        prompt = _file(work, trial.heldout.prompt, "heldout.prompt")
    work.read()
    inputs = tuple(
        _input(work, spec, found) for spec, found in zip(trial.inputs, listed, strict=True)
    )
    redactor = from_environment(environ, trial.runner.secrets, trial.runner.command)
    judged = {path: work.digest(key) for path, key in judge_keys.items()}
    return Lock(
        inputs=inputs,
        heldout=_heldout(work, cases, prompt, judges, judged),
        runner=_runner(
            work, runner, {path: work.digest(key) for path, key in keys.items()}, redactor
        ),
        terms=terms_of(
            # By shape alone, so that a lock is the same whatever variables are set.
            replace(trial, hypothesis=from_environment({}, (), ()).text(trial.hypothesis)),
            work.placed,
            [sha for _, sha in cases.hashes()] if isinstance(cases, CaseFile) else None,
            _judge_hashes(work, prompt, judges, judged),
        ),
        context=_context(work, runner, redactor) if context else None,
    )


def _label(work: Measuring, spec: InputSpec) -> str:
    return f"input {spec.id!r} ({work.placed(str(spec.path))})"


def _listed(work: Measuring, spec: InputSpec) -> Listed | UsageError | None:
    """The files of an input, which will be read; None for one on the Hub."""
    if spec.path is None:
        return None
    label = _label(work, spec)
    try:
        found = list_input(spec.path, label)
        if found.is_folder:
            _refuse_around(work, spec, label)
    except UsageError as error:
        if work.tolerant:
            return error
        raise
    work.links.update(found.links)
    for name, path in found.files.items():
        shown = f"{label}: {name}" if name else label
        work.want(path, shown, rows=has_rows(path) and spec.role in _DATA_ROLES)
    return found


def _refuse_around(work: Measuring, spec: InputSpec, label: str) -> None:
    """A folder that holds the lock, or what the run writes, would drift by itself.

    Raises:
        UsageError: it does.
    """
    real = os.path.realpath(str(spec.path))
    inner = {"the trial itself": work.folder, "output.dir": work.trial.output.dir}
    for name, path in inner.items():
        if path is not None and f"{os.path.realpath(path)}{os.sep}".startswith(real + os.sep):
            raise UsageError(
                f"{label} is a folder that holds {name}: it changes with every run",
                remedy="name the folder or file of the data alone",
            )


def _input(work: Measuring, spec: InputSpec, found: Listed | UsageError | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": spec.id, "role": spec.role}
    if spec.split is not None:
        entry["split"] = spec.split
    if spec.path is None:
        return entry | _hub(work, spec)
    entry["path"] = work.placed(spec.path)
    if isinstance(found, UsageError) or found is None:
        return entry | {"error": found.message if found is not None else "it was not looked at"}
    if not found.is_folder:
        entry |= {"kind": "file"} | _content(work, spec, spec.path)
    else:
        files = [
            {"path": name} | _content(work, spec, path, name) for name, path in found.files.items()
        ]
        size = sum(file.get("bytes", 0) for file in files)
        entry |= {"kind": "folder", "files": files, "bytes": size, "sha256": hash_of(files)}
    nothing = 0 in (entry.get("bytes"), entry.get("rows")) or is_empty_json(spec.path)
    if spec.role in _DATA_ROLES and nothing:
        message = f"{_label(work, spec)} is empty: there is no row in it"
        if not work.tolerant:
            raise UsageError(message, remedy=f"look at what made it: ls -l {spec.path}")
        entry["error"] = message
    return entry


def _content(work: Measuring, spec: InputSpec, path: str, name: str = "") -> dict[str, Any]:
    """Hash, size and rows of one file of an input."""
    key = (path, True) if (path, True) in work.digests else (path, False)
    found = work.digests[key]
    entry = work.digest(key)
    if not isinstance(found, Digest) or found.rows is None:
        return entry
    if not (has_rows(path) and spec.role in _DATA_ROLES):
        return entry
    if found.unparsed:
        place = f"{spec.id}/{name}" if name else spec.id
        work.unparsed[place] = {"rows": found.unparsed, "long_lines": list(found.long_lines)}
    return entry | {"rows": found.rows}


def _hub(work: Measuring, spec: InputSpec) -> dict[str, Any]:
    """The commit of a Hub input: pinned before, written in the trial, or looked up."""
    entry: dict[str, Any] = {"kind": "hub", "hub": spec.hub, "asked": spec.revision}
    kept = _pin(work.pinned, spec)
    if kept is not None and not hub.is_commit(spec.revision):
        return entry | kept
    if work.tolerant and not hub.is_commit(spec.revision):
        return entry  # another name than the one that was frozen: that is answer enough
    try:
        pin = hub.resolve(str(spec.hub), hub.types_of_role(spec.role), spec.revision, work.environ)
    except UsageError as error:
        raise UsageError(f"input {spec.id!r}: {error.message}", remedy=error.remedy) from error
    return entry | {"repo_type": pin.repo_type, "revision": pin.revision}


def _pin(lock: Lock | None, spec: InputSpec) -> dict[str, Any] | None:
    for entry in lock.inputs if lock is not None else ():
        same = (entry.get("id"), entry.get("hub"), entry.get("asked"))
        if same == (spec.id, spec.hub, spec.revision) and entry.get("role") == spec.role:
            revision, repo_type = entry.get("revision"), entry.get("repo_type")
            if isinstance(revision, str) and hub.is_commit(revision):
                return {"repo_type": repo_type, "revision": revision}
    return None


def _cases(work: Measuring) -> CaseFile | UsageError | None:
    heldout = work.trial.heldout
    if heldout is None:
        return None
    label = f"heldout.cases ({work.placed(heldout.cases)})"
    try:
        list_input(heldout.cases, label)
        return read_cases(heldout.cases, label)
    except UsageError as error:
        if work.tolerant:
            return error
        raise


def _file(work: Measuring, path: str, name: str) -> _Key:
    """Ask for the digest of a single file that the trial names."""
    label = f"{name} ({work.placed(path)})"
    try:
        found = list_input(path, label)
        if found.is_folder:
            raise UsageError(f"{label} is a folder, no file", remedy="name a file in it")
        work.links.update(found.links)
    except UsageError:
        if not work.tolerant:
            raise
    return work.want(path, label)


def _judges(work: Measuring, env: Mapping[str, str]) -> dict[str, list[str]]:
    """Files of validator, normalizer and loader, each with the names of those that need it."""
    heldout = work.trial.heldout
    found: dict[str, list[str]] = {}
    if heldout is None:
        return found
    for name in ("validator", "normalize", "loader"):
        told = getattr(heldout, name)
        if told is None:
            continue
        path = told.rpartition(":")[0]
        _file(work, path, f"heldout.{name}")
        for file in dict.fromkeys([os.path.realpath(path), *judge_files(path, env)]):
            found.setdefault(file, []).append(name)
    return found


def _judge_hashes(
    work: Measuring,
    prompt: _Key | None,
    judges: Mapping[str, Sequence[str]],
    judged: Mapping[str, Mapping[str, Any]],
) -> dict[str, str]:
    """One hash for each part that decides what counts as right."""
    found = {}
    for name in ("validator", "normalize", "loader"):
        told = getattr(work.trial.heldout, name, None)
        if told is not None:
            files = {
                work.placed(path): judged[path].get("sha256")
                for path, names in judges.items()
                if name in names
            }
            found[name] = hash_of([told.rpartition(":")[2], sorted(files.items())])
    if prompt is not None:
        found["prompt"] = str(work.digest(prompt).get("sha256"))
    return found


def _heldout(
    work: Measuring,
    cases: CaseFile | UsageError | None,
    prompt: _Key | None,
    judges: Mapping[str, Sequence[str]],
    judged: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any] | None:
    heldout = work.trial.heldout
    if heldout is None or cases is None:
        return None
    cases_file: dict[str, Any] = {"path": work.placed(heldout.cases)}
    listed = []
    if isinstance(cases, CaseFile):
        cases_file |= {"sha256": cases.sha256, "bytes": cases.size, "count": len(cases.cases)}
        shapes = from_environment({}, (), ())
        listed = [{"id": shapes.text(name), "sha256": sha} for name, sha in cases.hashes()]
    else:
        cases_file["error"] = cases.message
    entry: dict[str, Any] = {"cases_file": cases_file, "cases": listed, "prompt": None}
    if prompt is not None:
        entry["prompt"] = {"path": work.placed(prompt[0])} | work.digest(prompt)
    for name in ("validator", "normalize", "loader"):
        told = getattr(heldout, name)
        path, _, function = (told or "").rpartition(":")
        entry[name] = None if told is None else f"{work.placed(path)}:{function}"
    entry["files"] = [
        {"path": work.placed(path), "what": " and ".join(judges[path])} | dict(judged[path])
        for path in sorted(judges)
    ]
    return entry


def _apart(work: Measuring) -> list[str]:
    """What is frozen as something else, and what the run or we write."""
    trial = work.trial
    paths = [spec.path for spec in trial.inputs] + [trial.output.dir]
    if trial.heldout is not None:
        paths += [trial.heldout.cases, trial.heldout.prompt]
    paths += [trial.file, lock_path(str(trial.file)), os.path.join(work.folder, ".seatrial")]
    return [path for path in paths if path is not None]


def _runner(
    work: Measuring,
    found: RunnerFiles,
    digests: Mapping[str, Mapping[str, Any]],
    redactor: Redactor,
) -> dict[str, Any]:
    trial = work.trial
    files = [
        {"path": work.placed(path), "what": what} | dict(digests[path])
        for path, what in found.files.items()
    ]
    return {
        "command": list(redactor.argv(trial.runner.command)),
        "dry_run": list(redactor.argv(trial.runner.dry_run)),
        "resume": list(redactor.argv(trial.resume_command)),
        "cwd": work.placed(trial.runner.cwd or work.folder),
        "env": redactor.value(dict(trial.runner.env)),
        "secrets": sorted(trial.runner.secrets),
        "script": None if found.script is None else work.placed(found.script),
        "files": sorted(files, key=lambda file: str(file["path"])),
    }


def _context(work: Measuring, runner: RunnerFiles, redactor: Redactor) -> dict[str, Any]:
    told = context_of(
        work.trial, work.folder, lock_path(str(work.trial.file)), work.environ, run_child
    )
    packages = told.pop("packages")
    context: dict[str, Any] = redactor.value(told)
    return context | {
        "packages": packages,
        "links": {work.placed(link): work.placed(real) for link, real in work.links.items()},
        "rows_not_parsed": work.unparsed,
        "runner_not_followed": list(runner.open_points),
    }
