"""A king walks on a 4 x 4 board: the rules, and nothing about models.

The king steps to one of the up to eight squares around it, never onto a blocked one, and wants to
reach the goal. A position offers its legal moves under random ids (``b3=m07``), so that an answer
is legal only when its id was read from the position, and good only when the square behind the id
was too.
"""

from __future__ import annotations

import json
import random
from collections import deque
from dataclasses import dataclass

SQUARES = tuple(file + rank for file in "abcd" for rank in "1234")
MOVE_IDS = tuple(f"m{number:02d}" for number in range(24))


@dataclass(frozen=True)
class Position:
    """Where everything stands, and which id stands for which square."""

    king: str
    goal: str
    blocked: tuple[str, ...]
    moves: dict[str, str]  # id -> square, in the order in which they are shown

    @property
    def board(self) -> tuple[str, str, tuple[str, ...]]:
        """What makes two positions the same: ids and their order are only names."""
        return self.king, self.goal, tuple(sorted(self.blocked))


def steps_from(square: str, blocked: tuple[str, ...]) -> list[str]:
    """The squares one king step away, in board order."""
    file, rank = ord(square[0]), ord(square[1])
    return [
        other
        for other in SQUARES
        if max(abs(ord(other[0]) - file), abs(ord(other[1]) - rank)) == 1 and other not in blocked
    ]


def distances(goal: str, blocked: tuple[str, ...]) -> dict[str, int]:
    """Steps to the goal from every square that can reach it."""
    found = {goal: 0}
    queue = deque([goal])
    while queue:
        here = queue.popleft()
        for other in steps_from(here, blocked):
            if other not in found:
                found[other] = found[here] + 1
                queue.append(other)
    return found


def draw(rng: random.Random) -> Position | None:
    """A random position, or None when the goal cannot be reached."""
    king, goal, *blocked = rng.sample(SQUARES, 4)
    walls = tuple(sorted(blocked))
    if king not in distances(goal, walls):
        return None
    squares = steps_from(king, walls)
    rng.shuffle(squares)
    ids = rng.sample(MOVE_IDS, len(squares))
    return Position(king, goal, walls, dict(zip(ids, squares, strict=True)))


def best_moves(position: Position) -> list[str]:
    """The ids of the moves that lie on a shortest way, in the order shown."""
    far = distances(position.goal, position.blocked)
    reach = {move: far[square] for move, square in position.moves.items() if square in far}
    return [move for move, steps in reach.items() if steps == min(reach.values())]


def question(position: Position) -> str:
    """The user's turn of the chat."""
    moves = ",".join(f"{square}={move}" for move, square in position.moves.items())
    blocked = ",".join(position.blocked)
    return f"king {position.king} goal {position.goal} blocked {blocked} moves {moves}"


def answer(move: str) -> str:
    """The assistant's turn."""
    return json.dumps({"move": move})


def replay(position: Position, text: str) -> dict[str, bool]:
    """Play an answer: is it the JSON that was asked for, a move on offer, and a shortest way?"""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    move = value.get("move") if isinstance(value, dict) and set(value) == {"move"} else None
    legal = isinstance(move, str) and move in position.moves
    return {
        "well_formed": isinstance(move, str),
        "legal": legal,
        "best": legal and move in best_moves(position),
    }
