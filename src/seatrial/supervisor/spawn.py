"""Starting the runner: its own session, closed stdin, the probe's bootstrap first on the path."""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import dataclass
from typing import Dict, Mapping, Optional, Sequence, Tuple

from seatrial.core.errors import SeatrialError
from seatrial.core.plan import Plan
from seatrial.core.redaction import Redactor, looks_secret_name
from seatrial.supervisor.kernel import die_with_parent
from seatrial.supervisor.tree import start_ticks_of


class SpawnError(SeatrialError):
    """The runner could not be started; ``code`` is the name of the errno, ``file`` the culprit."""

    def __init__(self, message: str, remedy: str, code: str, file: str) -> None:
        super().__init__(message, remedy)
        self.code = code
        self.file = file


@dataclass(frozen=True)
class Runner:
    """The started runner. ``stdout`` and ``stderr`` are descriptors to read from."""

    pid: int
    start_ticks: Optional[int]
    stdout: int
    stderr: int


def bootstrap_folder() -> str:
    """The folder whose ``sitecustomize`` loads the probe."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.join(package, "probe", "bootstrap")


def secret_names(plan: Plan, env: Mapping[str, str]) -> Tuple[str, ...]:
    """Variables whose values are secret: declared by the trial, or by the look of their name."""
    runner = (plan.trial or {}).get("runner")
    declared = runner.get("secrets", ()) if isinstance(runner, Mapping) else ()
    named = {name for name in env if looks_secret_name(name)}
    return tuple(sorted(named | {str(name) for name in declared if name in env}))


def runner_variables(plan: Plan, env: Mapping[str, str], deadline: float) -> Dict[str, str]:
    """The runner's whole environment: what was given, and what the probe needs.

    Args:
        plan: of the run.
        env: as the terminal gave it.
        deadline: monotonic seconds.
    """
    path = bootstrap_folder()
    if env.get("PYTHONPATH"):
        path += os.pathsep + env["PYTHONPATH"]
    return {
        **env,
        "PYTHONPATH": path,
        "SEATRIAL_RECORD": plan.record,
        "SEATRIAL_RUN_ID": plan.run_id,
        "SEATRIAL_MAX_STEPS": str(plan.max_steps),
        "SEATRIAL_DEADLINE": repr(deadline),
        "SEATRIAL_SECRET_NAMES": ",".join(secret_names(plan, env)),
    }


def spawn_runner(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, redactor: Redactor
) -> Runner:
    """Start the runner.

    Args:
        argv: the real command line.
        env: the whole environment, see ``runner_variables``.
        cwd: absolute working directory.
        redactor: takes secrets out of the error's text.

    Raises:
        SpawnError: the program could not be started; nothing runs.
    """
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=cwd,
            env=dict(env),
            close_fds=True,
            start_new_session=True,
            preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509 - no thread runs yet
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise _explained(error, argv, env, cwd, redactor) from None
    if child.stdout is None or child.stderr is None:  # cannot be: both are pipes
        raise SpawnError("the runner has no output pipes", "", "EPIPE", argv[0])
    stdout, stderr = os.dup(child.stdout.fileno()), os.dup(child.stderr.fileno())
    child.stdout.close()
    child.stderr.close()
    ticks = start_ticks_of(child.pid)
    # Dead children are collected in one place, by waitpid(-1); Popen must not do it again.
    child.returncode = 0
    return Runner(child.pid, ticks, stdout, stderr)


def _explained(
    error: Exception, argv: Sequence[str], env: Mapping[str, str], cwd: str, redactor: Redactor
) -> SpawnError:
    """What went wrong, where, and what to type next."""
    program = redactor.text(argv[0])
    if not isinstance(error, OSError):
        return SpawnError(
            f"the command cannot be started: {redactor.text(str(error))}",
            "take the zero byte out of the command or its environment",
            "EINVAL",
            program,
        )
    code = errno.errorcode.get(error.errno or 0, str(error.errno))
    reason = error.strerror or str(error)
    if not os.path.isdir(cwd):
        return SpawnError(
            f"the working directory {cwd!r} cannot be entered: {reason} ({code})",
            f"create it or start elsewhere: ls -ld {cwd!r}",
            code,
            cwd,
        )
    where = f"{program!r} (looked for on PATH)" if "/" not in argv[0] else repr(program)
    return SpawnError(
        f"cannot start {where}: {reason} ({code}); working directory {cwd!r}",
        _remedy(code, program, argv[0], env),
        code,
        program,
    )


def _remedy(code: str, shown: str, program: str, env: Mapping[str, str]) -> str:
    if code == "ENOENT" and "/" in program and os.path.exists(program):
        return f"the interpreter in its first line does not exist: head -1 {shown!r}"
    if code == "ENOENT":
        if "/" in program:
            return f"check the path: ls -l {shown!r}"
        return f"install it, or write its full path; PATH is {env.get('PATH', 'not set')}"
    return {
        "EACCES": f"make it executable (chmod +x {shown!r}) or start it through its interpreter",
        "ENOEXEC": f"it is no program and has no #! line: start `python {shown}` or `sh {shown}`",
        "EAGAIN": "no more processes are allowed: see `ulimit -u`, end others, try again",
        "ENOMEM": "the machine has no memory left for another process: see `free -h`",
        "E2BIG": "command line and environment are too long together: pass a file instead",
        "ENOTDIR": f"a part of the path is no folder: ls -l {shown!r}",
        "EISDIR": f"it is a folder: name the program inside {shown!r}",
    }.get(code, f"try the command itself: {shown}")
