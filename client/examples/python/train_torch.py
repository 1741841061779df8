#!/usr/bin/env python3
"""A small network learns the classes of a feed. Alone, on several processes, and on from where it was stopped:

    python3 train_torch.py FEED
    torchrun --nproc_per_node=2 train_torch.py FEED
    python3 train_torch.py FEED --checkpoint run.pt      again after a kill: it goes on at the step of the checkpoint
"""
import argparse
import os

import torch
import torch.distributed as dist
from torch import nn

import dataload

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("feed")
parser.add_argument("--batch", type=int, default=32, help="rows for each process")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--classes", type=int, default=10)
parser.add_argument("--checkpoint", help="file; written every --every steps, read at the start where it exists")
parser.add_argument("--every", type=int, default=10)
options = parser.parse_args()

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)  # cores are for decoding


def network():
    """Of pictures of any size; bytes in, one number for each class out."""
    layers, channels = [], 3
    for more in (16, 32, 64):
        layers += [nn.Conv2d(channels, more, 3, stride=2, padding=1), nn.BatchNorm2d(more), nn.ReLU()]
        channels = more
    return nn.Sequential(nn.AvgPool2d(4), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, options.classes))


several = "RANK" in os.environ
if several:
    dist.init_process_group("gloo")
rank = dist.get_rank() if several else 0
net = network()
model = nn.parallel.DistributedDataParallel(net) if several else net
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

state = torch.load(options.checkpoint) if options.checkpoint and os.path.exists(options.checkpoint) else None
if state:
    net.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
step = state["step"] if state else 0

with dataload.Loader(options.feed, options.batch, dtype="float32", mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25],
                     resume=state and state["loader"]) as loader:
    while loader.epoch < options.epochs:
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if rank == 0:
                print(f"step {step} epoch {loader.epoch} loss {loss.item():.9f}", flush=True)
            if options.checkpoint and step % options.every == 0 and rank == 0:
                made = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "loader": loader.state_dict(), "step": step}
                torch.save(made, options.checkpoint + ".new")
                os.replace(options.checkpoint + ".new", options.checkpoint)
if several:
    dist.destroy_process_group()
