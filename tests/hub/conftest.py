"""A Hub on this machine: answers which commit a name means, over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest

REPOSITORIES = (("datasets", "data"), ("models", "model"))
MAIN, DEV = "a" * 40, "b" * 40
TOKEN = "hf_StandInToken1234567890abcd"


class Handler(BaseHTTPRequestHandler):
    """``GET /api/{models,datasets}/{id}/revision/{rev}``, with the error headers of the Hub."""

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0])
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        stand_in: StandIn = self.server  # type: ignore[assignment]
        stand_in.asked.append((path, bool(token)))
        parts = path.strip("/").split("/")
        kind, name, revision = parts[1], "/".join(parts[2:4]), "/".join(parts[5:])
        self.answer(kind, name, revision, token)

    def answer(self, kind: str, name: str, revision: str, token: str) -> None:
        owner, _, repo = name.partition("/")
        if token and token != TOKEN:
            self.fail(401, "", "Invalid credentials in Authorization header")
        elif owner == "gated":
            self.fail(403 if token else 401, "GatedRepo", "Access to it is restricted.")
        elif owner == "private" and not token:
            self.fail(401, "RepoNotFound", "Repository not found")
        elif owner == "broken":
            self.fail(int(repo), "", "x")
        elif owner == "slow":
            time.sleep(30)
        elif owner == "odd":
            self.send(200, {"id": name, "sha": repo if repo != "none" else None})
        elif owner not in ("org", "private") or (kind, repo) not in REPOSITORIES:
            self.fail(404 if token else 401, "RepoNotFound", "Repository not found")
        else:
            known = {"main": MAIN, MAIN: MAIN, MAIN[:7]: MAIN, "dev/x": DEV}
            if revision in known:
                self.send(200, {"id": name, "sha": known[revision]})
            else:
                self.fail(404, "RevisionNotFound", "Invalid rev id")

    def fail(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
        self.send(status, {"error": message}, headers)

    def send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        pass


class StandIn(ThreadingHTTPServer):
    """The server; ``asked`` are the requests that came, each with whether it had a token."""

    daemon_threads = True
    main, dev, token = MAIN, DEV, TOKEN

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, bool]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """What ``HF_ENDPOINT`` is set to."""
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture(scope="module")
def stand_in() -> Iterator[StandIn]:
    """A running stand-in."""
    server = StandIn()
    yield server
    server.shutdown()
    server.server_close()
