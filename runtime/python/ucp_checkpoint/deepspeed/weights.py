"""Loading less than all: sources that have weights alone, and calls that ask for no optimizer state.

DeepSpeed leaves some values behind then, which would be wrong at the next step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from deepspeed import comm as dist

from .archive import State
from .errors import LoadError
from .ranks import shortened

SCALER = ("loss_scaler", "dynamic_loss_scale", "overflow")
COUNTERS = ("global_steps", "global_samples", "skipped_steps", "loaded_checkpoint_mp_world_size")


def has_weights_alone(model: State, engine: Any) -> bool:
    """Such a source trains nothing: it has no parameters of an optimizer."""
    if engine.zero_optimization_stage() > 0:
        return not any(model.get("param_shapes") or [])
    optimizer: State = model.get("optimizer") or {}
    return not optimizer.get("optimizer_state_dict", optimizer).get("param_groups")


def add_second_names(module: State, engine: Any) -> None:
    """A source of weights has each tied tensor once; DeepSpeed wants it under all its names."""
    first: dict[Any, str] = {}
    for name, parameter in engine.module.named_parameters(remove_duplicate=False):
        known = first.setdefault(parameter, name)
        if name not in module and known in module:
            module[name] = module[known]


def check_partitions(model: State, engine: Any) -> None:
    """At stage 3 a source of weights has the parts of all tensors among the frozen ones."""
    shapes = model.get("frozen_param_shapes") or {}
    first = {engine.param_names[parameter]: parameter for parameter in engine.module.parameters()}
    if missing := sorted(first.keys() - shapes.keys()):
        raise LoadError(f"the checkpoint has no {shortened(missing)}, which the engine has")
    for name, parameter in first.items():
        if tuple(shapes[name]) != tuple(parameter.ds_shape):
            raise LoadError(f"`{name}` is {list(shapes[name])} in the checkpoint and {list(parameter.ds_shape)} in the "
                            "engine")  # fmt: skip


def fill_partitions(model: State, engine: Any) -> None:
    """DeepSpeed looks there for its frozen parameters alone; its buffers are whole."""
    parts = model["frozen_param_fragments"]
    for parameter in engine.module.parameters():
        parameter.ds_tensor.data.copy_(parts[engine.param_names[parameter]])
    for name, _ in engine.module.named_buffers():
        if name in parts and name in model["module"]:
            model["module"][name] = joined(parts[name], model["frozen_param_shapes"][name], engine)


def joined(part: torch.Tensor, shape: Sequence[int], engine: Any) -> torch.Tensor:
    """A tensor of which each partition has a part, with zeros behind the last one."""
    mine = part.contiguous().view(torch.uint8).to(engine.device)
    group = engine.optimizer.dp_process_group
    others = [torch.empty_like(mine) for _ in range(dist.get_world_size(group=group))]
    dist.all_gather(others, mine, group=group)
    return torch.cat(others).cpu().view(part.dtype)[: math.prod(shape)].view(tuple(shape))


@contextmanager
def masters_alone(engine: Any) -> Iterator[None]:
    """At stage 3 weights are in the optimizer's file only. While this lasts, its loader takes them, and nothing else
    of the optimizer: no states, no loss scale."""
    optimizer = engine.optimizer
    own: Callable[..., None] = optimizer.load_state_dict

    def load_state_dict(*arguments: Any, **options: Any) -> None:
        kept = {name: getattr(optimizer, name) for name in SCALER}
        own(*arguments, **{**options, "load_optimizer_states": False})
        for name, value in kept.items():
            setattr(optimizer, name, value)

    optimizer.load_state_dict = load_state_dict
    try:
        yield
    finally:
        del optimizer.load_state_dict


@contextmanager
def kept_counters(engine: Any) -> Iterator[None]:
    """The engine's steps stay what they are."""
    kept = {name: getattr(engine, name) for name in COUNTERS if hasattr(engine, name)}
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(engine, name, value)


def refresh_masters(engine: Any) -> None:
    """Without ZeRO, masters that were not loaded follow the weights; DeepSpeed does it for a whole module only, and
    would write the old ones over the weights at the next step."""
    if hasattr(engine.optimizer, "refresh_fp32_params"):
        engine.optimizer.refresh_fp32_params()
