"""Shards by DeepSpeed's AutoTP: its engine on real processes, and its affine maps, which must say the same."""

from __future__ import annotations

import re
from typing import Any

import deepspeed
import numpy
import torch
from deepspeed import comm as dist
from deepspeed.checkpoint.affine import ParamAffineMap
from deepspeed.module_inject.layers import collect_autotp_universal_checkpoint_info

from fixtures.ranks import run_ranks

from .held import Truth, from_shards, own_indices
from .models import MODELS, build, config_of

# AutoTP's arguments beside the degree: its preset for models whose own plan it does not take.
PRESETS = {"phi3": "phi3", "mixtral": "mixtral", "deepseek_v2": "deepseek_v2"}


def shards(key: str, degree: int) -> Truth:
    """Runs the engine on `degree` ranks."""
    return run_ranks(degree, lambda: _on_rank(key, degree))


def _on_rank(key: str, degree: int) -> Truth | None:
    model = build(key)
    config = config_of(model)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    parallel: dict[str, Any] = {"autotp_size": degree}
    if key.split(".")[0] in PRESETS:
        parallel["preset_model"] = PRESETS[key.split(".")[0]]
    deepspeed.initialize(model=model, config={
        "train_micro_batch_size_per_gpu": 1, "tensor_parallel": parallel, "zero_optimization": {"stage": 0},
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True, "lr": 0.0}}})  # fmt: skip
    mine = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    everyone: list[dict[str, numpy.ndarray]] = [{} for _ in range(degree)]
    dist.all_gather_object(everyone, mine)
    maps = collect_autotp_universal_checkpoint_info(model)["affine_map"]["params"]
    if dist.get_rank() != 0:
        return None
    scales = {name: agree(name, shape, _map_of(maps, name), everyone) for name, shape in shapes.items()}
    source = f"AutoTP of deepspeed {deepspeed.__version__}, {MODELS[key][0]} of transformers"
    return from_shards(Truth(f"autotp.{key}.tp{degree}", source, "tp", degree, config), shapes, everyone, scales)


def _map_of(maps: dict[str, Any], name: str) -> ParamAffineMap:
    (found,) = [each for pattern, each in maps.items() if re.match(pattern, name)]
    return ParamAffineMap.from_dict(found)


def agree(name: str, shape: tuple[int, ...], affine: ParamAffineMap, shards: list[dict[str, numpy.ndarray]]) -> float:
    """The map cuts the full tensor as the engine did; its scale is returned."""
    assert affine.logical_shape == shape, (name, affine.logical_shape, shape)
    affine.validate_coverage()
    full = torch.from_numpy(own_indices(shape))
    scales = set()
    for rank, shard in enumerate(shards):
        assert affine.shard_shapes[rank] == shard[name].shape, (name, rank)
        expected = torch.full((shard[name].size,), -1.0, dtype=torch.float64)
        for piece in affine.pieces_by_rank[rank]:
            piece.dest_view(expected).copy_(piece.source_view(full) * piece.scale)
            scales.add(piece.scale)
        assert numpy.allclose(expected.numpy().reshape(shard[name].shape), shard[name]), (name, rank)
    (scale,) = scales
    return scale
