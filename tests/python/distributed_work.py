"""The work of the ranks of tests/python/test_distributed.py."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.tensor.placement_types import Placement, _StridedShard

import ucp_checkpoint as ucp
from fixtures.models import Frozen, Plain
from held import checkpoint

Tensors = dict[str, torch.Tensor]

# Sizes of the model are 33, 50 and 101: nothing divides over anything. The last one leaves ranks out.
LAYOUTS = [
    ([4], ["S0"]),
    ([4], ["S1"]),
    ([4], ["R"]),
    ([2, 2], ["R", "S0"]),
    ([2, 2], ["S0", "S1"]),
    ([2, 2], ["S1", "S0"]),
    ([2, 2], ["S0", "S0"]),
    ([2, 2], ["X0/2", "S0"]),
    ([4], ["X0/3"]),
    ([3], ["S0"]),
]


def placement(text: str) -> Placement:
    """ "R", "S1", or "X0/2" for a strided shard of dimension 0 with split factor 2."""
    if text == "R":
        return Replicate()
    if text[0] == "S":
        return Shard(int(text[1:]))
    dim, split = text[1:].split("/")
    return _StridedShard(int(dim), split_factor=int(split))


def whole_states(name: str, state: str) -> Tensors:
    """The state of the fixture's engine, whole."""
    found = ucp.load(checkpoint(name), to="universal")
    return {tensor: states.get(state, states.get("weight")) for tensor, states in found.items()}


def wrong(target: Tensors, right: Tensors) -> list[str]:
    """Names of tensors that are not bit for bit what they should be; the whole of each is gathered."""
    names = []
    for name, value in target.items():
        found = value.detach().full_tensor() if isinstance(value, DTensor) else value.detach()
        if not torch.equal(found, right[name].to(found.dtype)):
            names.append(name)
    return names


def layouts(rank: int) -> dict[str, Any]:
    """Every tensor distributed alike, as far as its dimensions go, against distribute_tensor of the whole."""
    whole = whole_states("zero1_dp2", "fp32")
    told = {}
    for sizes, texts in LAYOUTS:
        mesh = DeviceMesh("cpu", torch.arange(math.prod(sizes)).reshape(sizes))
        wanted = [placement(text) for text in texts]
        right, target = {}, {}
        for name, tensor in whole.items():
            fitting = [p if p.is_replicate() or p.dim < tensor.ndim else Replicate() for p in wanted]
            # Without a sender: scattering uneven strided shards fails in PyTorch.
            right[name] = distribute_tensor(tensor, mesh, fitting, src_data_rank=None)
            empty = torch.full_like(tensor, torch.nan)
            target[name] = distribute_tensor(empty, mesh, fitting, src_data_rank=None)
        filled = ucp.load_into(target, checkpoint("zero1_dp2"))
        unlike = [name for name in whole if not torch.equal(target[name].to_local(), right[name].to_local())]
        shapes = str([tuple(tensor.to_local().shape) for tensor in target.values()])
        told[f"{sizes} {texts}"] = {"wrong": unlike, "filled": sorted(filled.tensors), "shapes": shapes}
    return told


def trained(mesh: DeviceMesh, model: nn.Module, tensor_parallel: bool) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model under FSDP2, over tensor parallelism or alone, that has not made a step."""
    if tensor_parallel:
        for block in model.blocks:
            parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    for block in model.blocks:
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return model, torch.optim.AdamW(model.parameters())


def fsdp(rank: int) -> dict[str, Any]:
    """Real FSDP2 models and their optimizers."""
    meshes = {
        "alone": init_device_mesh("cpu", (4,), mesh_dim_names=("dp",)),
        "over tp": init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")),
    }
    told = {}
    for kind, mesh in meshes.items():
        model, optimizer = trained(mesh, Plain(), kind == "over tp")
        filled = ucp.load_into(model, checkpoint("zero1_dp2"), optimizer=optimizer)
        entry: dict[str, Any] = {"fp32": wrong(model.state_dict(), whole_states("zero1_dp2", "fp32"))}
        names = {parameter: name for name, parameter in model.named_parameters()}
        for state in ("exp_avg", "exp_avg_sq"):
            states = {names[parameter]: held[state] for parameter, held in optimizer.state.items()}
            entry[state] = wrong(states, whole_states("zero1_dp2", state)) if len(states) == 17 else "missing"
        entry["steps"] = sorted({float(held["step"]) for held in optimizer.state.values()})
        entry["placements"] = sorted({str(value.placements) for value in model.state_dict().values()})
        entry["filled"] = len(filled.tensors)
        told[kind] = entry
    return told


def failing(rank: int, root: str) -> dict[str, str]:
    """Requests that all ranks have to refuse with one sentence, and leave everything as it is."""
    mesh = init_device_mesh("cpu", (4,))
    path = checkpoint("zero1_dp2")
    shapes = {name: tensor.shape for name, tensor in whole_states("zero1_dp2", "fp32").items()}

    def target(change: Callable[[Tensors], object] = lambda _: None) -> Tensors:
        tensors = {name: distribute_tensor(torch.full(shape, 7.0), mesh, [Shard(0)]) for name, shape in shapes.items()}
        change(tensors)
        return tensors

    def partial(tensors: Tensors) -> None:
        tensors["tone"] = DTensor.from_local(torch.full((3,), 7.0), mesh, [Partial()])

    def other_shape(tensors: Tensors) -> None:
        if rank == 2:
            tensors["norm.bias"] = torch.full((34,), 7.0)

    def strided(tensors: Tensors) -> None:
        if rank == 3:
            tensors["head.weight"] = torch.full((33, 101), 7.0).t()

    def integers(tensors: Tensors) -> None:
        tensors["tone"] = torch.full((3,), 7)

    damaged = Path(root) / "damaged"
    cases: dict[str, tuple[Tensors, Path, dict[str, Any]]] = {
        "partial": (target(partial), path, {}),
        "shape": (target(other_shape), path, {}),
        "strides": (target(strided), path, {}),
        "dtype": (target(integers), path, {}),
        "missing": (target(lambda tensors: tensors.update(hed=torch.full((2,), 7.0))), path, {}),
        "extra": (target(lambda tensors: tensors.pop("norm.bias")), path, {}),
        "path": (target(), path if rank != 1 else checkpoint("zero1_dp4"), {}),
        "sets": (target(), path, {"sets": {"layers": 4 if rank != 2 else 5}}),
        "keep": (target(), path, {"keep": "tune"}),
        "nowhere": (target(), Path("/nowhere"), {}),
        "damaged": (target(), damaged, {"verify": True}),
    }
    told = {}
    for kind, (tensors, source, options) in cases.items():
        before = copy.deepcopy(tensors)
        try:
            ucp.load_into(tensors, source, **options)
            told[kind] = "filled"
        except ucp.Error as error:
            told[kind] = f"{error.code}: {error}"
        if kind != "damaged":
            same = (torch.equal(_local(value), _local(before[name])) for name, value in tensors.items())
            told[kind] += "" if all(same) else ", and changed"
    return told


def _local(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def frozen(rank: int) -> dict[str, Any]:
    """Plain tensors in one process: frozen parameters, buffers of integers and truth values, a tied head."""
    path = checkpoint("frozen_buffers_zero2")
    model = Frozen()
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(7)
    optimizer = torch.optim.AdamW(parameter for parameter in model.parameters() if parameter.requires_grad)
    filled = ucp.load_into(model, path, optimizer=optimizer)
    right = whole_states("frozen_buffers_zero2", "fp32")
    right["head.weight"] = right["embed.weight"]
    return {"wrong": wrong(model.state_dict(), right), "not_loaded": filled.not_loaded, "remarks": filled.remarks}


def together(rank: int) -> dict[str, Any]:
    """`ucp.load` over the group, each rank its own part; and requests that do not fit."""
    world = dist.group.WORLD
    path = checkpoint("zero1_dp2")
    to = "deepspeed:dp=4,zero=1"
    found, alone = ucp.load(path, to=to, group=world), ucp.load(path, to=to, rank=rank)
    same = [torch.equal(found[name][state], alone[name][state]) for name, state in alone.parts]
    told: dict[str, Any] = {"parts": len(found.parts), "same": all(same) and found.parts == alone.parts}
    weights = {name: torch.zeros(value["fp32"].shape) for name, value in ucp.load(path, to="universal").items()}
    report = ucp.load_into(weights, path, group=world).report
    told["report"] = {key: report[key] for key in ("bytes_placed", "bytes_read", "bytes_received", "bytes_read_by_all")}
    told["wrong"] = wrong(weights, whole_states("zero1_dp2", "fp32"))
    requests: dict[str, dict[str, Any]] = {
        "to": {"to": to if rank != 2 else "universal"},
        "rank": {"to": to, "rank": 0},
        "pattern": {"to": to, "tensors": "nothing" if rank == 3 else "*"},
    }
    for kind, request in requests.items():
        try:
            ucp.load(path, group=world, **request)
            told[kind] = "loaded"
        except ucp.Error as error:
            told[kind] = f"{error.code}: {error}"
    return told


def others(rank: int, root: str) -> dict[str, Any]:
    """All but the layouts."""
    return {"fsdp": fsdp(rank), "failing": failing(rank, root), "frozen": frozen(rank), "together": together(rank)}
