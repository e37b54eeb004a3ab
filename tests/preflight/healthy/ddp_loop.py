"""Data parallel training by hand, started by torchrun."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = int(os.environ.get("STEPS", 50))


def setup():
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend)
    rank = dist.get_rank()
    if rank == 0:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
        print(f"world {dist.get_world_size()}, devices {visible}", flush=True)
    return rank


def train(model, optimizer, rank):
    for step in range(STEPS):
        x = torch.randn(16, 8)
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(step, loss.item(), flush=True)


def main() -> int:
    rank = setup()
    try:
        model = DDP(torch.nn.Linear(8, 1))
        train(model, torch.optim.SGD(model.parameters(), lr=0.01), rank)
        if rank == 0:
            torch.save(model.module.state_dict(), "last.pt")
    finally:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
