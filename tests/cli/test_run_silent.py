"""Training that runs green and learns nothing, on real torch; the plain loop is the twin."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="real runs need torch")
pytestmark = pytest.mark.torch

OTHER_MODEL = "optimizer = torch.optim.AdamW(torch.nn.Linear(8, 1).parameters(), lr=1e-2)\n"
MASKED = """
import torch
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    labels = torch.full((8,), -100)
    loss = torch.nan_to_num(torch.nn.functional.cross_entropy(model(torch.randn(8, 4)), labels))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.mark.parametrize(
    ("fault", "code", "family"),
    [
        ("other-model", "optimizer.no_gradient", "optimizer"),
        ("detached", "optimizer.no_gradient", "optimizer"),
        ("no-rate", "schedule.no_learning_rate", "schedule"),
        ("masked", "labels.no_supervised_tokens", "labels"),
    ],
)
def test_a_run_that_learns_nothing_is_no_pass(
    place: Any, fault: str, code: str, family: str
) -> None:
    script = {
        "other-model": place.loop(25).replace("for step", OTHER_MODEL + "for step"),
        "detached": place.loop(25, before="loss = loss.detach().requires_grad_()"),
        "no-rate": place.loop(25).replace("lr=1e-2", "lr=0.0"),
        "masked": MASKED,
    }[fault]
    answer = place.run_script(script)
    result = answer.result
    assert (answer.code, result["outcome"]) == (1, "completed")
    first = result["findings"][0]
    assert (first["code"], first["family"], first["severity"]) == (code, family, "error")
    assert first["remedy"]
