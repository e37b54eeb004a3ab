"""What a secret looks like: by the name it is assigned to, and by its own shape."""

from __future__ import annotations

import re
from typing import FrozenSet, Iterator, List, NamedTuple, Tuple

MIN_SECRET_CHARS = 6


class Span(NamedTuple):
    """A stretch of text to be replaced.

    ``context`` is where its reason begins (the name before an assigned value); a stream must not
    be cut between ``context`` and ``end``.
    """

    start: int
    end: int
    replacement: str
    context: int


def _words(text: str) -> FrozenSet[str]:
    return frozenset(text.split())


# Parts of a name, split at _ - . and at camel humps.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ALWAYS = _words(
    "SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE CREDENTIAL CREDENTIALS CREDS COOKIE"
    " COOKIES APIKEY APIKEYS AUTHTOKEN DSN BEARER PRIVATE PRIVATEKEY AUTHORIZATION"
)
_USUALLY = _words("TOKEN KEY AUTH PAT")
_PLURALS = _words("TOKENS KEYS")
_RUN_TOGETHER = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "SECRETKEY", "ACCESSKEY")
# Makes a plural, or a lower-case name in running text, one of access rather than of language.
_ACCESS = _words(
    "API ACCESS AUTH OAUTH REFRESH SESSION BEARER HF HUB HUGGINGFACE HUGGING GITHUB GITLAB"
    " GH WANDB OPENAI ANTHROPIC AWS AZURE GOOGLE SLACK COMET NEPTUNE MLFLOW NPM PYPI BOT SERVICE"
    " ACCOUNT USER SIGNING ENCRYPTION ENCRYPT MASTER DEPLOY CLIENT APP SSH WRITE READ LOGIN CSRF"
    " JWT"
)
# Tokens of language, keys of tables: never secrets.
_LANGUAGE = _words(
    "PAD EOS BOS UNK MASK SEP CLS SPECIAL EXTRA ADDED IMAGE AUDIO VIDEO STOP START END NEXT PREV"
    " LAST FIRST MAX MIN NUM NEW TOTAL PER COUNT IDS INDEX PUBLIC SORT PRIMARY FOREIGN CACHE METRIC"
    " BEST DICT HOT TURN VOCAB"
)
_HARMLESS_ENDS = _words("FILE PATH DIR SOCK PARALLELISM TYPE LIMIT SIZE LENGTH TTL TIMEOUT")
_HARMLESS_VALUE = re.compile(
    r"(?i)(?:true|false|none|null|\d{1,9}(?:\.\d*)?|\*+|<[^>]*>|\[secret.*)\Z"
)


def _parts(name: str) -> List[str]:
    return [part.upper() for part in _PART.findall(name)]


def looks_secret_name(name: str) -> bool:
    """Whether a variable or flag of this name probably holds a secret.

    ``HF_TOKEN``, ``aws_secret_access_key`` and ``DB_PASSWORD`` do; ``TOKENIZERS_PARALLELISM``,
    ``KEYBOARD``, ``XAUTHORITY``, ``max_tokens`` and ``eos_token`` do not.
    """
    parts = _parts(name)
    if not parts or parts[-1] in _HARMLESS_ENDS:
        return False
    present = set(parts)
    if present & _ALWAYS:
        return True
    if present & _LANGUAGE or (parts[-1] in ("ID", "IDS") and "TOKEN" in present):
        return False
    if present & _USUALLY or any(part.endswith(_RUN_TOGETHER) for part in parts):
        return True
    return bool(present & _PLURALS and present & _ACCESS)


def _assigned_in_text(name: str, separator: str) -> bool:
    """Whether ``name<separator>value`` in running text gives a secret away.

    Stricter than a name alone: ``key=value`` and ``token: hello`` are ordinary text.
    """
    if not looks_secret_name(name):
        return False
    parts = set(_parts(name))
    if parts & (_ALWAYS - {"PRIVATE", "COOKIE", "COOKIES", "BEARER"}) or separator.startswith("-"):
        return True
    if parts & _ACCESS and len(parts) > 1:
        return True
    if any(part.endswith(_RUN_TOGETHER) and part not in _USUALLY for part in parts):
        return True
    return name.isupper() and (len(parts) > 1 or name == "TOKEN") and "=" in separator


_ASSIGNED = re.compile(
    r"(?i)(?P<word>token|key|secret|passw(?:or)?d|passphrase|credential|cred|auth|cookie|private|dsn"
    r"|pat)(?P<rest>[a-z0-9_.-]{0,40})"
    r"(?P<separator>\\?[\"']?[ \t]*[=:]+>?[ \t]*(?:b|u|r)?\\?[\"']?|[ \t]+)"
    r"(?P<value>[^\s\"',;&|)}\]\\]{6,})"
)
_ASSIGNED_WORDS = _words("TOKEN KEY SECRET PASSW PASSPHRASE CRED AUTH COOKIE PRIVATE DSN PAT")
_SCHEMES = _words("bearer basic token digest negotiate")
_NAME_BEFORE = re.compile(r"[A-Za-z0-9_.-]{0,80}\Z")


def _assignments(text: str) -> Iterator[Span]:
    upper = text.upper()
    if not any(word in upper for word in _ASSIGNED_WORDS):
        return
    for match in _ASSIGNED.finditer(text):
        begin = match.start()
        before = _NAME_BEFORE.search(text, max(0, begin - 80), begin)
        head = before.group() if before else ""
        separator = match.group("separator")
        name = head + match.group("word") + match.group("rest")
        flag = name.startswith("--")
        name = name.strip("-.")
        if not separator.strip() and not flag:
            continue
        value = match.group("value")
        if (
            value.lower() in _SCHEMES
            or _HARMLESS_VALUE.match(value)
            or (flag and value.startswith("-"))
        ):
            continue
        if _assigned_in_text(name, "--" if flag else separator):
            label = f"[secret {name}]"
            yield Span(match.start("value"), match.end("value"), label, begin - len(head))


_BEARER = (
    r"(?i)(?<![A-Za-z])bearer[ \t:=]+"
    r"(?=[A-Za-z0-9._~+/=-]{0,40}[0-9])([A-Za-z0-9._~+/=-]{8,})"
)
_BASIC = r"(?i)authorization[\"']?[ \t]*[:=][ \t]*[\"']?basic[ \t]+([A-Za-z0-9+/=]{6,})"
_URL = (
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://"
    r"[^\s/:@\"']{0,256}:([^\s/@\"']{1,512})@"
)
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----[A-Za-z0-9+/=\s\\:,-]*?"
    r"(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----|(?=[^A-Za-z0-9+/=\s\\:,-])|\Z)"
)
_JWT = r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
_GITHUB = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")

# (cheap substrings one of which must be there, pattern, group to replace)
_SHAPES: Tuple[Tuple[Tuple[str, ...], re.Pattern[str], int], ...] = tuple(
    (needles, re.compile(pattern), group)
    for needles, pattern, group in (
        (("hf_",), r"(?<![A-Za-z0-9_])hf_(?=[A-Za-z0-9]*[0-9A-Z])[A-Za-z0-9]{16,}", 0),
        (("api_org_",), r"(?<![A-Za-z0-9_])api_org_[A-Za-z0-9]{16,}", 0),
        (("sk-",), r"(?<![A-Za-z0-9_-])sk-(?=[A-Za-z0-9_-]*[0-9])[A-Za-z0-9_-]{16,}", 0),
        (_GITHUB, r"(?<![A-Za-z0-9_])gh[pousr]_[A-Za-z0-9]{16,}", 0),
        (("github_pat_",), r"github_pat_[A-Za-z0-9_]{20,}", 0),
        (("glpat-",), r"glpat-[A-Za-z0-9_-]{12,}", 0),
        (("AKIA", "ASIA"), r"(?<![A-Za-z0-9])A(?:K|S)IA[A-Z0-9]{16}(?![A-Za-z0-9])", 0),
        (("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}", 0),
        (("AIza",), r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}", 0),
        (("npm_",), r"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36}", 0),
        (("pypi-",), r"(?<![A-Za-z0-9_])pypi-[A-Za-z0-9_-]{40,}", 0),
        (("wandb_v",), r"(?<![A-Za-z0-9_])wandb_v[0-9]_[A-Za-z0-9_]{16,}", 0),
        (("eyJ",), _JWT, 0),
        (("earer", "EARER"), _BEARER, 1),
        (("asic ",), _BASIC, 1),
        (("://",), _URL, 1),
        (("PRIVATE KEY",), _PEM, 0),
    )
)


def shape_spans(text: str) -> List[Span]:
    """Every stretch of ``text`` that looks like a secret by name or shape, unordered."""
    spans = list(_assignments(text))
    for needles, pattern, group in _SHAPES:
        if any(needle in text for needle in needles):
            for match in pattern.finditer(text):
                start, end = match.span(group)
                spans.append(Span(start, end, "[secret]", match.start()))
    return spans


def is_harmless_value(value: str) -> bool:
    """Whether a value is too plain to be a secret (``true``, ``1``, ``None``, already removed)."""
    return bool(_HARMLESS_VALUE.match(value))
