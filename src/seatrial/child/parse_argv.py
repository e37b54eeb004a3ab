"""Runs a training script up to its own argument parsing, reports what came out, and leaves.

Run as a file by the interpreter of the runner. stdin: ``{"script": path or null, "module": dotted
name or null, "args": [word], "path0": folder, "project": folder}``. What the script prints goes to
stderr; the answer is one line of JSON on the stdout that this program was given:

``{"outcome": "parsed" | "refused" | "left" | "raised" | "wrote" | "no_parse", ...}``.

Nothing after the first parse runs: the process is gone before it returns. A script that writes
into its project before it parses is stopped there.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import sys
import traceback
from typing import Any, Dict, List, NoReturn, Optional, Set, Tuple

_MAX_TEXT = 300
_MAX_VALUES = 400
_PATIENCE_S = 15.0
_PARSER_FILES = ("argparse.py", "hf_argparser.py", os.path.join("trl", "scripts", "utils.py"))
_answer_to = -1
_request: Dict[str, Any] = {}


class _Refused(BaseException):
    """The parser called ``error`` or ``exit``; not an ``Exception``, so that nobody swallows it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


def answer(outcome: str, **rest: Any) -> NoReturn:
    """Report, and end this process before anything else of the script can run."""
    value: Dict[str, Any] = {"outcome": outcome}
    value.update(rest)
    data = (json.dumps(value) + "\n").encode("ascii")
    while data:
        data = data[os.write(_answer_to, data) :]
    os._exit(0)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."


def _plain(value: Any) -> Any:
    """A JSON value for numbers, texts and lists of them; a short text for the rest."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value[:50]]
    return _short(value if isinstance(value, str) else str(value))


def _is_of_project(file: str) -> bool:
    real = os.path.realpath(file)
    project: str = _request["project"]
    return real.startswith(project + os.sep) and "site-packages" not in real[len(project) :]


def _caller(depth: int) -> Tuple[str, int]:
    """File and line of the code that asked for the parse: the first frame outside of parsers."""
    frame: Any = sys._getframe(depth)  # noqa: SLF001 - the only way to see the caller
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.endswith(_PARSER_FILES) and file != __file__:
            return file, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _frames(depth: int) -> Dict[str, Any]:
    """What the parser methods of transformers and TRL were asked to do with what is left over."""
    frame: Any = sys._getframe(depth)  # noqa: SLF001 - as above
    said: Dict[str, Any] = {"drops": None, "config_left": [], "dataclasses": False}
    while frame is not None:
        name, values = frame.f_code.co_name, frame.f_locals
        if name == "parse_args_into_dataclasses" and said["drops"] is None:
            said["drops"] = bool(values.get("return_remaining_strings"))
            said["dataclasses"] = True
        if name == "parse_args_and_config":
            said["drops"] = bool(values.get("return_remaining_strings"))
            left = values.get("config_remaining_strings") or []
            said["config_left"] = [_short(word) for word in left[:50]]
            said["config_refuses"] = bool(values.get("fail_with_unknown_args", True))
        if name == "parse_args" and frame.f_code.co_filename.endswith("argparse.py"):
            said["drops"] = False
        frame = frame.f_back
    return said


def _parsers(parser: Any) -> List[Any]:
    """A parser and all its subparsers."""
    found = [parser]
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for sub in action.choices.values():
                found += _parsers(sub)
    return found


def _all_options(parser: Any) -> Set[str]:
    """Every option string that the parser and its subparsers know."""
    known: Set[str] = set()
    for one in _parsers(parser):
        known.update(one._option_string_actions)  # noqa: SLF001 - as above
    return known


def _abbreviated(parser: Any, words: List[str]) -> List[List[str]]:
    """Words that argparse completes to a longer option: ``[typed, meant]``."""
    known = _all_options(parser)
    found = []
    for word in words:
        if word == "--":
            break
        typed = word.partition("=")[0]
        if typed.startswith("--") and typed not in known and word not in known:
            meant = sorted(option for option in known if option.startswith(typed))
            if len(meant) == 1:
                found.append([typed, meant[0]])
    return found


def _confirmed(
    parser: Any, parse: Any, words: List[str], found: List[List[str]]
) -> List[List[str]]:
    """Those abbreviations that a parser without ``allow_abbrev`` really does not take."""
    if not found:
        return []
    for one in _parsers(parser):
        one.allow_abbrev = False
    try:
        _, left = parse(parser, list(words), None)
    except _Refused:
        return found
    except (Exception, SystemExit):  # noqa: BLE001 - a type function of the script's
        return []
    return [pair for pair in found if any(w.partition("=")[0] == pair[0] for w in left)]


def _report(
    parser: Any, parse: Any, words: List[str], caller: Tuple[str, int], said: Dict[str, Any]
) -> NoReturn:
    """Parse for real, and say what came out."""
    where = {"file": caller[0], "line": caller[1]}
    known = parser.__class__.__name__
    try:
        namespace, left = parse(parser, list(words), None)
    except _Refused as refusal:
        answer(refusal.kind, message=_short(refusal.text), parser=known, **where)
    except SystemExit as error:
        answer("left", message="exit code " + _short(str(error.code)), parser=known, **where)
    except Exception as error:  # noqa: BLE001 - a type function of the script's
        text = type(error).__name__ + ": " + str(error)
        answer("raised", message=_short(text), in_parser=True, **where)
    if left and said["drops"] is False:
        text = "unrecognized arguments: " + " ".join(left)
        answer("refused", message=_short(text), parser=known, **where)
    values = {
        str(key): _plain(value) for key, value in sorted(vars(namespace).items())[:_MAX_VALUES]
    }
    answer(
        "parsed",
        parser=known,
        left=[_short(word) for word in left[:50]],
        config_left=said["config_left"],
        config_refuses=said.get("config_refuses", False),
        abbreviated=_confirmed(parser, parse, words, _abbreviated(parser, words)),
        values=values,
        **where,
    )


def _leave_soon() -> None:
    """The command line was not parsed yet; wait a little for it, and not for a training."""

    def leave(_signal: int, _frame: Any) -> None:
        answer("no_parse", message="it parsed a list of its own and went on")

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S)


def _install() -> None:
    """Put ourselves between the script and ``argparse``."""
    kind: Any = argparse.ArgumentParser
    parse = kind.parse_known_args

    def parse_known_args(self: Any, args: Any = None, namespace: Any = None) -> Any:
        caller = _caller(2)
        given = sys.argv[1:] if args is None else list(args)
        if args is not None and given != sys.argv[1:] and not _is_of_project(caller[0]):
            return parse(self, args, namespace)  # a library parses something of its own
        said = _frames(2)
        if sys.argv[1:] and not said["dataclasses"] and not set(given) & set(sys.argv[1:]):
            _leave_soon()  # a list of the script's own, as in parse_args([]) for the defaults
            return parse(self, args, namespace)
        kind.parse_known_args = parse
        _report(self, parse, given, caller, said)

    def refuse(_self: Any, message: str) -> NoReturn:
        raise _Refused("refused", message)

    def leave(_self: Any, status: int = 0, message: Optional[str] = None) -> NoReturn:
        raise _Refused("left" if not status else "refused", message or "")

    kind.parse_known_args = parse_known_args
    kind.error = refuse
    kind.exit = leave


def _watch_writes() -> None:
    """Stop a script that writes into its own project before it parses its arguments."""
    flags = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

    def audit(event: str, args: Any) -> None:
        if event == "open":
            path, mode, opened = args
            writes = set(mode or "") & set("wax+") or (mode is None and (opened or 0) & flags)
        elif event in ("os.mkdir", "os.remove", "os.rename", "os.rmdir"):
            path, writes = args[0], True
        else:
            return
        if not writes or not isinstance(path, (str, bytes)):
            return
        name = os.path.realpath(os.fsdecode(path))
        if _is_of_project(name) and "__pycache__" not in name:
            answer("wrote", path=_short(name))

    sys.addaudithook(audit)


def _take_over() -> None:
    """Keep stdout for the answer; whatever the script prints goes to stderr."""
    global _answer_to, _request  # noqa: PLW0603 - one process, one request
    _request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    _request["project"] = os.path.realpath(_request["project"])
    _answer_to = os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        del sys.path[0]
    if _request["path0"] is not None:
        sys.path.insert(0, _request["path0"])


def _place(error: BaseException) -> Dict[str, Any]:
    """File and line of the project in which an exception was raised."""
    place: Dict[str, Any] = {"file": "", "line": 0}
    for frame in traceback.extract_tb(error.__traceback__):
        if _is_of_project(frame.filename):
            place = {"file": frame.filename, "line": frame.lineno or 0}
    return place


def main() -> None:
    """Run the script until it parses its arguments."""
    _take_over()
    _install()
    _watch_writes()
    sys.dont_write_bytecode = True
    try:
        if _request["module"] is not None:
            sys.argv = [_request["module"], *_request["args"]]
            runpy.run_module(_request["module"], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [_request["script"], *_request["args"]]
            runpy.run_path(_request["script"], run_name="__main__")
    except _Refused as refusal:  # a parser of the script's own, used in another way
        answer(refusal.kind, message=_short(refusal.text), parser="", file="", line=0)
    except SystemExit as error:
        code = error.code
        if code in (None, 0):
            answer("no_parse", message="it left with exit code 0")
        answer("raised", message="SystemExit: " + _short(str(code)), **_place(error))
    except BaseException as error:  # noqa: BLE001 - whatever the script raises is the answer
        text = type(error).__name__ + ": " + str(error)
        name = getattr(error, "name", None)
        missing = name if isinstance(error, ModuleNotFoundError) else None
        answer("raised", message=_short(text), missing=missing, **_place(error))
    answer("no_parse", message="it ran to its end")


if __name__ == "__main__":
    main()
