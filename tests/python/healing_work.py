"""The training script of tests/python/test_healing.py: a small model of several ranks, which goes on from memory.

It is started by torchrun. Each step has the same samples on any number of ranks, so that losses do not depend on it.
A line of JSON in the log of the job is written for each start, step and end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import ucp_checkpoint as ucp

SAMPLES = 8
WIDTH = 16


def train(settings: dict[str, Any], say: Any) -> None:
    """`step_seconds` each, up to `steps`. A file `raise-RANK` in the folder has that rank raise its text once."""
    torch.manual_seed(0)
    model = torch.nn.Linear(WIDTH, WIDTH).double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    rank, size, folder = dist.get_rank(), dist.get_world_size(), Path(settings["folder"])
    tier = ucp.memory.Tier(model, optimizer, job="job", directory=folder / "memory", every=1, machine="one")
    say(event="start", first=tier.first_step, size=size, pid=os.getpid())
    for step in range(tier.first_step, settings["steps"]):
        samples = torch.randn(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(step), dtype=torch.double)
        loss = model(samples[rank::size]).pow(2).sum() / SAMPLES
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        loss = loss.detach()
        dist.all_reduce(loss)
        optimizer.step()
        time.sleep(settings["step_seconds"])
        order = folder / f"raise-{rank}"
        if order.exists():
            text = order.read_text()
            order.unlink()
            raise RuntimeError(text)
        tier.step(step)
        say(event="step", step=step, loss=loss.item())
    tier.close()
    say(event="end")


def main() -> None:
    """`python healing_work.py SETTINGS`."""
    settings = json.loads(sys.argv[1])
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    def say(**words: Any) -> None:
        line = json.dumps({"rank": rank, "at": time.time(), **words}) + "\n"
        with (Path(settings["folder"]) / "said").open("a") as file:
            file.write(line)

    train(settings, say)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
