"""The work of the ranks of tests/python/test_save.py: they train, save in the middle, and go on at once."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.optim.lr_scheduler import StepLR

import ucp_checkpoint as ucp
from fixtures.dcp_cases import DcpCase
from fixtures.dcp_models import SEED, batch, build_model, build_optimizer, loss_of, share, train_step
from writers import stopped, supervisor_of, worker_of

STEPS = 2
CASES = {
    case.name: case
    for case in [
        DcpCase("ddp", "replicas; a tied head and buffers that a forward pass changes", 4, "ddp", groups="decay",
                model="frozen"),
        DcpCase("fsdp2", "a rank without rows; a tied head, frozen parameters, buffers", 4, "fsdp2", groups="decay",
                model="frozen"),
        DcpCase("hsdp_sgd", "replicas of shards; momentum without a step", 4, "hsdp", "sgd", layers=2),
        DcpCase("tp", "rows and columns beside whole tensors", 2, "tp"),
        DcpCase("fsdp2_tp", "rows cut by TP and then by FSDP2; a third moment", 4, "fsdp2_tp", "amsgrad"),
        DcpCase("half", "bfloat16 weights and states", 4, "fsdp2", dtype="bfloat16"),
        DcpCase("pipeline", "each rank has its own modules", 2, "pipeline", layers=2),
    ]
}  # fmt: skip
# Beside "dcp", which each case is saved to.
OTHERS = {
    "ddp": ["dcp:style=titan"],
    "fsdp2": ["deepspeed:dp=2,zero=1,dtype=fp32"],
    "hsdp_sgd": ["universal"],
    "fsdp2_tp": ["safetensors:dtype=bf16"],
    "tp": ["deepspeed:dp=3,zero=2,dtype=bf16"],
    "pipeline": ["universal", "dcp:style=titan"],
}


def folder_of(root: str, case: str, to: str) -> Path:
    """Where a save lies."""
    return Path(root) / f"{case} {to.replace(':', ' ')}"


def built(case: DcpCase, seed: int = SEED) -> tuple[Any, Any, Any]:
    """The model as this rank has it, its optimizer and scheduler."""
    model = share(case, build_model(case, seed))
    optimizer = build_optimizer(case, model)
    return model, optimizer, StepLR(optimizer, 1, 0.75)


def stopped_state(case: DcpCase, model: Any, optimizer: Any, scheduler: Any) -> dict[str, Any]:
    """As scripts give it to torch.distributed.checkpoint."""
    options = StateDictOptions(flatten_optimizer_state_dict=case.parallel == "pipeline")
    weights, states = get_state_dict(model, optimizer, options=options)
    return {"model": weights, "optimizer": states, "scheduler": scheduler.state_dict(), "count": STEPS}


def train_and_save(rank: int, root: str, names: list[str]) -> dict[str, Any]:
    """Each case once: a folder of PyTorch's of the stopped job, and folders of ours from the job that goes on."""
    told = {}
    for name in names:
        case = CASES[name]
        model, optimizer, scheduler = built(case)
        savers = {to: ucp.Saver(model, optimizer, to=to) for to in ["dcp", *OTHERS.get(name, [])]}
        for step in range(STEPS):
            train_step(case, model, optimizer, scheduler, step)
        dcp.save(stopped_state(case, model, optimizer, scheduler), checkpoint_id=folder_of(root, name, "stopped"))
        extra = {"scheduler": scheduler, "count": STEPS}
        savings = [saver.save(folder_of(root, name, to), extra=extra) for to, saver in savers.items()]
        for step in range(STEPS, STEPS + 2):
            train_step(case, model, optimizer, scheduler, step)  # At once: its optimizer waits, and nobody else.
        told[name] = [saving.result()["bytes_written"] > 0 for saving in savings]
        for saver in savers.values():
            saver.close()
    return told


def save_after_forward(rank: int, root: str) -> None:
    """A forward pass without a backward one leaves whole parameters in the modules of FSDP2, until the next pass."""
    case = replace(CASES["fsdp2"], ranks=dist.get_world_size(), model="plain")
    model, optimizer, scheduler = built(case)
    with ucp.Saver(model, optimizer) as saver:
        train_step(case, model, optimizer, scheduler, 0)
        weights, states = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder_of(root, "forward", "stopped"))
        tokens, labels = batch(1)
        with torch.no_grad():
            model(tokens)
        with stopped(worker_of(supervisor_of(os.getpid()))) if rank == 0 else nullcontext():
            dist.barrier()
            saving = saver.save(folder_of(root, "forward", "dcp"))
            loss_of(model(tokens), labels).backward()
            dist.barrier()
        saving.result()


def load_elsewhere(rank: int, root: str, names: list[str]) -> dict[str, bool]:
    """By PyTorch, into a job of two ranks that share the model by FSDP2: the same bits from both folders."""
    same = {}
    for name in names:
        case = replace(CASES[name], parallel="fsdp2", ranks=2)
        loaded = []
        for seed, to in ((SEED + 1, "stopped"), (SEED + 2, "dcp")):
            model, optimizer, scheduler = built(case, seed)
            state = stopped_state(case, model, optimizer, scheduler)
            dcp.load(state, checkpoint_id=folder_of(root, name, to))
            set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
            losses = [train_step(case, model, optimizer, scheduler, step) for step in (STEPS, STEPS + 1)]
            locals_of = [parameter.to_local().clone() for parameter in model.parameters()]
            loaded.append((locals_of, losses, state["scheduler"], state["count"]))
        (these, *more), (those, *others) = loaded
        same[name] = more == others and all(torch.equal(a, b) for a, b in zip(these, those, strict=True))
    return same


def two_ranks(rank: int, root: str, names: list[str]) -> dict[str, Any]:
    """All that a job of two ranks does."""
    told = train_and_save(rank, root, ["pipeline", "tp"])
    return {"saved": told, "same": load_elsewhere(rank, root, [*names, "tp"])}


def four_ranks(rank: int, root: str, names: list[str]) -> dict[str, Any]:
    """All that a job of four ranks does."""
    save_after_forward(rank, root)
    return train_and_save(rank, root, names)
