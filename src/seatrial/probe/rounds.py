"""Counting update rounds and segments of a process. Pure, knows no torch.

Rules:

- A round is one loop iteration's worth of optimizer steps: it ends when an optimizer that already
  stepped in it steps again. A GAN's two optimizers share a round; one optimizer alone has one
  round a step. Rounds are counted from 1 and never reset.
- A segment is one ``train()`` call of a Trainer. Outside of those a new segment begins when an
  optimizer steps for the first time that was *created* after others had begun to step (a second
  phase), and when steps go on after a ``train()`` call ended. An optimizer that existed from the
  beginning and joins late (a generator trained every fifth iteration) begins no segment.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Set


class Counted(NamedTuple):
    """Where one optimizer step stands.

    ``opened_segment`` tells that it began a segment; ``nth`` counts the steps within the round.
    """

    step: int
    segment: int
    optimizer: int
    nth: int
    opened_segment: bool


class Rounds:
    """The counter. Optimizers are named by any integer that is not reused while they live."""

    def __init__(self) -> None:
        self.step = 0
        self.segment = 0
        self.segment_first_step = 1
        self.in_trainer = False
        self._in_round: Set[int] = set()
        self._last_round: Optional[Set[int]] = None
        self._nth = 0
        self._indices: Dict[int, int] = {}
        self._created: Dict[int, int] = {}
        self._must_open = True

    @property
    def steps_in_segment(self) -> int:
        """Update rounds of the current segment so far."""
        return self.step - self.segment_first_step + 1 if self.segment else 0

    def created(self, optimizer: int) -> None:
        """An optimizer was made; its number may have belonged to one that is gone."""
        self._created[optimizer] = self.step
        self._indices.pop(optimizer, None)
        self._in_round.discard(optimizer)

    def begin_trainer(self) -> int:
        """A ``train()`` call begins: a segment of its own. Its number is returned."""
        self._open_segment()
        self.in_trainer = True
        return self.segment

    def end_trainer(self) -> None:
        """The ``train()`` call is over; later steps belong to another segment."""
        self.in_trainer = False
        self._must_open = True

    def _open_segment(self) -> None:
        self.segment += 1
        self.segment_first_step = self.step + 1
        self._indices.clear()
        self._close_round()
        self._last_round = None
        self._must_open = False

    def _close_round(self) -> None:
        if self._in_round:
            self._last_round = set(self._in_round)
        self._in_round.clear()

    def _begins_segment(self, optimizer: int) -> bool:
        if self._must_open:
            return True
        if self.in_trainer or optimizer in self._indices:
            return False
        return self._created.get(optimizer, 0) >= self.segment_first_step

    def begins_round(self, optimizer: int) -> bool:
        """Whether the next step of this optimizer would begin a round."""
        return not self._in_round or optimizer in self._in_round or self._begins_segment(optimizer)

    def begins_segment(self, optimizer: int) -> bool:
        """Whether the next step of this optimizer would begin a segment."""
        return self._begins_segment(optimizer)

    def stepped(self, optimizer: int) -> Counted:
        """An optimizer stepped."""
        opened = self._begins_segment(optimizer)
        if opened:
            self._open_segment()
        elif optimizer in self._in_round:
            self._close_round()
        if not self._in_round:
            self.step += 1
            self._nth = 0
        self._in_round.add(optimizer)
        self._nth += 1
        index = self._indices.setdefault(optimizer, len(self._indices))
        return Counted(self.step, self.segment, index, self._nth, opened)

    def round_is_complete(self, alive: int) -> bool:
        """Whether every optimizer that is expected in this round has stepped.

        Args:
            alive: optimizers that exist now; decides in the first round, where no earlier round
                tells how many belong to one.
        """
        if self._last_round is None:
            return bool(self._in_round) and (alive <= 1 or len(self._in_round) >= alive)
        return self._in_round >= self._last_round
