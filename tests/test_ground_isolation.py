"""The session's isolation really isolates."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def test_home_is_not_the_users(isolated_home: Path) -> None:
    assert Path("~").expanduser() == isolated_home
    assert Path(pwd.getpwuid(os.getuid()).pw_dir) != isolated_home


def test_no_setting_of_an_outer_run_is_seen() -> None:
    names = sorted(name for name in os.environ if name.startswith("SEATRIAL_"))
    assert names == ["SEATRIAL_DIR"]
    assert os.environ["SEATRIAL_DIR"].startswith(os.environ["HOME"])


def test_the_network_is_refused() -> None:
    with socket.socket() as outside, pytest.raises(OSError, match="tests have no network"):
        outside.connect(("192.0.2.1", 80))  # TEST-NET-1 of RFC 5737: nobody's address


def test_this_machine_is_reached() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(server.getsockname(), timeout=5):
            pass


def test_children_are_isolated_too() -> None:
    code = "import os; print(os.path.expanduser('~'), os.environ['HF_HUB_OFFLINE'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [os.environ["HOME"], "1"]


def test_a_child_cannot_reach_the_net_through_a_proxy_variable() -> None:
    code = "import urllib.request as r; r.urlopen('http://example.invalid', timeout=5)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Connection refused" in done.stderr
