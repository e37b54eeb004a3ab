"""``seatrial freeze`` with names on the Hub: pinned once, and never looked up again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("huggingface_hub")

TRIAL = """
schema = 1
[bounds]
max_steps = 5
wall = "1m"
[runner]
command = ["python", "train.py"]
[[input]]
id = "data"
role = "train"
hub = "org/data"
split = "train"
[[input]]
id = "model"
role = "model"
hub = "private/model"
revision = "aaaaaaa"
"""


def freeze(folder: Path, stand_in: Any, *words: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "freeze", *words],
        cwd=folder,
        env={
            **os.environ,
            "SEATRIAL_DIR": str(folder / ".seatrial"),
            "HF_ENDPOINT": stand_in.url,
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": stand_in.token,
            **env,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    text = done.stdout + done.stderr
    assert "Traceback" not in text and stand_in.token not in text
    return done.returncode, text


def test_branches_are_pinned_and_then_left_alone(tmp_path: Path, stand_in: Any) -> None:
    (tmp_path / "trial.toml").write_text(TRIAL)
    (tmp_path / "train.py").write_text("x = 1\n")
    code, text = freeze(tmp_path, stand_in)
    assert code == 0 and f"data: org/data at {stand_in.main}" in text
    lock = json.loads((tmp_path / "trial.lock").read_text())
    assert [
        (entry["asked"], entry["repo_type"], entry["revision"], entry.get("split"))
        for entry in lock["inputs"]
    ] == [(None, "dataset", stand_in.main, "train"), ("aaaaaaa", "model", stand_in.main, None)]
    assert stand_in.token not in (tmp_path / "trial.lock").read_text()

    stand_in.asked.clear()
    assert freeze(tmp_path, stand_in, "--check")[0] == 0
    (tmp_path / "trial.toml").write_text(TRIAL.replace('"aaaaaaa"', '"dev/x"'))
    code, text = freeze(tmp_path, stand_in, "--check")
    assert code == 3 and "asked is dev/x, in the lock aaaaaaa" in text
    assert stand_in.asked == []

    code, text = freeze(tmp_path, stand_in)
    assert code == 0 and f"model: private/model at {stand_in.dev}" in text
    code, text = freeze(tmp_path, stand_in, HF_HUB_OFFLINE="1")
    assert code == 0 and "stay as the lock has them" in text
    asked = len(stand_in.asked)
    (tmp_path / "trial.lock").unlink()
    code, text = freeze(tmp_path, stand_in, HF_HUB_OFFLINE="1")
    assert code == 2 and "no fixed commit" in text and len(stand_in.asked) == asked
    assert not (tmp_path / "trial.lock").exists()
