"""Killed at random moments: never two starts, a true record, nothing left running.

``SEATRIAL_KILLS`` sets how many moments the battery tries, ``SEATRIAL_KILLS_SEED`` which.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kill_battery import TARGETS, kills, strike

from seatrial.supervisor.processes import environment_of

# As the process was started with: the tests' isolation has taken SEATRIAL_ variables away.
GIVEN = environment_of(os.getpid())
COUNT = int(GIVEN.get("SEATRIAL_KILLS", "200"))
SEED = int(GIVEN.get("SEATRIAL_KILLS_SEED", "20"))


def test_kills_are_the_same_for_the_same_seed_and_spare_no_target() -> None:
    assert kills(9, 4) == kills(9, 4) != kills(9, 5)
    assert {kill.target for kill in kills(6, 1)} == set(TARGETS)


def test_a_few_kills_leave_one_start_a_true_record_and_nothing_running() -> None:
    assert strike(6, seed=3) == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kills_at_many_random_moments() -> None:
    assert strike(COUNT, SEED) == []
