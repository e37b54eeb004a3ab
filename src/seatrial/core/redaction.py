"""Removing secrets from text, JSON values, command lines and byte streams. Pure."""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import quote, quote_plus

from seatrial.core.secret_shapes import (
    MIN_SECRET_CHARS,
    Span,
    is_harmless_value,
    looks_secret_name,
    shape_spans,
)

__all__ = ["Redactor", "StreamRedactor", "from_environment", "looks_secret_name"]

_URL_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,256}:([^\s/@]{1,512})@")
_Forms = Tuple[Tuple[str, str], ...]


def _base64_forms(raw: bytes) -> List[str]:
    """What ``raw`` looks like inside base64 at each of the three alignments."""
    forms = []
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode("ascii")
        first = -(-offset * 8 // 6)
        forms.append(encoded[first : (offset + len(raw)) * 8 // 6])
    return forms + [form.replace("+", "-").replace("/", "_") for form in forms]


def _forms_of(value: str) -> List[str]:
    """A value and the ways in which text may carry it."""
    plain = [value, value.strip()]
    if "\n" in value or "\r" in value:
        plain.extend(line.strip() for line in value.splitlines())
    forms: List[str] = []
    for item in plain:
        if len(item) < MIN_SECRET_CHARS:
            continue
        raw = item.encode("utf-8", "surrogateescape")
        forms.append(item)
        forms.append(json.dumps(item)[1:-1])
        forms.append(json.dumps(item, ensure_ascii=False)[1:-1])
        forms.append(repr(item)[1:-1])
        forms.append(repr(raw)[2:-1])
        forms.append(quote(raw, safe=""))
        forms.append(quote(raw))
        forms.append(quote_plus(raw))
        forms.extend(form for form in _base64_forms(raw) if len(form) >= MIN_SECRET_CHARS)
    return forms


def _bytes_as_text(form: str) -> str:
    """The form as a byte stream shows it, one character a byte."""
    return form.encode("utf-8", "surrogateescape").decode("latin-1")


def _merged(spans: List[Span]) -> List[Span]:
    """Spans in order without overlaps; the first of two that overlap keeps its label."""
    merged: List[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(
                end=max(last.end, span.end), context=min(last.context, span.context)
            )
        else:
            merged.append(span)
    return merged


def _replaced(text: str, spans: List[Span]) -> str:
    if not spans:
        return text
    pieces = []
    at = 0
    for span in spans:
        pieces.append(text[at : span.start])
        pieces.append(span.replacement)
        at = span.end
    pieces.append(text[at:])
    return "".join(pieces)


class Redactor:
    """Replaces given values, and whatever has the shape of a secret, by ``[secret NAME]``.

    Args:
        values: secret values; those under 6 characters are too common to be searched for.
        names: optional label of a value, for example the variable that it came from.
    """

    def __init__(self, values: Iterable[str], names: Optional[Mapping[str, str]] = None) -> None:
        labels: Dict[str, str] = {}
        for value in values:
            name = (names or {}).get(value)
            for form in _forms_of(value):
                labels.setdefault(form, f"[secret {name}]" if name else "[secret]")
        longest_first = sorted(labels.items(), key=lambda item: -len(item[0]))
        self._forms: _Forms = tuple(longest_first)
        byte_forms = {_bytes_as_text(form): label for form, label in longest_first}
        self._byte_forms: _Forms = tuple(byte_forms.items())

    def _spans(self, text: str, forms: _Forms) -> List[Span]:
        spans = shape_spans(text)
        for form, label in forms:
            at = text.find(form)
            while at >= 0:
                spans.append(Span(at, at + len(form), label, at))
                at = text.find(form, at + len(form))
        return _merged(spans)

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        return _replaced(text, self._spans(text, self._forms))

    def value(self, value: Any) -> Any:
        """A JSON value with every secret replaced, in keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._key(key): self._item(key, item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value

    def _key(self, key: Any) -> Any:
        return self.text(key) if isinstance(key, str) else key

    def _item(self, key: Any, item: Any) -> Any:
        if isinstance(key, str) and isinstance(item, str) and looks_secret_name(key):
            return self._by_name(key, item)
        return self.value(item)

    def _by_name(self, name: str, value: str) -> str:
        if len(value) < MIN_SECRET_CHARS or is_harmless_value(value):
            return self.text(value)
        return f"[secret {name}]"

    def argv(self, argv: Sequence[str]) -> Tuple[str, ...]:
        """A command line with secrets replaced, also those after ``--token`` or ``--api-key=``."""
        shown = [self.text(item) for item in argv]
        for index, start, flag in _secret_words(argv):
            shown[index] = f"{argv[index][:start]}[secret {flag}]"
        return tuple(shown)


def _secret_words(argv: Sequence[str]) -> Iterator[Tuple[int, int, str]]:
    """Words of a command line that carry a secret: index, where it begins in the word, flag."""
    flag = ""
    for index, item in enumerate(argv):
        if flag and not item.startswith("-"):
            if not is_harmless_value(item):
                yield index, 0, flag
            flag = ""
            continue
        flag = ""
        name, equals, value = item.partition("=")
        if item.startswith("-") and looks_secret_name(name.lstrip("-")):
            if not equals:
                flag = name.lstrip("-")
            elif value and not is_harmless_value(value):
                yield index, len(name) + 1, name.lstrip("-")


def from_environment(
    env: Mapping[str, str], declared_names: Iterable[str] = (), argv: Sequence[str] = ()
) -> Redactor:
    """A redactor for the secrets of an environment and of a command line.

    Args:
        env: variables by name.
        declared_names: variables that are secret whatever their name looks like.
        argv: command line; values behind ``--token`` and kin are secret wherever they turn up.
    """
    declared = set(declared_names)
    names: Dict[str, str] = {}
    for index, start, flag in _secret_words(argv):
        names.setdefault(argv[index][start:], flag)
    for name, value in env.items():
        guessed = looks_secret_name(name) and not is_harmless_value(value)
        if guessed or name in declared:
            names.setdefault(value, name)
        elif "://" in value:
            for password in _URL_PASSWORD.findall(value):
                names.setdefault(password, name)
    return Redactor(names, names)


_LONG_LINE = 1 << 16
_MIN_HELD = 1 << 12
_TOKEN_END = re.compile(r"[^A-Za-z0-9._~+/=%-]")
_PEM_OUTSIDE = re.compile(r"[^A-Za-z0-9+/=\s\\:,-]")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----")
_PEM_TAIL = 64
_NAMING_WORDS = ("TOKEN", "KEY", "SECRET", "PASS", "CRED", "AUTH", "COOKIE", "DSN", "BEGIN")


class StreamRedactor:
    """Removes secrets from a byte stream that comes in chunks.

    A secret split over chunks, or inside a line of any length, is found; at most about 128 KiB are
    held back, every other byte passes unchanged. Output is held until its line ends (LF or CR), a
    line grows beyond 64 KiB, or ``flush``.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._forms = redactor._byte_forms  # noqa: SLF001 - one module, two views of one table
        self._held = max([_MIN_HELD] + [len(form) * 2 for form, _ in self._forms])
        self._starts = [
            form[: cut + 1]
            for form, _ in self._forms
            for cut in range(len(form) - 1)
            if form[cut] in "\r\n"
        ]
        self._buffer = ""
        self._dropping = ""

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk, give back what is certain not to be part of a secret."""
        self._buffer += chunk.decode("latin-1")
        if self._dropping:
            self._drop()
            if self._dropping:
                return b""
        cut = max(self._buffer.rfind("\n"), self._buffer.rfind("\r")) + 1
        for start in self._starts:
            if cut >= len(start) and self._buffer.endswith(start, 0, cut):
                cut = min(cut, self._buffer.rfind(start, 0, cut))
        if cut == 0 and len(self._buffer) <= max(_LONG_LINE, 2 * self._held):
            return b""
        return self._emit(cut or len(self._buffer) - self._held)

    def idle(self) -> bytes:
        """Of an unfinished line, what is no beginning of a secret: for a stream that has paused.

        The last word stays, and the whole line where a secret is being named in it.
        """
        upper = self._buffer.upper()
        if self._dropping or any(word in upper for word in _NAMING_WORDS):
            return b""
        cut = max(self._buffer.rfind(" "), self._buffer.rfind("\t")) + 1
        for form, _ in self._forms:
            for size in range(min(len(form) - 1, cut), 0, -1):
                if self._buffer.startswith(form[:size], cut - size):
                    cut -= size
                    break
        return self._emit(cut) if cut else b""

    def flush(self) -> bytes:
        """Everything that is still held, at the end of the stream."""
        if self._dropping:
            self._drop()
            self._buffer = "" if self._dropping else self._buffer
        rest = self._emit(len(self._buffer))
        self._buffer = ""
        self._dropping = ""
        return rest

    def _emit(self, cut: int) -> bytes:
        spans = self._redactor._spans(self._buffer, self._forms)  # noqa: SLF001 - as above
        ready: List[Span] = []
        for span in spans:
            if span.end <= cut:
                ready.append(span)
                continue
            if span.context < cut:
                if len(self._buffer) - span.context > _LONG_LINE and span.end == len(self._buffer):
                    return self._emit_endless(ready, span)
                cut = span.context
            break
        ready = [span for span in ready if span.end <= cut]
        if ready and ready[-1].end == cut == len(self._buffer):
            self._note_open(ready[-1])
        text = _replaced(self._buffer[:cut], ready)
        self._buffer = self._buffer[cut:]
        return text.encode("latin-1", "replace")

    def _note_open(self, span: Span) -> None:
        body = self._buffer[span.start : span.end]
        if body.startswith("-----BEGIN") and not _PEM_END.search(body):
            self._dropping = "pem"

    def _emit_endless(self, ready: List[Span], span: Span) -> bytes:
        """A secret that has outgrown the buffer: say so once, swallow it until it ends."""
        text = _replaced(self._buffer, [*ready, span])
        is_pem = self._buffer.startswith("-----BEGIN", span.start)
        self._dropping = "pem" if is_pem else "token"
        self._buffer = ""
        return text.encode("latin-1", "replace")

    def _drop(self) -> None:
        if self._dropping == "token":
            end = _TOKEN_END.search(self._buffer)
            self._buffer = self._buffer[end.start() :] if end else ""
            self._dropping = "" if end else "token"
            return
        end = _PEM_END.search(self._buffer)
        outside = _PEM_OUTSIDE.search(self._buffer)
        if end and (not outside or end.start() < outside.start()):
            self._buffer = self._buffer[end.end() :]
        elif outside:
            self._buffer = self._buffer[outside.start() :]
        else:
            self._buffer = self._buffer[-_PEM_TAIL:]
            return
        self._dropping = ""
