"""The work of the ranks of tests/python/test_memory.py: a job that is killed, and starts again from memory."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

import ucp_checkpoint as ucp
from fixtures.dcp_cases import DcpCase
from fixtures.dcp_models import SEED, train_step
from save_work import built
from writers import wait_until

STEPS = 12
CASE = DcpCase("memory", "uneven rows; a tied head, frozen parameters, buffers", 2, "fsdp2", groups="decay",
               model="frozen")  # fmt: skip
FULL = StateDictOptions(full_state_dict=True, cpu_offload=True)


def full_state(model: Any, optimizer: Any) -> dict[str, Any]:
    """Whole tensors, gathered by PyTorch; on rank 0."""
    weights, states = get_state_dict(model, optimizer, options=FULL)
    return {
        "weights": weights,
        "states": states.get("state", {}),
        "rates": [group["lr"] for group in optimizer.param_groups],
    }


def train(
    rank: int,
    root: str,
    parallel: str = "fsdp2",
    size: int = 2,
    seed: int = SEED,
    tier: dict[str, Any] | None = None,
    machines: str = "",
    model: str = CASE.model,
    dies: int | None = None,
    steps: int = STEPS,
) -> dict[str, Any]:
    """Losses by step. With a tier, what each step was before its version was made is in root/steps.

    `machines` has a letter for each rank, the name of its machine, whose memory is a folder of its own. Rank 1 is
    killed within the capture of the first version after `dies` steps, which the others have begun too.
    """
    case = replace(CASE, ranks=size, parallel=parallel, model=model)
    machine = machines[rank] if machines else ""
    if machines and tier is not None:
        tier["machine"] = machine
    module, optimizer, scheduler = built(case, seed)
    losses: dict[str, float] = {}
    first, told = 0, None
    kept = None
    if tier is not None:

        def extra() -> dict[str, Any]:
            if rank == 1 and dies is not None and len(losses) >= dies:
                os.kill(os.getpid(), SIGKILL)
            return {"scheduler": scheduler.state_dict(), "rank": rank}

        kept = ucp.memory.Tier(
            module, optimizer, job="job", directory=Path(root) / "memory" / machine, extra=extra, **tier
        )
        first, told = kept.first_step, kept.report()["restored"]
        if kept.restored is not None:
            scheduler.load_state_dict(kept.restored.extras[0]["scheduler"])
            told["ranks"] = [extra["rank"] for extra in kept.restored.extras]
            told["state"] = same_as(
                full_state(module, optimizer), Path(root) / "steps" / f"{kept.restored.step}.pt", rank
            )
    for step in range(first, steps):
        losses[str(step)] = train_step(case, module, optimizer, scheduler, step)
        if kept is not None:
            keep_truth(full_state(module, optimizer), Path(root) / "steps", step, rank)
            kept.step(step)
    if kept is not None and kept._copies is not None:
        wait_until(kept._copies.is_settled)
    report = None if kept is None else kept.report()
    if kept is not None:
        kept.close()
    return {"losses": losses, "restored": told, "report": report}


def keep_truth(state: dict[str, Any], folder: Path, step: int, rank: int) -> None:
    """On rank 0."""
    if rank == 0:
        folder.mkdir(exist_ok=True)
        torch.save(state, folder / "part")
        os.rename(folder / "part", folder / f"{step}.pt")


def same_as(state: dict[str, Any], truth: Path, rank: int) -> list[str]:
    """Names whose bits differ; on rank 0, which has the whole tensors."""
    if rank != 0:
        return []
    saved = torch.load(truth, weights_only=False)
    other = [name for name, value in saved["weights"].items() if not torch.equal(value, state["weights"][name])]
    for name, states in saved["states"].items():
        mine = state["states"][name]
        other += [f"{name}/{key}" for key, value in states.items() if not torch.equal(value, mine[key])]
    return other + ([] if saved["rates"] == state["rates"] else ["lr"])
