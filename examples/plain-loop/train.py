"""Teach a small transformer to add: a plain PyTorch loop, top to bottom, nothing but torch.

    python train.py --steps 150 --out out

The data are made on the spot: "17+58=57$" is a sum with its digits written backwards, because
that is the order in which a carry travels. Only the answer is learned from; the question's
positions carry the label -100, which cross-entropy leaves out. About twenty seconds on two cores.
"""

import argparse
import random
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

ALPHABET = "0123456789+=$"
CODE = {letter: number for number, letter in enumerate(ALPHABET)}
LENGTH = 10  # "99+99=891$" is the longest
IGNORED = -100


def encode(first: int, second: int) -> tuple[list[int], list[int]]:
    """One sum as tokens and labels; a label is the token that comes next."""
    question, answer = f"{first}+{second}=", str(first + second)[::-1] + "$"
    tokens = [CODE[letter] for letter in (question + answer).ljust(LENGTH, "$")]
    labels = [IGNORED] * LENGTH
    for place in range(len(question), len(question) + len(answer)):
        labels[place - 1] = tokens[place]
    return tokens, labels


def batch_of(rng: random.Random, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of random sums of up to two digits."""
    pairs = [encode(rng.randrange(100), rng.randrange(100)) for _ in range(rows)]
    return torch.tensor([t for t, _ in pairs]), torch.tensor([labels for _, labels in pairs])


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over the supervised positions of the whole batch."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)


class Block(nn.Module):
    """Attention over what came before, then two layers at each place."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.norm_in, self.norm_mid = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        split = self.qkv(self.norm_in(x)).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        rate = self.rate if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=rate)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.norm_mid(x))


class Adder(nn.Module):
    """A decoder of the usual kind, small enough for a laptop."""

    def __init__(self, width: int = 96, layers: int = 2, heads: int = 4, dropout: float = 0.1):
        super().__init__()
        self.token = nn.Embedding(len(ALPHABET), width)
        self.place = nn.Embedding(LENGTH, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def validate(model: Adder, seed: int = 1) -> float:
    """Loss on 512 sums that are the same at every call; dropout is off meanwhile."""
    model.eval()
    tokens, labels = batch_of(random.Random(seed), 512)
    loss = loss_of(model(tokens), labels).item()
    model.train()
    return loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--eval-every", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = random.Random(args.seed + 1)
    args.out.mkdir(parents=True, exist_ok=True)

    model = Adder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=args.steps)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {args.steps} steps")

    for step in range(1, args.steps + 1):
        tokens, labels = batch_of(rng, args.batch)
        loss = loss_of(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

        if step % 10 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}")
        if step % args.eval_every == 0 or step == args.steps:
            print(f"step {step:4d}  validation loss {validate(model):.4f}")
            state = {
                "step": step,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
            }
            torch.save(state, args.out / f"checkpoint-{step}.pt")


if __name__ == "__main__":
    main()
