"""A plain loop with a class, a scheduler, AMP and its own checkpoints."""

import argparse
import json
import logging
import random
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("train")


def get_args(argv=None):
    p = argparse.ArgumentParser()
    data = p.add_argument_group("data")
    data.add_argument("--rows", type=int, default=4096)
    data.add_argument("--batch-size", "-b", type=int, default=64)
    opt = p.add_argument_group("optimizer")
    opt.add_argument("--lr", type=float, default=1e-3)
    opt.add_argument("--betas", type=float, nargs=2, default=(0.9, 0.95))
    opt.add_argument("--clip", type=float)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=False)
    p.add_argument("--out", type=Path, default=Path("out"))
    p.add_argument("-v", "--verbose", action="count", default=0)
    mode = p.add_mutually_exclusive_group()
    mode.add_argument("--resume", type=Path, default=None)
    mode.add_argument("--fresh", action="store_true")
    return p.parse_args(argv)


class Runner:
    def __init__(self, args):
        self.args = args
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr, betas=tuple(args.betas))
        self.best = float("inf")
        self.step = 0

    def batches(self, train=True):
        x = torch.randn(self.args.rows, 32)
        y = x.sum(1, keepdim=True)
        return DataLoader(TensorDataset(x, y), batch_size=self.args.batch_size, shuffle=train)

    def evaluate(self, loader):
        self.model.eval()
        total = 0.0
        with torch.no_grad():
            for x, y in loader:
                total += nn.functional.mse_loss(self.model(x.to(self.device)), y).item()
        self.model.train()
        return total / len(loader)

    def save(self, name):
        state = {"model": self.model.state_dict(), "opt": self.opt.state_dict(), "step": self.step}
        torch.save(state, self.args.out / name)

    def train(self):
        ctx = torch.autocast(self.device) if self.args.amp else nullcontext()
        for epoch in range(self.args.epochs):
            start = time.time()
            for x, y in self.batches():
                with ctx:
                    loss = nn.functional.mse_loss(self.model(x.to(self.device)), y)
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                if self.args.clip:
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
                self.opt.step()
                self.step += 1
            value = self.evaluate(self.batches(train=False))
            log.info("epoch %d loss %.4f %.1fs", epoch, value, time.time() - start)
            if value < self.best:
                self.best = value
                self.save("best.pt")


def main():
    args = get_args()
    logging.basicConfig(level=logging.DEBUG if args.verbose else logging.INFO)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "args.json").write_text(json.dumps(vars(args), default=str))
    runner = Runner(args)
    if args.resume:
        runner.model.load_state_dict(torch.load(args.resume, weights_only=True)["model"])
    runner.train()
    print(f"best {runner.best:.4f} after {runner.step} steps")


if __name__ == "__main__":
    main()
