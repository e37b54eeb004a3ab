"""View, supervisor and training killed with -9 at random moments of a whole ``seatrial run``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from view_battery import FAKE, TARGETS, kills, strike

from seatrial.supervisor.processes import environment_of

# As the process was started with: the tests' isolation has taken SEATRIAL_ variables away.
GIVEN = environment_of(os.getpid())
COUNT = int(GIVEN.get("SEATRIAL_KILLS", "200"))
SEED = int(GIVEN.get("SEATRIAL_KILLS_SEED", "20"))
SPAN_S = 4.0

PLAIN_LOOP = """
import sys, os, torch
open(sys.argv[1], "a").write("%d\\n" % os.getpid())
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(30):
    x = torch.randn(32, 8)
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    torch.save(model.state_dict(), "model.pt")
    __import__("time").sleep(0.1)
"""


def test_moments_are_the_same_for_the_same_seed_and_spare_nobody() -> None:
    assert kills(9, 4, 1.0) == kills(9, 4, 1.0) != kills(9, 5, 1.0)
    assert {kill.target for kill in kills(3, 1, 1.0)} == set(TARGETS)


def test_a_view_a_supervisor_and_a_training_killed_once() -> None:
    assert strike(kills(3, 7, 2.5), FAKE, together=3) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_of_the_whole_command_at_many_random_moments() -> None:
    assert strike(kills(COUNT, SEED, SPAN_S), FAKE) == []


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(1800)
def test_kills_of_the_real_plain_loop() -> None:
    pytest.importorskip("torch", reason="the real loop needs torch")
    assert strike(kills(10, SEED, 8.0), PLAIN_LOOP, together=2) == []
