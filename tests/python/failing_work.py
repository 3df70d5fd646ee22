"""The work of the ranks of tests/python/test_failing_ranks.py."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

import ucp_checkpoint as ucp
from held import checkpoint
from ucp_checkpoint import _ranks
from ucp_checkpoint._target import Target


def die_in_message(rank: int, victim: int, message: int) -> dict[str, Any]:
    """The victim is killed when it would send its Nth message of a load; how the load ends for the others."""
    exchange = _ranks.Messages._exchange
    sent = 0

    def exchange_or_die(messages: _ranks.Messages, mine: bytes) -> list[bytes]:
        nonlocal sent
        sent += 1
        if rank == victim and sent == message:
            os.kill(os.getpid(), signal.SIGKILL)
        return exchange(messages, mine)

    _ranks.Messages._exchange = exchange_or_die
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    target = {"blocks.0.up.weight": distribute_tensor(torch.zeros(50, 33), mesh, [Shard(0)])}
    begin = time.monotonic()
    try:
        ucp.load_into(target, checkpoint("zero1_dp2"), strict=False)
    except ucp.Error as error:
        return {"error": str(error), "code": error.code, "seconds": time.monotonic() - begin, "sent": sent}
    return {"error": "", "code": "", "seconds": time.monotonic() - begin, "sent": sent}


def die_at_work(rank: int, victim: int) -> dict[str, Any]:
    """The victim is killed while all work, between two messages; how soon the others stop."""
    group = _ranks.Group(dist.group.WORLD)
    begin = time.monotonic()
    error = ""
    try:
        with group:
            if rank == victim:
                time.sleep(1)
                os.kill(os.getpid(), signal.SIGKILL)
            while not group.ranks.is_asked_to_stop and time.monotonic() < begin + 60:
                time.sleep(0.05)
            group.all_gather(b"done")
    except ucp.Error as failure:
        error = str(failure)
    return {"error": error, "seconds": time.monotonic() - begin}


def interrupted(rank: int, victim: int, place: str) -> dict[str, Any]:
    """Ctrl-C on one rank alone, which goes on: how the load ends for all, and what the next one finds."""
    path, world = checkpoint("zero1_dp2"), dist.group.WORLD
    owner, name = {"message": (_ranks.Messages, "_exchange"), "between": (Target, "memory_of")}[place]
    own = getattr(owner, name)

    def interrupt(*arguments: Any) -> Any:
        setattr(owner, name, own)
        raise KeyboardInterrupt

    tensor = torch.zeros(50)
    if rank == victim:
        setattr(owner, name, interrupt)
    try:
        ucp.load_into({"blocks.0.up.bias": tensor}, path, strict=False, group=world)
        told = "filled"
    except KeyboardInterrupt:
        told = "interrupted"
    except ucp.Error as error:
        told = str(error)
    ucp.load_into({"blocks.0.up.bias": tensor}, path, strict=False, group=world)
    right = ucp.load(path, to="universal", tensors="blocks.0.up.bias", states="fp32")["blocks.0.up.bias"]["fp32"]
    return {"told": told, "next": torch.equal(tensor, right)}
