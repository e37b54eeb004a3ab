"""Secrets planted in environment, argv, output and exceptions appear nowhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch

SECRETS = {
    "MY_API_KEY": "zq8-Secret/Value+77",
    "HF_TOKEN": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "DB_PASSWORD": "p@ss \"quoted\" 'word'",
}
ARGV_SECRET = "argvsecret-4711-xyz"

SCRIPT = """
import base64, os, sys, urllib.parse, torch
print(dict(os.environ)); print(sys.argv)
for name in ("MY_API_KEY", "HF_TOKEN", "DB_PASSWORD"):
    value = os.environ[name]
    print(name, value, repr(value), urllib.parse.quote(value), base64.b64encode(value.encode()))
    print("x" * 70000 + value, file=sys.stderr)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.randn(4, 2)).pow(2).mean()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
raise RuntimeError("cannot log in with " + os.environ["MY_API_KEY"])
"""


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "train.py"]


def test_no_secret_lands_anywhere(place: Any) -> None:
    import base64
    import urllib.parse

    place.write("train.py", SCRIPT)
    answer = place.seatrial(
        "run", "--json", "--out", "copy", "--",
        sys.executable, "train.py", "--api-key", ARGV_SECRET, f"--token={ARGV_SECRET}",
        env=SECRETS,
    )  # fmt: skip
    assert answer.code == 1
    assert "cannot log in with [secret" in answer.result["findings"][0]["message"]
    needles = [ARGV_SECRET.encode()]
    for value in SECRETS.values():
        needles += [
            value.encode(),
            urllib.parse.quote(value).encode(),
            base64.b64encode(value.encode()),
        ]
    looked = _files(place.folder)
    assert len(looked) > 12
    for path in looked:
        content = path.read_bytes()
        for needle in needles:
            assert needle not in content, f"{needle!r} in {path}"
    for needle in needles:
        assert needle.decode() not in answer.out
        assert needle.decode() not in answer.err
