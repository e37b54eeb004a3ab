"""The frozen splits of legal-moves: the bytes that the generator writes, and no board twice."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent.parent.parent / "examples" / "legal-moves"
SPLITS = ("train", "validation", "heldout")


def load_game() -> ModuleType:
    spec = importlib.util.spec_from_file_location("legal_moves_game", HERE / "game.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


game = load_game()


def rows_of(split: str) -> list[dict[str, Any]]:
    lines = (HERE / "data" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def position_of(row: dict[str, Any]) -> Any:
    return game.Position(row["king"], row["goal"], tuple(row["blocked"]), row["moves"])


def test_the_generator_writes_the_committed_bytes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(HERE / "make_data.py"), str(tmp_path)], check=True)
    for split in SPLITS:
        written = (tmp_path / f"{split}.jsonl").read_bytes()
        assert written == (HERE / "data" / f"{split}.jsonl").read_bytes(), split


def test_no_board_is_in_two_splits_or_twice_in_one() -> None:
    boards = [position_of(row).board for split in SPLITS for row in rows_of(split)]
    assert len(boards) == 2800
    assert len(set(boards)) == len(boards)


def test_every_row_asks_what_its_position_says_and_is_answered_well() -> None:
    for split in SPLITS:
        for row in rows_of(split):
            position = position_of(row)
            assert row["messages"][0]["content"] == game.question(position)
            reply = row["expected"] if split == "heldout" else row["messages"][1]["content"]
            assert game.replay(position, reply) == {
                "well_formed": True,
                "legal": True,
                "best": True,
            }, row["id"]


def test_a_heldout_case_does_not_show_its_answer() -> None:
    assert all(len(row["messages"]) == 1 for row in rows_of("heldout"))


POSITION = game.Position("a1", "c3", ("a3", "d4"), {"m05": "a2", "m01": "b2", "m09": "b1"})


@pytest.mark.parametrize(
    ("text", "well_formed", "legal", "best"),
    [
        ('{"move": "m01"}', True, True, True),
        ('{"move": "m05"}', True, True, False),
        ('{"move": "m02"}', True, False, False),
        ('{"move": 1}', False, False, False),
        ('{"move": ["m01"]}', False, False, False),
        ('{"move": "m01", "why": "near"}', False, False, False),
        ("m01", False, False, False),
        ("", False, False, False),
        ("[]", False, False, False),
    ],
)
def test_replay_judges_an_answer(text: str, well_formed: bool, legal: bool, best: bool) -> None:
    judged = game.replay(POSITION, text)
    assert judged == {"well_formed": well_formed, "legal": legal, "best": best}


def test_distances_go_around_what_is_blocked() -> None:
    assert game.distances("c1", ("b1", "b2"))["a1"] == 4
    assert "a1" not in game.distances("d4", ("a2", "b1", "b2"))
    assert sorted(game.steps_from("a1", ("b2",))) == ["a2", "b1"]


def test_a_drawn_position_offers_each_legal_square_once() -> None:
    rng = random.Random(3)
    drawn = [position for position in (game.draw(rng) for _ in range(300)) if position]
    assert len(drawn) > 250
    for position in drawn:
        squares = list(position.moves.values())
        assert sorted(squares) == sorted(game.steps_from(position.king, position.blocked))
        assert len(position.moves) == len(set(position.moves)) == len(squares)
