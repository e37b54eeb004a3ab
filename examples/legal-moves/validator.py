"""What an answer is worth: the validator and the normalizer that the trial freezes.

The fields build on each other: an answer that cannot be parsed names no id, an id that was not
supplied is no move, and a move that is not legal cannot be replayed.
"""

import json

import game


def normalize(text: str) -> str:
    """The answer without blanks around it; nothing inside it is repaired."""
    return text.strip()


def validate(case: dict, text: str) -> dict:
    """Judge one answer.

    parse: it is a JSON object with exactly one key, move, that holds a text.
    supplied_id: the id is one of those on offer.
    legal: the square behind it is one king step away, on the board and not blocked; worked out from
        the board, not taken from the offer.
    replay: the move is played, and from the new square the goal can still be reached.
    best: the square lies on a shortest way.
    """
    position = game.Position(case["king"], case["goal"], tuple(case["blocked"]), case["moves"])
    move = _move(text)
    supplied = move in position.moves
    square = position.moves.get(move)
    legal = supplied and square in game.steps_from(position.king, position.blocked)
    replayed = legal and square in game.distances(position.goal, position.blocked)
    return {
        "parse": move is not None,
        "supplied_id": supplied,
        "legal": legal,
        "replay": replayed,
        "best": replayed and move in game.best_moves(position),
    }


def _move(text: str) -> "str | None":
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict) or set(value) != {"move"}:
        return None
    return value["move"] if isinstance(value["move"], str) else None
