"""No test reaches the real home folder, an outer run, the Hub or the network.

Set before the first test module is imported, because libraries read these variables when they are
imported. Children inherit them. ``tests/test_ground_isolation.py`` proves that it works.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

_REAL_CONNECT = socket.socket.connect
_HERE = ("127.", "::1", "localhost")
_state: dict[str, Any] = {}


def _connect_here_only(self: socket.socket, address: Any) -> None:
    """``socket.connect`` that knows only this machine."""
    host = address[0] if isinstance(address, tuple) else ""
    if host and not str(host).startswith(_HERE):
        raise OSError(f"a test tried to reach {host}; tests have no network")
    _REAL_CONNECT(self, address)


def pytest_configure(config: pytest.Config) -> None:
    """Redirect home, state and network for the whole session and every child."""
    _state["environ"] = dict(os.environ)
    home = _state["home"] = Path(tempfile.mkdtemp(prefix="seatrial-tests-"))
    for name in list(os.environ):
        if name.startswith(("SEATRIAL_", "HF_", "TRANSFORMERS_", "XDG_")):
            del os.environ[name]
    closed = "http://127.0.0.1:9"  # the discard port: a child that asks for the net fails at once
    os.environ.update(
        HOME=str(home),
        SEATRIAL_DIR=str(home / "state"),
        HF_HOME=str(home / "hf"),
        HF_HUB_OFFLINE="1",
        HF_HUB_DISABLE_TELEMETRY="1",
        TOKENIZERS_PARALLELISM="false",
        http_proxy=closed,
        https_proxy=closed,
        HTTP_PROXY=closed,
        HTTPS_PROXY=closed,
        no_proxy="localhost,127.0.0.1,::1",
        NO_PROXY="localhost,127.0.0.1,::1",
    )
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell without job control starts what is behind "&" like that, and children inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    socket.socket.connect = _connect_here_only  # type: ignore[method-assign]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put everything back and remove the session's home."""
    if "environ" not in _state:
        return
    socket.socket.connect = _REAL_CONNECT  # type: ignore[method-assign]
    os.environ.clear()
    os.environ.update(_state.pop("environ"))
    shutil.rmtree(_state.pop("home"), ignore_errors=True)


@pytest.fixture(scope="session")
def isolated_home() -> Path:
    """The session's home folder: the only one that tests and their children know."""
    return Path(os.environ["HOME"])


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of this repository."""
    return Path(__file__).parent.parent
