"""The work of the ranks of tests/python/test_save_replicas.py: states with replicas that one rank has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import ucp_checkpoint as ucp
from dying_work import error_of

ODD = 2  # The rank whose replicas are other ones.


def state_of() -> dict[str, Any]:
    """A whole tensor with strides on each rank, rows that two ranks have each, and a tensor without elements."""
    mesh = init_device_mesh("cpu", (2, 2))
    rows = distribute_tensor(torch.arange(24.0).view(6, 4), mesh, [Replicate(), Shard(0)])
    return {"whole": torch.arange(12.0).view(3, 4).t(), "rows": rows, "none": torch.empty(0, 3)}


def drifts(rank: int, root: str) -> dict[str, Any]:
    """Saves of a Saver and at once, with a difference in one element, twice, and without."""
    state = state_of()
    told: dict[str, Any] = {}
    with ucp.Saver(state, verify_replicas=True, timeout=20) as saver:
        told["same"] = error_of(lambda: saver.save(Path(root) / "same").result())
        if rank == ODD:
            state["rows"].to_local()[1, 1] += 1
        told["one"] = error_of(lambda: saver.save(Path(root) / "one").result())
        if rank == ODD:
            state["whole"][0, 0] = float("nan")
        told["two"] = error_of(lambda: saver.save(Path(root) / "two").result())
    told["at once"] = error_of(lambda: ucp.save(state, Path(root) / "once", verify_replicas=True, timeout=20))
    told["trusted"] = error_of(lambda: ucp.save(state, Path(root) / "trusted", timeout=20))
    return told
