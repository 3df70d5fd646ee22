"""Shards by the plans of `transformers` (`base_model_tp_plan`, `base_model_ep_plan`), applied by its own code."""

from __future__ import annotations

from typing import Any

import numpy
import torch
import transformers
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers.distributed import DistributedConfig
from transformers.distributed.parallel_utils import ALL_PARALLEL_STYLES

from .held import Truth, from_shards
from .models import MODELS, build, config_of


def shards(key: str, axis: str, degree: int) -> Truth:
    """One rank after the other in this process: cutting a parameter needs no communication."""
    model = build(key)
    config = config_of(model)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    everyone = [_shards_of(key, axis, degree, rank) for rank in range(degree)]
    source = f"the {axis} plan of {MODELS[key][0]}, transformers {transformers.__version__}"
    return from_shards(Truth(f"plan.{key}.{axis}{degree}", source, axis, degree, config), shapes, everyone, {})


def _shards_of(key: str, axis: str, degree: int, rank: int) -> dict[str, numpy.ndarray]:
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=degree)
    try:
        model = build(key)
        mesh = init_device_mesh("cpu", (degree,), mesh_dim_names=(axis,))
        settings: dict[str, Any] = {"tp_size": degree} if axis == "tp" else {"ep_size": degree, "fsdp_size": degree}
        tp_plan, ep_plan, _ = model._resolve_parallel_plans(DistributedConfig(**settings))
        parameters = set(dict(model.named_parameters()))
        for name, style in (tp_plan if axis == "tp" else ep_plan).items():
            if name in parameters:  # Its other entries are modules, whose forward would be wrapped.
                module, _, parameter = name.rpartition(".")
                ALL_PARALLEL_STYLES[style].shard_param(model.get_submodule(module), parameter, mesh)
        return {name: _local(parameter) for name, parameter in model.named_parameters()}
    finally:
        distributed.destroy_process_group()


def _local(parameter: torch.Tensor) -> numpy.ndarray:
    tensor = parameter.detach()
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).double().numpy()
