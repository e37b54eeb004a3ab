"""A paid engine for tests: a real HTTP server on this machine that takes jobs and loses answers."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from seatrial.core.plan import Plan
from seatrial.engines.engine import Handle, Launch, StartRefusedError, StartUnknownError

# What the server does with a submission:
#   take     stores the job and answers
#   drop     stores the job and cuts the connection
#   lose     cuts the connection and stores nothing
#   slow     stores the job, answers after a while
#   refuse   answers 402
#   late     cuts the connection; the job appears a little later
BEHAVIOURS = ("take", "drop", "lose", "slow", "refuse", "late")
LATE_S = 0.7


class JobServer(ThreadingHTTPServer):
    """Keeps every submission that it ever took; two of one key are two jobs that cost money."""

    daemon_threads = True

    def __init__(self, behaviour: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = behaviour
        self.posts: list[str] = []
        self.jobs: list[dict[str, Any]] = []

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: JobServer

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def _answer(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        server.posts.append(job["key"])
        if server.behaviour == "refuse":
            return self._answer(402, {"error": "no money on this account"})
        if server.behaviour in ("lose", "late"):
            if server.behaviour == "late":
                threading.Timer(LATE_S, self._store, (job,)).start()
            return self._cut()
        stored = self._store(job)
        if server.behaviour == "drop":
            return self._cut()
        if server.behaviour == "slow":
            time.sleep(0.5)
        return self._answer(201, stored)

    def _store(self, job: dict[str, Any]) -> dict[str, Any]:
        stored = {**job, "id": f"job-{len(self.server.jobs) + 1}"}
        self.server.jobs.append(stored)
        return stored

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.close()

    def do_GET(self) -> None:
        key = self.path.rpartition("/")[2]
        found = [job for job in self.server.jobs if job["key"] == key]
        self._answer(200, found)


@contextmanager
def job_server(behaviour: str) -> Iterator[JobServer]:
    """A running server; it is closed at the end."""
    assert behaviour in BEHAVIOURS
    server = JobServer(behaviour)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class FakePaidEngine:
    """Submits over real HTTP; knows no retry."""

    name = "paid"
    needs_authorization = True
    claims_itself = False

    def __init__(self, port: int) -> None:
        self.port = port

    def price_per_hour(self, plan: Plan) -> Decimal:
        return Decimal("3.00")

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def start(self, launch: Launch) -> Handle:
        body = json.dumps({"key": launch.key, "command": list(launch.argv)})
        try:
            status, value = self._ask("POST", "/jobs", body)
        except ConnectionRefusedError as error:
            raise StartRefusedError(f"nobody listens on port {self.port}") from error
        except (OSError, http.client.HTTPException) as error:
            raise StartUnknownError(f"the connection broke: {error!r}") from error
        if status != 201:
            raise StartRefusedError(value["error"])
        return Handle(job_id=value["id"])

    def find(self, key: str, record: str) -> Handle | None:
        try:
            _status, found = self._ask("GET", f"/jobs/by-key/{key}")
        except (OSError, http.client.HTTPException) as error:
            raise StartUnknownError(f"cannot be asked: {error!r}") from error
        return Handle(job_id=found[0]["id"]) if found else None
