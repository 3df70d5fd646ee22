"""The work of the ranks of tests/python/test_reshard.py: rows that Distributed Checkpoint saved become columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import ucp_checkpoint as ucp
from fixtures.dcp_cases import DCP_CASES
from fixtures.dcp_models import build_model, build_optimizer
from held import FIXTURES
from reader_work import held_by

# Whole rows of these are far apart in a column, so that no rank reads what lies between its own parts.
SHAPES = {"even": (256, 8192), "uneven": (67, 9001), "wide": (3, 40000), "deep": (5, 4, 16384)}


def bytes_asked_for() -> int:
    """Of the system, by this process."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(dict(line.split(": ") for line in file)["rchar"])


def by_all(count: int) -> int:
    """The sum over the ranks."""
    counts = [torch.tensor(0) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor(count))
    return int(sum(counts))


def columns(folder: str) -> dict[str, Any]:
    """Tensors that real ranks saved as rows, filled as columns, by both ways; the other ranks' reads are counted."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    generator = torch.Generator().manual_seed(5)
    whole = {name: torch.rand(shape, generator=generator) for name, shape in SHAPES.items()}
    path = Path(folder) / "rows"
    rows = {name: distribute_tensor(value, mesh, [Shard(0)], src_data_rank=None) for name, value in whole.items()}
    dcp.save(rows, storage_writer=dcp.FileSystemWriter(path))
    right = {name: distribute_tensor(value, mesh, [Shard(1)], src_data_rank=None) for name, value in whole.items()}

    def with_reader(into: dict[str, Any]) -> dict[str, Any]:
        reader = ucp.torch.StorageReader(path)
        dcp.load(into, storage_reader=reader)
        return reader.report

    told: dict[str, Any] = {"bytes": sum(4 * value.numel() for value in whole.values())}
    for way, load in {"load_into": lambda into: ucp.load_into(into, path).report, "reader": with_reader}.items():
        into = {
            name: DTensor.from_local(
                torch.full_like(value.to_local(), torch.nan), mesh, [Shard(1)], shape=value.shape, stride=value.stride()
            )
            for name, value in right.items()
        }
        load(into)  # Python reads the files of modules, once.
        before = bytes_asked_for()
        report = load(into)
        asked = by_all(bytes_asked_for() - before)
        told[way] = {
            "wrong": [name for name in right if not torch.equal(into[name].to_local(), right[name].to_local())],
            "bytes_read_by_all": report["bytes_read_by_all"],
            "bytes_read": by_all(report["bytes_read"]),
            "asked": asked,
        }
    return told


def fsdp2(columns: bool) -> dict[str, Any]:
    """A model and its optimizer, of what four other ranks saved; rows as there, or columns where there are some."""
    case = DCP_CASES["fsdp2"]
    model = build_model(case, 99)
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    placed: dict[str, Any] = {}
    if columns:  # PyTorch shards columns evenly alone: two ranks do so, and four in two groups of replicas.
        mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("replicate", "shard"))
        placed["shard_placement_fn"] = lambda parameter: Shard(min(1, parameter.ndim - 1))
    for layer in model.model.layers.values():
        fully_shard(layer, mesh=mesh, **placed)
    fully_shard(model, mesh=mesh, **placed)
    optimizer = build_optimizer(case, model)
    ucp.load_into(model, FIXTURES / "dcp/fsdp2/checkpoint", optimizer=optimizer)
    placements = {str(value.placements) for value in model.state_dict().values()}
    return held_by((model, optimizer)) | {"placements": sorted(placements)}


def work(rank: int, source: str) -> dict[str, Any]:
    """All of it."""
    return {"tensors": columns(source), "rows": fsdp2(columns=False), "columns": fsdp2(columns=True)}
