"""The work of the ranks of tests/python/test_reader.py: jobs of PyTorch that `dcp.load` fills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import ucp_checkpoint as ucp
from fixtures.dcp_cases import DCP_CASES
from fixtures.dcp_models import build_model, build_optimizer
from fixtures.models import Plain
from held import FIXTURES, checkpoint, describe

Made = tuple[nn.Module, torch.optim.Optimizer]
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def shared(model: nn.Module, parallel: str) -> nn.Module:
    """A model of `fixtures.models` as the ranks of a job share it."""
    ranks = dist.get_world_size()
    if parallel == "fsdp2":
        mesh = init_device_mesh("cpu", (ranks,))
    else:
        names = ("dp", "tp") if parallel == "tp" else ("replicate", "shard")
        mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=names)
    for block in model.blocks:
        if parallel == "tp":
            parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"] if parallel == "tp" else mesh)
    return fully_shard(model, mesh=mesh["dp"] if parallel == "tp" else mesh)


def model_of_deepspeed(parallel: str) -> Made:
    """The fixtures' model with other values, and its optimizer."""
    model = Plain()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(torch.nan)
    model = shared(model, parallel)
    groups = [{"params": [parameter]} for parameter in model.parameters()]  # Whose settings are each its own.
    return model, torch.optim.AdamW(groups, lr=0.5, foreach=False)


def model_of_dcp(name: str) -> Made:
    """Another mesh than that of the fixture: FSDP2 over the ranks of this job."""
    case = DCP_CASES[name]
    model = build_model(case, 99)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers.values():
        fully_shard(layer, mesh=mesh)
    model = fully_shard(model, mesh=mesh)
    return model, build_optimizer(case, model)


def state_of(made: Made, style: str) -> dict[str, Any]:
    """The state dict that a framework of this style gives to `dcp.load`."""
    weights, states = get_state_dict(*made, options=FLAT if style == "titan" else None)
    if style == "titan":
        return {**weights, "optimizer": states}
    if style == "app":
        return {"app": {"model": weights, "optim": states}}
    if style == "lightning":
        return {"state_dict": weights, "optimizer_0": states}
    return {"model": weights, "optimizer": states}


def restored(made: Made, state: dict[str, Any], style: str) -> None:
    """The framework's use of it afterwards."""
    states = state["app"]["optim"] if style == "app" else state["optimizer_0" if style == "lightning" else "optimizer"]
    weights = {
        "titan": {name: value for name, value in state.items() if name != "optimizer"},
        "app": state.get("app", {}).get("model"),
        "lightning": state.get("state_dict"),
    }.get(style, state.get("model"))
    options = FLAT if style == "titan" else None
    set_state_dict(*made, model_state_dict=weights, optim_state_dict=states, options=options)


def whole(value: torch.Tensor) -> torch.Tensor:
    """On every rank."""
    return value.detach().full_tensor() if isinstance(value, DTensor) else value.detach()


def held_by(made: Made) -> dict[str, Any]:
    """Fingerprints of the weights and the states of the optimizer, by name; steps, and the settings of its groups."""
    model, optimizer = made
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {f"{name}/fp32": describe(whole(value)) for name, value in model.state_dict().items()}
    for parameter, states in optimizer.state.items():
        for state, value in states.items():
            if state != "step":
                found[f"{names[parameter]}/{state}"] = describe(whole(value))
    settings = {
        names[parameter]: [group["lr"], list(group["betas"]), group["weight_decay"]]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    steps = sorted({float(states["step"]) for states in optimizer.state.values()})
    return {"states": found, "settings": settings, "steps": steps}


def filled(made: Made, path: Path, style: str, **options: Any) -> dict[str, Any]:
    """Loads, and says what the job then holds."""
    state = state_of(made, style)
    reader = ucp.torch.StorageReader(path, style=style, **options)
    dcp.load(state, storage_reader=reader)
    restored(made, state, style)
    return held_by(made) | {"report": reader.report, "remarks": reader.remarks}


def weights_alone(folder: Path) -> dict[str, Any]:
    """A folder of safetensors into FSDP2."""
    model = model_of_deepspeed("fsdp2")[0]
    state = model.state_dict()
    dcp.load(state, storage_reader=ucp.torch.StorageReader(folder))
    return {f"{name}/fp32": describe(whole(value)) for name, value in state.items()}


def by_some() -> dict[str, Any]:
    """Two ranks of the job in a group of their own, which read alone, or together where they name the group."""
    group = dist.new_group([0, 2])
    told: dict[str, Any] = {}
    if dist.get_rank() not in (0, 2):
        return told
    for kind, options in {"alone": {}, "together": {"group": group}}.items():
        state = {"embed.weight": torch.zeros(101, 33), "step": 7}
        reader = ucp.torch.StorageReader(checkpoint("zero3_dp4"), **options)
        planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
        dcp.load(state, storage_reader=reader, planner=planner, process_group=group)
        told[kind] = [describe(state["embed.weight"]), reader.report["bytes_read"], reader.report["bytes_read_by_all"]]
    return told


def refused() -> dict[str, str]:
    """Requests that all ranks refuse."""
    rank = dist.get_rank()
    missing = {"hed.weight": torch.zeros(3)}
    alone = [dist.new_group([one]) for one in range(dist.get_world_size())][rank]  # Each a call of all ranks.
    requests: dict[str, tuple[dict[str, Any], Path, dict[str, Any]]] = {
        "path": ({"tone": torch.zeros(3)}, Path("/nowhere"), {}),
        "key": (missing, checkpoint("zero3_dp4"), {}),
        "shape": ({"tone": torch.zeros(4)}, checkpoint("zero3_dp4"), {}),
        "group": ({"tone": torch.zeros(3)}, checkpoint("zero3_dp4"), {"group": alone}),
        "style": ({"tone": torch.zeros(3)}, checkpoint("zero3_dp4"), {"style": "tian"}),
        "ranks": ({"tone": torch.zeros(3)}, checkpoint("zero3_dp4" if rank != 1 else "zero3_frozen_dp4"), {}),
    }
    told = {}
    for kind, (state, path, options) in requests.items():
        try:
            dcp.load(state, storage_reader=ucp.torch.StorageReader(path, **options))
            told[kind] = "loaded"
        except (Exception, CheckpointException) as error:  # PyTorch's, with ours inside.
            told[kind] = str(error)
    return told


def four(rank: int, source: str) -> dict[str, Any]:
    """Jobs of four ranks."""
    told: dict[str, Any] = {
        parallel: filled(model_of_deepspeed(parallel), checkpoint("zero3_dp4"), "titan")
        for parallel in ("fsdp2", "tp", "hsdp")
    }
    told["weights"] = weights_alone(Path(source))
    told["some"] = by_some()
    told["refused"] = refused()
    return told


def two(rank: int) -> dict[str, Any]:
    """Jobs of two ranks, from what four ranks of Distributed Checkpoint saved."""
    told = {style: filled(model_of_dcp("fsdp2"), FIXTURES / "dcp/fsdp2/checkpoint", style) for style in
            ("titan", "app", "plain", "lightning")}  # fmt: skip
    accelerate = FIXTURES / "dcp/accelerate_fsdp2/checkpoint"
    told["accelerate"] = filled(model_of_dcp("accelerate_fsdp2"), accelerate, "accelerate")
    told["tp to rows"] = filled(model_of_dcp("tp"), FIXTURES / "dcp/tp/checkpoint", "titan", verify=True)
    told["zero3"] = filled(model_of_deepspeed("fsdp2"), checkpoint("zero3_dp4"), "titan")
    return told
