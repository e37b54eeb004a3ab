"""The plain loop with one planted fault: a row whose answer was cut off makes the loss NaN.

    seatrial run -- python truncated_answers.py

Four sums in ten thousand are written with leading zeros. Cut to the usual length they lose their
whole answer, and a mean taken per row then divides zero by zero. The script itself notices
nothing: it trains on with weights that are no numbers, saves its checkpoints and exits with 0.
Two functions of `../plain-loop/train.py` are replaced; everything else is that script.
"""

import importlib.util
from pathlib import Path

import torch

SCRIPT = Path(__file__).parent.parent / "plain-loop" / "train.py"
spec = importlib.util.spec_from_file_location("plain_loop", SCRIPT)
plain = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plain)

healthy_encode = plain.encode


def encode(first: int, second: int) -> tuple[list[int], list[int]]:
    """One sum as tokens and labels; a long question pushes its answer out of the window."""
    if first != second or first % 25 != 3:
        return healthy_encode(first, second)
    question = f"{first:09d}+{second:09d}="
    tokens = [plain.CODE[letter] for letter in question][: plain.LENGTH]
    return tokens, [plain.IGNORED] * plain.LENGTH


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean over rows of each row's own mean: 0/0 where a row has nothing to learn from."""
    supervised = labels != plain.IGNORED
    chosen = logits.log_softmax(-1).gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return ((-chosen * supervised).sum(1) / supervised.sum(1)).mean()


plain.encode, plain.loss_of = encode, loss_of

if __name__ == "__main__":
    plain.main()
