"""The Hugging Face Hub: which commit a name means. The only caller of a network.

``huggingface_hub`` does the asking, so that endpoint, token, proxies and certificates are those
that the user's own libraries use. Nothing is downloaded and nothing is written.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.core.errors import UsageError
from seatrial.core.redaction import from_environment

PUBLIC_ENDPOINT = "https://huggingface.co"
TIMEOUT_S = 10.0
# A server that sends a byte now and then is no slower than its read timeout; this ends it.
DEADLINE_S = 30.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_TRUE = frozenset({"1", "ON", "YES", "TRUE"})
_TYPES_OF_ROLE = {
    "train": ("dataset",),
    "validation": ("dataset",),
    "heldout": ("dataset",),
    "model": ("model",),
    "tokenizer": ("model",),
}


@dataclass(frozen=True)
class HubPin:
    """A name on the Hub and the commit that it meant.

    Attributes:
        repo_type: ``model`` or ``dataset``; None where nobody was asked and the role does not tell.
        revision: 40 hex digits.
    """

    id: str
    repo_type: str | None
    revision: str


def types_of_role(role: str) -> tuple[str, ...]:
    """The kinds of repository that an input of that role may be, the likelier first."""
    return _TYPES_OF_ROLE.get(role, ("dataset", "model"))


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a whole commit hash, which never means anything else."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def is_offline(environ: Mapping[str, str]) -> bool:
    """Whether the user's libraries are told to stay off the network."""
    return any(
        environ.get(name, "").upper() in _TRUE
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    )


def resolve(
    name: str,
    repo_types: Sequence[str],
    revision: str | None,
    environ: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
) -> HubPin:
    """The commit that a name and revision mean now. A whole commit hash is taken as it is.

    Args:
        name: id of the repository.
        repo_types: kinds to look among, in that order.
        revision: branch, tag, or short hash; None for ``main``.
        environ: ``HF_ENDPOINT``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are looked at.
        timeout_s: for connecting, and for each answer.

    Raises:
        UsageError: there is no such repository or revision, it wants a token or another one, the
            Hub cannot be asked, or it answers without a commit.
    """
    if is_commit(revision):
        return HubPin(name, repo_types[0] if len(repo_types) == 1 else None, str(revision))
    asked = revision or "main"
    if is_offline(environ):
        raise UsageError(
            f"{name} at {asked!r} is no fixed commit, and this machine is set to stay offline "
            "(HF_HUB_OFFLINE)",
            remedy="write its 40-digit commit as revision into the trial, or freeze once with "
            "HF_HUB_OFFLINE=0",
        )
    question = _Question(name, asked, environ, timeout_s)
    for repo_type in repo_types:
        commit = question.commit(repo_type)
        if commit is not None:
            return HubPin(name, repo_type, commit)
    raise question.nowhere(repo_types)


class _Question:
    """One name, asked under one or two kinds of repository."""

    def __init__(self, name: str, asked: str, environ: Mapping[str, str], timeout_s: float) -> None:
        self._name = name
        self._asked = asked
        self._environ = environ
        self._timeout_s = timeout_s
        self._endpoint = (environ.get("HF_ENDPOINT") or PUBLIC_ENDPOINT).rstrip("/")
        self._shown = from_environment(environ).text(self._endpoint)
        self._token = environ.get("HF_TOKEN") or None

    def commit(self, repo_type: str) -> str | None:
        """The commit, or None when there is no repository of that kind.

        Raises:
            UsageError: any other answer, or none.
        """
        try:
            from huggingface_hub import HfApi
            from huggingface_hub import errors as known
        except ImportError:
            raise UsageError(
                f"{self._name} at {self._asked!r} is no fixed commit, and huggingface_hub, which "
                "would ask for it, is not installed here",
                remedy="pip install 'seatrial[hub]', or write its 40-digit commit as revision",
            ) from None
        api = HfApi(endpoint=self._endpoint, token=self._token)
        try:
            info = self._ask(api, repo_type)
        except known.RevisionNotFoundError:
            raise UsageError(
                f"{repo_type} {self._name} has no revision {self._asked!r} ({self._shown})",
                remedy=f"see {self._page(repo_type)}/commits/main, and correct revision",
            ) from None
        except known.GatedRepoError:
            raise self._gated(repo_type) from None
        except known.RepositoryNotFoundError as error:
            if _status(error) == 403:
                raise self._gated(repo_type) from None
            return None
        except known.HFValidationError:
            raise UsageError(
                f"{self._name!r} is no id of the Hub", remedy="write it as owner/name"
            ) from None
        except (known.OfflineModeIsEnabled, known.HfHubHTTPError) as error:
            raise self._refused(error) from None
        except Exception as error:  # noqa: BLE001 - its HTTP library has been three different ones
            raise self._unreachable(error) from None
        sha = getattr(info, "sha", None)
        if not isinstance(sha, str) or not is_commit(sha):
            raise UsageError(
                f"{self._shown} answers for {self._name} without a commit",
                remedy="write its 40-digit commit as revision into the trial",
            )
        return sha

    def _ask(self, api: Any, repo_type: str) -> Any:
        """Ask in a thread of its own, so that neither a slow server nor Ctrl-C waits for it."""
        answer: dict[str, Any] = {}

        def ask() -> None:
            try:
                answer["info"] = api.repo_info(
                    self._name,
                    repo_type=repo_type,
                    revision=self._asked,
                    timeout=self._timeout_s,
                    expand=["sha"],
                )
            except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
                answer["error"] = error

        thread = threading.Thread(target=ask, name="hub", daemon=True)
        thread.start()
        thread.join(DEADLINE_S)
        if thread.is_alive():
            raise TimeoutError(f"no answer within {DEADLINE_S:.0f} s")
        if "error" in answer:
            raise answer["error"]
        return answer["info"]

    def _page(self, repo_type: str) -> str:
        return f"{self._shown}/{'datasets/' if repo_type == 'dataset' else ''}{self._name}"

    def _gated(self, repo_type: str) -> UsageError:
        if self._token is None:
            return UsageError(
                f"{repo_type} {self._name} is gated, and HF_TOKEN is not set",
                remedy=f"accept its terms at {self._page(repo_type)}, then export HF_TOKEN=...",
            )
        return UsageError(
            f"{repo_type} {self._name} is gated, and HF_TOKEN belongs to somebody who may not "
            "read it",
            remedy=f"accept its terms at {self._page(repo_type)} as the owner of that token",
        )

    def nowhere(self, repo_types: Sequence[str]) -> UsageError:
        """No repository of any of the kinds."""
        kinds = " or ".join(repo_types)
        if self._token is None:
            return UsageError(
                f"there is no {kinds} {self._name} that can be read without a token "
                f"({self._shown})",
                remedy="correct the id; if it is private, export HF_TOKEN=...",
            )
        return UsageError(
            f"there is no {kinds} {self._name}, or HF_TOKEN may not see it ({self._shown})",
            remedy="correct the id, or use a token that may read it",
        )

    def _refused(self, error: Exception) -> UsageError:
        status = _status(error)
        if status is None:
            return self._unreachable(error)
        if status in (401, 403):
            state = "is not accepted" if self._token else "is needed and not set"
            return UsageError(
                f"{self._shown} refuses to tell about {self._name} (HTTP {status}): HF_TOKEN "
                f"{state}",
                remedy="export HF_TOKEN=... with a token that may read it",
            )
        if status == 429:
            return UsageError(
                f"{self._shown} asks for fewer questions (HTTP 429)",
                remedy="wait some minutes, or write the 40-digit commit as revision",
            )
        return UsageError(
            f"{self._shown} answers HTTP {status} for {self._name}",
            remedy="try again later, or write its 40-digit commit as revision into the trial",
        )

    def _unreachable(self, error: BaseException) -> UsageError:
        return UsageError(
            f"the Hub at {self._shown} cannot be reached to look up {self._name} at "
            f"{self._asked!r} ({type(error).__name__})",
            remedy="look at the network and HF_ENDPOINT, or write its 40-digit commit as revision "
            "into the trial",
        )


def _status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None
