"""The work of the ranks of tests/python/test_memory_machines.py: machines that are late, full, or gone."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import ucp_checkpoint as ucp
from ucp_checkpoint import _copies, _streams


def tier_of(rank: int, root: str, job: str, **settings: Any) -> Any:
    model = fully_shard(torch.nn.Linear(64, 64), mesh=init_device_mesh("cpu", (2,)))
    how = {"every": 1, "machine": "ab"[rank], "directory": Path(root) / "ab"[rank]} | settings
    return ucp.memory.Tier(model, job=job, **how)


def beside_others(rank: int, root: str) -> dict[str, Any]:
    """Two machines, of which the second one has one trouble after the other; nothing else joins the ranks."""
    return {"late": late(rank, root), "full": full(rank, root), "again": again(rank, root), "gone": gone(rank, root)}


def late(rank: int, root: str) -> dict[str, Any]:
    """Versions that are due meanwhile are skipped, on both machines; the next one is also stored, if one was due."""
    settle = _copies.Copies._settle
    if rank == 1:
        _copies.Copies._settle = lambda self, task: (time.sleep(1), settle(self, task))[1]  # type: ignore[method-assign]
    storage = Path(root) / "storage"
    tier = tier_of(rank, root, "late", fallback=storage, persist_every=3)
    began = time.monotonic()
    for step in range(10):
        tier.step(step)
    seconds = time.monotonic() - began
    while not tier._copies.is_settled():
        time.sleep(0.01)
    report = tier.report()
    tier.step(10)
    while not tier._copies.is_settled():
        time.sleep(0.01)
    stored = sorted(path.name for path in storage.iterdir())
    tier.close()
    _copies.Copies._settle = settle  # type: ignore[method-assign]
    return {"seconds": seconds, "skipped": report["skipped"], "committed": report["committed"], "stored": stored}


def full(rank: int, root: str) -> list[str]:
    """A machine without memory for a copy: what both say, as an error and as a warning."""

    def refuse(path: Path, size: int) -> None:
        raise OSError(28, "No space left on device", str(path))

    told = []
    reserve = _streams.reserve
    for strict in (True, False):
        tier = tier_of(rank, root, f"full {strict}".replace(" ", "-"), strict=strict)
        if rank == 1:
            _streams.reserve = refuse
        try:
            for step in range(2):
                tier.step(step)
                while not tier._copies.is_settled():
                    time.sleep(0.01)
        except ucp.Error as error:
            told.append(str(error))
        _streams.reserve = reserve
        told.append(str(tier.report()["failures"]))
        tier.close()
    return told


def again(rank: int, root: str) -> dict[str, Any]:
    """The first version fails on the other machine: the interval is chosen by the next one."""
    tier = tier_of(rank, root, "again", every="auto", strict=False)
    if rank == 1:
        tier._copies._own_part = lambda _: os.stat("/nowhere")
    tier.step(0)
    while not tier._copies.is_settled():
        time.sleep(0.01)
    if rank == 1:
        del tier._copies._own_part
    step, until = 1, time.monotonic() + 60
    while tier.report()["every"] == "auto" and time.monotonic() < until:
        tier.step(step)
        step += 1
        time.sleep(0.02)
    report = tier.report()
    tier.close()
    return {"failures": report["failures"], "seconds": report["seconds_of_version"], "every": report["every"]}


def gone(rank: int, root: str) -> dict[str, Any]:
    """The other machine ends: this one trains on, without further versions."""
    tier = tier_of(rank, root, "gone")
    tier.step(0)
    while not tier._copies.is_settled():
        time.sleep(0.01)
    if rank == 1:
        os._exit(0)
    for step in range(1, 20):
        tier.step(step)
        time.sleep(0.05)
    report = tier.report()
    tier.close(keep=True)
    return {"paused": report["paused"], "failures": report["failures"], "committed": report["committed"]}
