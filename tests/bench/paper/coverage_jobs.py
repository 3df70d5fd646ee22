"""Saves and loads of one rank, where the fixtures have no function for them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from fixtures.dcp_cases import DcpCase
from fixtures.megatron_core_cases import MegatronCase


def save_by_torch(case: DcpCase, place: Path) -> dict[str, Any]:
    """Trains and saves into `place/checkpoint`; the truth."""
    import torch

    from fixtures.dcp_make import train

    torch.manual_seed(0)
    place.mkdir(exist_ok=True)
    os.chdir(place)
    return train(case)


def load_by_torch(folder: Path, tensors: dict[str, Any], states: dict[str, str]) -> dict[str, Any]:
    """`dcp.load` by the keys that a job of PyTorch would ask for, into whole tensors; what is in them. `states` names
    each state of a tensor as the checkpoint's framework does, beside its key here."""
    import torch
    from torch.distributed import checkpoint as dcp

    from fixtures.fingerprints import describe

    state = {
        key.format(name): torch.full(entry["shape"], torch.nan) for name, entry in tensors.items()
        for key in states.values()
    }  # fmt: skip
    dcp.load(state, checkpoint_id=str(folder))
    found = {
        name: entry | {"states": {held: describe(state[key.format(name)]) for held, key in states.items()}}
        for name, entry in tensors.items()
    }
    return {"tensors": found}


def save_by_megatron(case: MegatronCase, place: Path) -> dict[str, Any]:
    """Trains and saves below `place`, with the tracker file of the training script; the truth."""
    from torch import distributed

    from fixtures.megatron_core_run import ITERATION, Run
    from fixtures.megatron_core_truth import gather

    run = Run(case)
    run.train()
    truth = gather(run)
    if distributed.get_rank() == 0:
        place.mkdir(parents=True)
        (place / "latest_checkpointed_iteration.txt").write_text(str(ITERATION))
    distributed.barrier()
    run.save(place / f"iter_{ITERATION:07}")
    return truth


def load_by_megatron(case: MegatronCase, folder: Path) -> dict[str, Any]:
    """A job that has made one step loads by `dist_checkpointing`, as the training script does; what it then holds.

    PyTorch's Adam has the states that Megatron Core loads into from its first step on.
    """
    from megatron.core import dist_checkpointing
    from torch.distributed.checkpoint import CheckpointException  # It is not an Exception.

    from fixtures.megatron_core_run import Run
    from fixtures.megatron_core_truth import gather

    run = Run(replace(case, steps=1))
    run.train()
    state = run.state_dict(is_loading=True)
    del state["rng_state"]  # As the training script does where TP or PP differs.
    try:
        found = dist_checkpointing.load(state, str(folder))
    except (Exception, CheckpointException) as error:  # Its message can be longer than a log that is kept.
        line = str(error).strip().splitlines()[-1]
        raise RuntimeError(f"{type(error).__name__}: {line}"[:300]) from None
    run.module.load_state_dict(found["model"])
    run.optimizer.load_state_dict(found["optimizer"])
    return gather(run)
