"""One file with subcommands; chatting asks a person, training does not."""

import argparse
import sys
from pathlib import Path

import torch
from torch import nn


def add_common(parser):
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)


def train(args):
    torch.manual_seed(args.seed)
    model = nn.LSTM(8, 16)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    for step in range(args.steps):
        out, _ = model(torch.randn(4, 2, 8))
        loss = out.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not step % 10:
            sys.stdout.write(f"{step} {loss.item():.4f}\n")
            sys.stdout.flush()
    torch.save(model.state_dict(), args.out / "last.pt")


def checkpoints(folder):
    return sorted(Path(folder).glob("checkpoint-*"), key=lambda p: int(p.name.split("-")[1]))


def prune(args):
    for old in checkpoints(args.out)[:-3]:
        print("would remove", old)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    add_common(training)
    training.add_argument("--steps", type=int, default=100)
    training.add_argument("--lr", type=float, default=1e-3)
    training.add_argument("--out", type=Path, default=Path("out"))
    training.set_defaults(run=train)
    pruning = commands.add_parser("prune")
    add_common(pruning)
    pruning.add_argument("--out", type=Path, default=Path("out"))
    pruning.set_defaults(run=prune)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
