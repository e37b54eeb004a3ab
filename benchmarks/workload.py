"""The training that the probe's cost is measured on: about 10 M parameters, plain PyTorch.

    python workload.py STEPS

Prints one JSON line: parameters, and the seconds of each step. It never imports anything of ours.
"""

from __future__ import annotations

import json
import sys
import time

import torch
from torch import nn

WIDTH, LAYERS, HEADS, VOCABULARY = 320, 7, 8, 2048
ROWS, LENGTH = 4, 64


def main(steps: int) -> None:
    """Train on random tokens for a number of steps and print the measured times."""
    torch.manual_seed(17)
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 4 * WIDTH, dropout=0.1, batch_first=True, norm_first=True
    )
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False),
        nn.Linear(WIDTH, VOCABULARY),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(VOCABULARY, (ROWS, LENGTH + 1))
    seconds = []
    for _ in range(steps):
        begin = time.perf_counter()
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(json.dumps({"parameters": parameters, "seconds": seconds, "loss": loss.item().hex()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
