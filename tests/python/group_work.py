"""The work of the ranks of tests/python/test_groups.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed import fake_pg  # noqa: F401  Makes the backend "fake" known.

import ucp_checkpoint as ucp
from distributed_work import trained, whole_states, wrong
from fixtures.models import Plain
from held import checkpoint

UP_BIAS = "blocks.0.up.bias"


def error_of(work: Any) -> str:
    """Its sentence."""
    try:
        work()
    except ucp.Error as error:
        return f"{error.code}: {error}"
    return "no error"


class Tied(nn.Module):
    """Its shared parameter has fewer rows than there are ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(3, 5)
        self.lm_head = nn.Linear(5, 3, bias=False)
        self.lm_head.weight = self.wte.weight


def groups(rank: int, root: str) -> dict[str, Any]:
    """Of four ranks, in one job."""
    return {
        "subgroups": subgroups(rank),
        "wrapped": wrapped(),
        "tied": tied(rank, Path(root)),
        "calls": error_of(lambda: different_calls(rank)),
    }


def subgroups(rank: int) -> dict[str, Any]:
    """Some ranks alone, of a backend that cannot carry the host's memory, in an order of their own."""
    order = [3, 0, 2]
    group = dist.new_group(order, backend="fake", sort_ranks=False)
    told: dict[str, Any] = {}
    if rank in order:
        to = "deepspeed:dp=3,zero=1"
        for time in ("first", "again"):
            found = ucp.load(checkpoint("zero1_dp2"), to=to, group=group)
            alone = ucp.load(checkpoint("zero1_dp2"), to=to, rank=order.index(rank))
            same = [torch.equal(found[name][state], alone[name][state]) for name, state in alone.parts]
            told[time] = all(same) and found.parts == alone.parts
    dist.barrier()
    afterwards = dist.new_group([0, 1, 2, 3])  # All must count it alike.
    number = torch.ones(1)
    dist.all_reduce(number, group=afterwards)
    return told | {"afterwards": number.item()}


def watched(rank: int) -> list[float]:
    """The work that all do together after loads, while PyTorch holds their calls together."""
    target = {UP_BIAS: torch.zeros(50)}
    sums = []
    for _ in range(2):
        ucp.load_into(target, checkpoint("zero1_dp2"), strict=False, group=dist.group.WORLD)
        number = torch.ones(1)
        dist.all_reduce(number)
        sums.append(number.item())
    return sums


def wrapped() -> dict[str, Any]:
    """Modules in the wrappers of PyTorch, and their optimizers."""
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("dp",))
    blocks = Plain()
    for i, block in enumerate(blocks.blocks):
        blocks.blocks[i] = torch.compile(block)
    models = {
        "DistributedDataParallel": DistributedDataParallel(Plain()),
        "compiled": torch.compile(Plain()),
        "compiled blocks": trained(mesh, blocks, tensor_parallel=False)[0],
    }
    told = {}
    for kind, model in models.items():
        optimizer = torch.optim.AdamW(model.parameters())
        filled = ucp.load_into(model, checkpoint("zero1_dp2"), optimizer=optimizer, keep="tone*")
        inner = {name.replace("module.", "").replace("_orig_mod.", ""): part for name, part in model.named_parameters()}
        weights = {name: part for name, part in inner.items() if name != "tone"}
        unlike = wrong(weights, whole_states("zero1_dp2", "fp32"))
        for state in ("exp_avg", "exp_avg_sq"):
            states = {name: optimizer.state[part][state] for name, part in weights.items()}
            unlike += [f"{name}/{state}" for name in wrong(states, whole_states("zero1_dp2", state))]
        told[kind] = {"wrong": unlike, "filled": sorted(filled.tensors), "kept": sorted(filled.kept)}
    return told


def tied(rank: int, root: Path) -> dict[str, Any]:
    """Under FSDP2, whose last rank holds nothing of the shared parameter."""
    weight = torch.arange(15.0).view(3, 5)
    told = {}
    for name in ("wte.weight", "lm_head.weight"):
        file = root / f"{name}.safetensors"
        if rank == 0:
            save_file({name: weight}, file)
        dist.barrier()
        model = fully_shard(Tied(), mesh=init_device_mesh("cpu", (4,)))
        filled = ucp.load_into(model, file)
        is_right = torch.equal(model.wte.weight.full_tensor(), weight)
        told[name] = {"filled": filled.tensors, "right": is_right, "elements": model.wte.weight.to_local().numel()}
    return told


def different_calls(rank: int) -> None:
    """Where the ranks do not do the same."""
    if rank == 2:
        ucp.load_into({UP_BIAS: torch.zeros(50)}, checkpoint("zero1_dp2"), strict=False, group=dist.group.WORLD)
    else:
        ucp.load(checkpoint("zero1_dp2"), to="universal", group=dist.group.WORLD)


def old_names(rank: int, root: str) -> dict[str, Any]:
    """A checkpoint that was written with a wrapper's names, into modules with and without wrappers."""
    saved = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    file = Path(root) / "wrapped.safetensors"
    save_file({f"_orig_mod.{name}": tensor for name, tensor in saved.state_dict().items()}, file)
    model = torch.compile(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)))
    filled = ucp.load_into(model, file)
    bare = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    return {
        "filled": filled.tensors,
        "same": all(torch.equal(a, b) for a, b in zip(model.parameters(), saved.parameters(), strict=True)),
        "bare": error_of(lambda: ucp.load_into(bare, file)),
    }
