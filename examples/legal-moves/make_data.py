"""Write the frozen splits of ``data/``: same seed, same bytes. No board is in two splits.

python make_data.py [FOLDER]
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import game

SEED = 2026
SPLITS = {"train": 2400, "validation": 200, "heldout": 200}


def main(folder: Path) -> None:
    rng = random.Random(SEED)
    boards = set()
    for split, count in SPLITS.items():
        rows = []
        while len(rows) < count:
            position = game.draw(rng)
            if position is None or position.board in boards:
                continue
            boards.add(position.board)
            messages = [{"role": "user", "content": game.question(position)}]
            reply = game.answer(game.best_moves(position)[0])
            row = {"id": f"{split}-{len(rows):04d}", "moves": position.moves}
            row |= {"king": position.king, "goal": position.goal, "blocked": position.blocked}
            if split == "heldout":  # a case is what the model is asked; the rest is for the judge
                row |= {"messages": messages, "expected": reply}
            else:
                row |= {"messages": [*messages, {"role": "assistant", "content": reply}]}
            rows.append(json.dumps(row))
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data")
