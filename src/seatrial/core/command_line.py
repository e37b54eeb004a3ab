"""A command as typed: which interpreter, which script, which flags. Reads nothing."""

from __future__ import annotations

import re
from typing import FrozenSet, List, Optional, Sequence, Tuple


def _both_ways(names: str) -> FrozenSet[str]:
    """Options that may be written with dashes or with underscores inside."""
    words = names.split()
    return frozenset("--" + word for word in words) | frozenset(
        "--" + word.replace("-", "_") for word in words
    )


_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?t?(?:\.exe)?", re.IGNORECASE)
_PYTHON_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
# -I and -E ignore PYTHONPATH, -S does not load sitecustomize: the probe's bootstrap needs both.
_ISOLATING = frozenset("IES")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_SHELL_WITH_VALUE = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
# Options of launchers that stand alone; every other option takes the next word (or has "=").
_TORCHRUN_ALONE = _both_ways("standalone no-python run-path help") | {"-h"}
_ACCELERATE_ALONE = _both_ways(
    "cpu multi-gpu tpu ipex use-xpu use-deepspeed use-fsdp use-megatron-lm use-parallelism-config "
    "module no-python same-network quiet debug tpu-cluster no-tpu-cluster tpu-use-sudo "
    "use-mps-device enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic "
    "dynamo-use-regional-compilation help"
) | {"-h", "-q", "-m"}
_NOT_A_SCRIPT = frozenset({"--module", "-m", "--no-python", "--no_python", "--run-path"})


def _base(word: str) -> str:
    return word.replace("\\", "/").rpartition("/")[2]


def is_python(word: str) -> bool:
    """Whether a program name is a Python interpreter: ``python``, ``/x/python3.12``, ``pypy3``."""
    return _PYTHON.fullmatch(_base(word)) is not None


def _python_parts(argv: Sequence[str]) -> Tuple[Tuple[str, ...], Optional[str]]:
    """Options of an interpreter's command, and the script (None for -m, -c, - or nothing)."""
    options: List[str] = []
    index = 1
    while index < len(argv):
        word = argv[index]
        if word == "-" or not word.startswith("-"):
            return tuple(options), (None if word == "-" else word)
        options.append(word)
        if word in _PYTHON_WITH_VALUE:
            index += 2
            continue
        if not word.startswith("--"):
            letters = word[1:]
            cut = min((letters.find(c) for c in "cmWX" if c in letters), default=-1)
            if cut >= 0 and letters[cut] in "cm":
                options[-1] = word[: cut + 2]
                return tuple(options), None
            if cut >= 0 and cut == len(letters) - 1:
                index += 1  # the value of -bW or -qX is the next word
        index += 1
    return tuple(options), None


def isolating_flag(argv: Sequence[str]) -> Optional[str]:
    """The interpreter's flag that keeps the probe out (``-I``, ``-E``, ``-S``), or None.

    Only a command that begins with the interpreter is looked at; what a launcher starts is not.
    """
    inner = _unwrapped(argv)
    if not inner or not is_python(inner[0]):
        return None
    for option in _python_parts(inner)[0]:
        if not option.startswith("--"):
            letters = re.split("[cmWX]", option[1:])[0]
            for letter in letters:
                if letter in _ISOLATING:
                    return "-" + letter
    return None


def has_isolated_flag(argv: Sequence[str]) -> bool:
    """Whether the interpreter is told to ignore ``PYTHONPATH`` or ``sitecustomize``."""
    return isolating_flag(argv) is not None


def script_of(argv: Sequence[str]) -> Optional[str]:
    """The script that a command runs, as it is written there; None when that is not certain.

    Understands interpreters, shells, ``torchrun``, ``accelerate launch`` and ``uv run`` in front of
    them. Anything else, and any option it does not know for sure, gives None.
    """
    inner = _unwrapped(argv)
    if not inner:
        return None
    name = _base(inner[0])
    if is_python(inner[0]):
        return _python_script(inner)
    if name in _SHELLS:
        return _after_options(inner[1:], frozenset(), _SHELL_WITH_VALUE, frozenset({"-c", "-s"}))
    if name == "torchrun":
        return _launched(inner[1:], _TORCHRUN_ALONE)
    if name == "accelerate" and len(inner) > 1 and inner[1] == "launch":
        return _launched(inner[2:], _ACCELERATE_ALONE)
    if name == "accelerate-launch":
        return _launched(inner[1:], _ACCELERATE_ALONE)
    return None


def _python_script(argv: Sequence[str]) -> Optional[str]:
    options, script = _python_parts(argv)
    if options and options[-1].endswith("m") and script is None:
        rest = _after_module(argv)
        if rest and rest[0] in ("torch.distributed.run", "torch.distributed.launch"):
            return _launched(rest[1:], _TORCHRUN_ALONE | {"--use-env", "--use_env"})
        if rest and rest[0] == "accelerate.commands.launch":
            return _launched(rest[1:], _ACCELERATE_ALONE)
    return script


def _after_module(argv: Sequence[str]) -> Sequence[str]:
    """Module name and what follows it, of ``python ... -m module ...``."""
    for index in range(1, len(argv)):
        word = argv[index]
        if word.startswith("-") and not word.startswith("--") and "m" in word:
            return argv[index + 1 :] if word.endswith("m") else ()
    return ()


def _unwrapped(argv: Sequence[str]) -> Sequence[str]:
    """The command behind ``uv run`` and ``env``, as far as that is certain."""
    inner = tuple(argv)
    while inner:
        name = _base(inner[0])
        if name == "uv" and inner[1:2] == ("run",):
            rest = inner[3:] if inner[2:3] == ("--",) else inner[2:]
            if not rest or rest[0].startswith("-"):
                return ()
            if rest[0].endswith(".py"):
                return ("python", *rest)
            inner = rest
        elif name == "env" and len(inner) > 1:
            rest = inner[1:]
            while rest and re.match(r"[A-Za-z_]\w*=", rest[0]):
                rest = rest[1:]
            if not rest or rest[0].startswith("-"):
                return ()
            inner = rest
        else:
            return inner
    return inner


def _launched(words: Sequence[str], alone: FrozenSet[str]) -> Optional[str]:
    """The first plain word behind a launcher's options; None when a module or program is meant."""
    if any(word in _NOT_A_SCRIPT for word in _options(words, alone)):
        return None
    found = _after_options(words, alone, None, frozenset())
    return found if found is not None and found.endswith(".py") else None


def _options(words: Sequence[str], alone: FrozenSet[str]) -> Sequence[str]:
    options = []
    index = 0
    while index < len(words) and words[index].startswith("-"):
        options.append(words[index])
        index += 1 if words[index] in (alone | {"-m"}) or "=" in words[index] else 2
    return options


def _after_options(
    words: Sequence[str],
    alone: FrozenSet[str],
    with_value: Optional[FrozenSet[str]],
    never: FrozenSet[str],
) -> Optional[str]:
    """First word that is no option and no option's value.

    ``with_value`` None: every option takes a value but those in ``alone``; else only those named.
    """
    index = 0
    while index < len(words):
        word = words[index]
        if word in never or word == "-":
            return None
        if word == "--":
            return words[index + 1] if index + 1 < len(words) else None
        if not word.startswith(("-", "+")):
            return word
        if with_value is None:
            index += 1 if word in alone or "=" in word else 2
        elif word in with_value:
            index += 2
        elif not word.startswith("--") and ("c" in word[1:] or "s" in word[1:]):
            return None  # bash -lc "...": a text, no script
        else:
            index += 1
    return None


def run_name(argv: Sequence[str]) -> str:
    """A short name for a run of that command: the script's, else the program's."""
    script = script_of(argv)
    word = script if script is not None else (argv[0] if argv else "run")
    name = _base(word.rstrip("/"))
    return (name[:-3] if name.endswith((".py", ".sh")) else name) or "run"
