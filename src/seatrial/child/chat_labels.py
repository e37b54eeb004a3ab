"""Says which tokens of the first training rows would get labels, as TRL's SFTTrainer makes them.

Run as a file by the interpreter of the runner. stdin: one JSON object with ``tokenizer`` (folder),
``rows`` (file), ``max_rows``, ``template`` (text or null: the tokenizer's own), ``eos_token``,
``assistant_only``, ``completion_only`` (true, false or null), ``max_length``, ``keep_end``,
``text_field``, ``template_seconds``, ``template_bytes``. stdout: one line of JSON with ``state``
(``judged``, or what was in the way), ``tokenizer``, and ``tally``: for each thing looked at, the
numbers of the rows that have it. Nothing is loaded but from that folder; a template runs in the
sandbox of transformers, under a cap of time and memory.

The way of a row to its labels follows TRL 1.16: a conversation goes through the chat template;
other rows get the end token and the tokenizer; a completion starts where the tokens of the prompt
and of the whole row part; with ``assistant_only`` the template's generation marks decide.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

_LINE_BYTES = 32 << 20
_ARRAY_BYTES = 64 << 20
_MARKERS = re.compile(r"\{%-?\s*generation\s*-?%\}")
_answer_to = 1
# Written before the first template is rendered: what ends us then is the template.
BEGAN = b'{"state": "began"}\n'
# Number of a row in its file, and the row; None is a line that is no JSON object.
Row = Tuple[int, Optional[Dict[str, Any]]]
# Token ids, 1 for each that gets a label, and the kind of the row.
Made = Tuple[List[int], List[int], str]


class _TooLong(BaseException):
    """The clock of the templates ran out; not an ``Exception``, so that nobody swallows it."""


class _CannotError(Exception):
    """Why nothing can be judged; ``state`` is the word for it."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(text)
        self.state = state


class _BadShapeError(Exception):
    """A row that is none of the kinds that TRL knows."""


def _short(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[:limit] + "..."


def read_rows(path: str, count: int) -> List[Row]:
    """The first rows as ``(number, row or None)``; None is a line that is no JSON object.

    Raises:
        ValueError: no row, a line that is too long, or neither JSON lines nor an array.
    """
    with open(path, "rb") as handle:
        head = handle.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        handle.seek(0)
        if head.startswith(b"["):
            data = handle.read(_ARRAY_BYTES + 1)
            if len(data) > _ARRAY_BYTES:
                raise ValueError(f"the JSON array is larger than {_ARRAY_BYTES} bytes")
            listed = json.loads(data.decode("utf-8-sig"))[:count]
            return [(i + 1, r if isinstance(r, dict) else None) for i, r in enumerate(listed)]
        rows: List[Row] = []
        number = 0
        while len(rows) < count:
            line = handle.readline(_LINE_BYTES + 1)
            if not line:
                break
            number += 1
            if len(line) > _LINE_BYTES:
                raise ValueError(f"line {number} is longer than {_LINE_BYTES} bytes")
            if line.strip(b"\xef\xbb\xbf \t\r\n"):
                rows.append((number, _row(line)))
        if not rows:
            raise ValueError("it has no rows")
        return rows


def _row(line: bytes) -> Optional[Dict[str, Any]]:
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def kind_of(row: Dict[str, Any], text_field: str) -> Tuple[str, bool]:
    """The kind of a row in TRL's words, and whether it is a conversation.

    Raises:
        _BadShapeError: none of them.
    """
    if "input_ids" in row:
        return "tokens", False
    if "prompt" in row:
        if "completion" not in row:
            raise _BadShapeError("it has a prompt and no completion")
        return "prompt-completion", _is_conversation(row["prompt"])
    if "messages" in row:
        if not _is_conversation(row["messages"]):
            raise _BadShapeError("messages is no list of turns with role and content")
        return "messages", True
    turns = row.get("conversations")
    if isinstance(turns, list) and turns and isinstance(turns[0], dict) and "from" in turns[0]:
        return "conversations", True
    if isinstance(row.get(text_field), str):
        return "text", False
    raise _BadShapeError("none of messages, prompt and completion, or " + text_field)


def _is_conversation(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and "role" in first


def _common(first: List[int], second: List[int]) -> int:
    pairs = enumerate(zip(first, second))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(second)))


class Labeller:
    """Makes token ids and labels of rows, and keeps what is worth telling."""

    def __init__(self, tokenizer: Any, request: Dict[str, Any], template: Optional[str]) -> None:
        self.tokenizer = tokenizer
        self.request = request
        self.template = template
        self.tally: Dict[str, List[int]] = {}
        self.notes: Dict[str, str] = {}
        added = getattr(tokenizer, "added_tokens_decoder", {})
        self.special = {int(token) for token in added}
        self.stops = set(_stop_ids(tokenizer, request["tokenizer"]))

    def mark(self, name: str, number: int) -> None:
        """Remember that a row has this."""
        self.tally.setdefault(name, []).append(number)

    def _chat(self, turns: Any, **rest: Any) -> Any:
        return self.tokenizer.apply_chat_template(
            turns, tokenize=True, return_dict=True, chat_template=self.template, **rest
        )

    def ids_and_labels(self, row: Dict[str, Any], number: int) -> Made:
        """Token ids and, for each, whether it gets a label."""
        kind, talks = kind_of(row, self.request["text_field"])
        if kind == "tokens":
            ids = list(row["input_ids"])
            if not isinstance(row.get("labels"), list):
                self.mark("tokens_without_labels", number)
                return ids, [1] * len(ids), kind
            return ids, [int(label != -100) for label in row["labels"]], kind
        tools = row.get("tools")
        tools = json.loads(tools) if isinstance(tools, str) else tools
        rest: Dict[str, Any] = {"tools": tools, **(row.get("chat_template_kwargs") or {})}
        if kind == "prompt-completion":
            return self._completion(row, number, talks, rest)
        if talks:
            turns = row["messages"] if kind == "messages" else _chatml(row["conversations"])
            return self._turns(turns, number, rest, kind)
        text = row[self.request["text_field"]]
        end = self.tokenizer.eos_token
        if end and not text.endswith(end):
            text += end
        ids = list(self.tokenizer(text)["input_ids"])
        return ids, [1] * len(ids), kind

    def _turns(self, turns: Any, number: int, rest: Dict[str, Any], kind: str) -> Made:
        only = self.request["assistant_only"]
        if not only and any(turn.get("role") != "assistant" for turn in turns):
            self.mark("whole_row", number)
        made = self._chat(turns, return_assistant_tokens_mask=only, **rest)
        ids = list(made["input_ids"])
        mask = list(made["assistant_masks"]) if only else [1] * len(ids)
        return ids, mask, kind

    def _completion(
        self, row: Dict[str, Any], number: int, talks: bool, rest: Dict[str, Any]
    ) -> Made:
        prompt, told = row["prompt"], row["completion"]
        only = self.request["assistant_only"] and talks
        if talks:
            asked = list(self._chat(prompt, add_generation_prompt=True, **rest)["input_ids"])
            made = self._chat(prompt + told, return_assistant_tokens_mask=only, **rest)
        else:
            end = self.tokenizer.eos_token
            told = told if not end or told.endswith(end) else told + end
            asked = list(self.tokenizer(prompt)["input_ids"])
            made = self.tokenizer(prompt + told)
        ids = list(made["input_ids"])
        same = _common(asked, ids)
        if same < len(asked):
            self.mark("not_prefix", number)
            self.notes.setdefault("not_prefix", _short(self.tokenizer.decode(asked[same:]), 80))
        if self.request["completion_only"] is False:
            labels = [1] * len(ids)
            self.mark("whole_row", number)
        else:
            labels = [0] * same + [1] * (len(ids) - same)
        if only:
            mask = list(made["assistant_masks"])
            labels = [int(one and other) for one, other in zip(labels, mask)]
        return ids, labels, "prompt-completion"

    def take(self, number: int, row: Optional[Dict[str, Any]]) -> None:
        """Judge one row of the file, or say what is wrong with it."""
        if row is None:
            self.mark("not_json", number)
            return
        try:
            self.look_at(row, number)
        except _BadShapeError as error:
            self.mark("bad_shape", number)
            self.notes.setdefault("bad_shape", str(error))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - templates raise what they like
            self.mark("failed", number)
            self.notes.setdefault("failed", _short(type(error).__name__ + ": " + str(error)))

    def look_at(self, row: Dict[str, Any], number: int) -> None:
        """Judge one row."""
        ids, labels, kind = self.ids_and_labels(row, number)
        bos = self.tokenizer.bos_token_id
        if bos is not None and ids[:2] == [bos, bos]:
            self.mark("double_bos", number)
        if 1 not in labels:
            self.mark("empty_mask", number)
            return
        if kind != "tokens":
            self._look_at_ends(ids, labels, number)
        limit = self.request["max_length"]
        if limit and len(ids) > limit:
            self.mark("cut", number)
            left = labels[-limit:] if self.request["keep_end"] else labels[:limit]
            if 1 not in left:
                self.mark("emptied", number)

    def _look_at_ends(self, ids: List[int], labels: List[int], number: int) -> None:
        """Whether the token that ends an answer is inside the labels."""
        missing = outside = other = False
        for begin, end in _spans(labels):
            last = self._last_of(ids, begin, end)
            if last in self.stops:
                continue
            if last in self.special:
                other = True
                self.notes.setdefault("other_end", self.tokenizer.convert_ids_to_tokens(last))
                continue
            after = self._first_after(ids, end)
            if after in self.special or after in self.stops:
                outside = True
                self.notes.setdefault("end_outside", self.tokenizer.convert_ids_to_tokens(after))
            else:
                missing = True
        if outside or missing or other:
            self.mark("end_outside" if outside else "no_end" if missing else "other_end", number)

    def _is_blank(self, token: int) -> bool:
        return token not in self.special and not self.tokenizer.decode([token]).strip()

    def _last_of(self, ids: List[int], begin: int, end: int) -> int:
        while end > begin + 1 and self._is_blank(ids[end - 1]):
            end -= 1
        return ids[end - 1]

    def _first_after(self, ids: List[int], end: int) -> Optional[int]:
        while end < len(ids) - 1 and self._is_blank(ids[end]):
            end += 1
        return ids[end] if end < len(ids) else None


def _chatml(turns: Any) -> List[Dict[str, Any]]:
    return [{"role": turn["from"], "content": turn["value"]} for turn in turns]


def _spans(labels: List[int]) -> List[Tuple[int, int]]:
    spans = []
    begin: Optional[int] = None
    for index, label in enumerate([*labels, 0]):
        if label and begin is None:
            begin = index
        elif not label and begin is not None:
            spans.append((begin, index))
            begin = None
    return spans


def _stop_ids(tokenizer: Any, folder: str) -> List[int]:
    """Tokens at which generation stops: of the tokenizer, and of a generation config beside it."""
    stops = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    try:
        with open(os.path.join(folder, "generation_config.json"), "rb") as handle:
            told = json.loads(handle.read(1 << 20).decode("utf-8")).get("eos_token_id")
    except (OSError, ValueError, AttributeError):
        told = None
    listed = told if isinstance(told, list) else [told]
    return stops + [token for token in listed if isinstance(token, int)]


def _load(request: Dict[str, Any]) -> Any:
    """The tokenizer of the request, as the script will have it.

    Raises:
        _CannotError: there is no transformers, or the folder is no tokenizer.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise _CannotError("no_library", str(error)) from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            request["tokenizer"], local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        text = type(error).__name__ + ": " + str(error)
        raise _CannotError("no_tokenizer", text) from error
    if request["template"] is not None:
        tokenizer.chat_template = request["template"]
    if request["eos_token"] is not None:
        if request["eos_token"] not in tokenizer.get_vocab():
            raise _CannotError("no_eos_token", request["eos_token"])
        tokenizer.eos_token = request["eos_token"]
    return tokenizer


def _trl_version() -> str:
    try:
        return importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _twin_maker() -> Any:
    """TRL's function that knows training twins of templates; None where there is none."""
    try:
        from trl.chat_template_utils import get_training_chat_template
    except Exception:  # noqa: BLE001 - an older TRL, or none
        return None
    return get_training_chat_template


def _twin(tokenizer: Any, make: Any) -> Any:
    """What TRL takes in the place of a template without generation marks, if it knows one."""
    try:
        return make(tokenizer)
    except Exception:  # noqa: BLE001 - a template that it does not know
        return None


def cap(request: Dict[str, Any]) -> None:
    """From here on templates are rendered: limit time and memory of this process."""

    def too_long(_signal: int, _frame: Any) -> None:
        raise _TooLong

    os.write(_answer_to, BEGAN)
    signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, request["template_seconds"])
    try:
        import resource

        with open("/proc/self/statm", "rb") as handle:
            size = int(handle.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (size + request["template_bytes"], hard))
    except (ImportError, OSError, ValueError):
        pass  # the parent watches our memory as well


def judge(request: Dict[str, Any], begin: Callable[[Dict[str, Any]], None]) -> Dict[str, Any]:
    """The answer to a request.

    Args:
        request: as on standard input.
        begin: called once before the first template is rendered.
    """
    try:
        rows = read_rows(request["rows"], request["max_rows"])
        tokenizer = _load(request)
    except (OSError, ValueError, RecursionError) as error:
        return {"state": "no_rows", "message": _short(str(error))}
    except _CannotError as error:
        return {"state": error.state, "message": _short(str(error))}
    own: Any = tokenizer.chat_template
    template: Optional[str] = own.get("default") if isinstance(own, dict) else own
    marked = bool(template and _MARKERS.search(template))
    swaps = request["assistant_only"] and template is not None and not marked
    make = _twin_maker() if swaps else None
    labeller = Labeller(tokenizer, request, template)
    state, current = "judged", 0
    try:
        begin(request)
        twin = _twin(tokenizer, make) if make is not None else None
        if twin is not None:
            labeller.template, marked = twin, True
        for current, row in rows:
            labeller.take(current, row)
    except _TooLong:
        state = "template_time"
    except MemoryError:
        state = "template_memory"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return {
        "state": state,
        "row": current or None,
        "read": len(rows),
        "tally": labeller.tally,
        "notes": labeller.notes,
        "tokenizer": {
            "has_template": template is not None,
            "marked": marked,
            "eos_token": tokenizer.eos_token,
        },
        "trl": _trl_version(),
    }


def main() -> None:
    """Answer the one request on stdin."""
    global _answer_to  # noqa: PLW0603 - one process, one request
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    _answer_to = os.dup(1)
    os.dup2(2, 1)  # libraries print
    if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        del sys.path[0]
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ[name] = "1"
    data = (json.dumps(judge(request, cap)) + "\n").encode("ascii")
    while data:
        data = data[os.write(_answer_to, data) :]
    os._exit(0)  # whatever threads a library has left


if __name__ == "__main__":
    main()
