"""The work of the ranks of tests/python/test_writer.py: they save by torch.distributed.checkpoint, with our writer."""

from __future__ import annotations

import io
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

import ucp_checkpoint as ucp
from fixtures.dcp_models import train_step
from save_work import CASES, built, folder_of, stopped_state

# The targets of each job, beside PyTorch's own folder.
TARGETS = {
    "ddp": ["dcp", "deepspeed:dp=2,zero=1,dtype=fp32"],
    "fsdp2": ["dcp", "universal"],
    "fsdp2_tp": ["dcp", "safetensors:dtype=bf16"],
}


class Elsewhere(dcp.DefaultSavePlanner):
    """A planner that cannot give its data on rank 1."""

    def resolve_data(self, write_item: Any) -> torch.Tensor | io.BytesIO:
        if dist.get_rank() == 1:
            raise OSError("the data are gone")
        return super().resolve_data(write_item)


class Deadly(dcp.DefaultSavePlanner):
    """A planner that ends rank 3."""

    def resolve_data(self, write_item: Any) -> torch.Tensor | io.BytesIO:
        if dist.get_rank() == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().resolve_data(write_item)


def trained(name: str) -> dict[str, Any]:
    """The state of a job after two steps."""
    case = CASES[name]
    model, optimizer, scheduler = built(case)
    for step in range(2):
        train_step(case, model, optimizer, scheduler, step)
    return stopped_state(case, model, optimizer, scheduler)


def save_all(root: str, name: str) -> None:
    """By PyTorch, and to each target."""
    state = trained(name)
    dcp.save(state, checkpoint_id=folder_of(root, name, "stopped"))
    for to in TARGETS[name]:
        dcp.save(state, storage_writer=ucp.torch.StorageWriter(folder_of(root, name, to), to=to))


def save_later(root: str) -> list[bool]:
    """As async_save does, while the state changes; by a thread, by a process, and by a planner that keeps its plans."""
    own = torch.full((3,), float(dist.get_rank()))
    state = {"all": torch.arange(6.0), f"own.{dist.get_rank()}": own, "step": 1}
    ended = []
    for kind in (AsyncCheckpointerType.THREAD, AsyncCheckpointerType.PROCESS):
        writer = ucp.torch.StorageWriter(Path(root) / kind.value)
        saving = dcp.async_save(state, storage_writer=writer, async_checkpointer_type=kind)
        own += 10
        saving.result()
        ended.append((Path(root) / kind.value).is_dir())
    for number in range(3):
        planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
        state["step"] = number
        own.fill_(number)
        dcp.save(state, storage_writer=ucp.torch.StorageWriter(Path(root) / f"kept {number}"), planner=planner)
    return ended


def refused(root: str) -> dict[str, Any]:
    """The errors of saves that fail, and how long each took."""
    rank = dist.get_rank()
    state = {"all": torch.arange(6.0), "step": 1}
    calls = {
        "path": ({"path": f"{root}/{'other' if rank == 1 else 'first'}"}, {}),
        "settings": ({"to": "universal" if rank == 1 else "dcp"}, {}),
        "data": ({}, {"planner": Elsewhere()}),
        "exists": ({"path": root}, {}),
        "target": ({"to": "dcp:fsdp=64,tp=3"}, {}),
        "alone": ({}, {"use_collectives": False}),
    }
    told = {}
    for kind, (options, further) in calls.items():
        begin = time.monotonic()
        try:
            writer = ucp.torch.StorageWriter(**({"path": f"{root}/first", "timeout": 5} | options))
            dcp.save(state, storage_writer=writer, **further)
            told[kind] = ["saved", 0.0]
        except (Exception, CheckpointException) as error:  # PyTorch's, with ours inside.
            told[kind] = [str(error), time.monotonic() - begin]
        dist.barrier()
    dcp.save(state, storage_writer=ucp.torch.StorageWriter(f"{root}/first"))
    return told


def dies(path: str) -> float:
    """Seconds until the others hear that one rank is dead."""
    begin = time.monotonic()
    try:
        state = {"own": torch.ones(2), f"own.{dist.get_rank()}": torch.ones(2)}
        dcp.save(state, storage_writer=ucp.torch.StorageWriter(path, timeout=2), planner=Deadly())
    except (Exception, CheckpointException):  # PyTorch's own, since it cannot gather what the ranks say.
        return time.monotonic() - begin
    return -1.0


def four(rank: int, root: str) -> dict[str, Any]:
    """All that the job does."""
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", "0"
    for name in TARGETS:
        save_all(root, name)
    os.makedirs(f"{root}/refused", exist_ok=True)
    dist.barrier()
    told = {"later": save_later(root), "refused": refused(f"{root}/refused")}
    return told | {"dies": dies(f"{root}/refused/dead")}
