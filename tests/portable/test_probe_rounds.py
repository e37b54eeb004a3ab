"""Update rounds and segments of a process."""

from __future__ import annotations

from seatrial.probe.rounds import Rounds


def test_one_optimizer_has_one_round_a_step() -> None:
    rounds = Rounds()
    rounds.created(1)
    assert [rounds.stepped(1).step for _ in range(3)] == [1, 2, 3]
    assert rounds.segment == 1
    assert rounds.steps_in_segment == 3
    assert rounds.round_is_complete(1)


def test_two_optimizers_in_turn_share_a_round() -> None:
    rounds = Rounds()
    rounds.created(1)
    rounds.created(2)
    counted = [rounds.stepped(name) for name in (1, 2, 1, 2)]
    assert [c.step for c in counted] == [1, 1, 2, 2]
    assert [c.nth for c in counted] == [1, 2, 1, 2]
    assert [c.optimizer for c in counted] == [0, 1, 0, 1]
    assert {c.segment for c in counted} == {1}


def test_a_round_is_complete_when_all_that_belong_to_it_have_stepped() -> None:
    rounds = Rounds()
    for name in (1, 2):
        rounds.created(name)
    rounds.stepped(1)
    assert not rounds.round_is_complete(2)
    rounds.stepped(2)
    assert rounds.round_is_complete(2)
    rounds.stepped(1)
    assert not rounds.round_is_complete(2)


def test_an_optimizer_of_the_beginning_that_joins_late_begins_no_segment() -> None:
    rounds = Rounds()
    for name in (1, 2):
        rounds.created(name)
    segments = {rounds.stepped(name).segment for name in (1, 1, 1, 1, 2, 1)}
    assert segments == {1}


def test_one_that_is_made_later_begins_a_segment_and_never_resets_the_step() -> None:
    rounds = Rounds()
    rounds.created(1)
    rounds.stepped(1)
    rounds.stepped(1)
    rounds.created(2)
    assert rounds.begins_segment(2)
    counted = rounds.stepped(2)
    assert (counted.step, counted.segment, counted.opened_segment) == (3, 2, True)
    assert rounds.steps_in_segment == 1
    assert (rounds.stepped(2).step, rounds.segment) == (4, 2)


def test_a_number_that_is_used_again_is_another_optimizer() -> None:
    rounds = Rounds()
    rounds.created(1)
    rounds.stepped(1)
    rounds.created(1)
    assert rounds.stepped(1).segment == 2


def test_each_train_call_is_a_segment_and_so_is_a_loop_after_it() -> None:
    rounds = Rounds()
    for expected in (1, 2):
        assert rounds.begin_trainer() == expected
        rounds.created(expected)
        rounds.stepped(expected)
        rounds.stepped(expected)
        assert rounds.steps_in_segment == 2
        rounds.end_trainer()
    counted = rounds.stepped(2)
    assert (counted.step, counted.segment) == (5, 3)
    assert not rounds.in_trainer
