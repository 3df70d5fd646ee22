"""The work of the ranks of tests/python/test_communicator.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch.distributed as dist

import ucp_checkpoint as ucp
from ucp_checkpoint import _ranks

sys.path.append(str(Path(os.environ["PYTHONPATH"]) / "tests"))


def suite(rank: int) -> list[str]:
    """The promises that the ranks of a group break."""
    import _ucp_suite

    with _ranks.Group(dist.group.WORLD) as group:
        return list(_ucp_suite.run(group.ranks))


def sizes_that_differ(rank: int) -> str:
    """Rank 0 expects more of rank 1 than it gives: the error of each of the ranks."""
    messages = _ranks.Messages(dist.group.WORLD)
    buffer = bytearray(10)
    try:
        if rank == 0:
            messages.deliver([], [(1, memoryview(buffer))])
        elif rank == 1:
            messages.deliver([(0, memoryview(b"123456789"))], [])
        messages.all_gather(b"")
    except ucp.Error as error:
        return str(error)
    return "delivered"
