"""The strategy whose files a running engine loads, from its own settings."""

from __future__ import annotations

from typing import Any

from deepspeed.moe.layer import MoE
from deepspeed.runtime.bf16_optimizer import BF16_Optimizer
from deepspeed.runtime.pipe.module import PipelineModule

from .errors import LoadError


def strategy_of(engine: Any) -> str:
    """`deepspeed:tp=2,…`: all that decides what stands where in this engine's files."""
    stage = engine.zero_optimization_stage()
    settings: dict[str, Any] = {**degrees(engine), "zero": stage, "dtype": dtype(engine), **experts(engine)}
    optimizer = engine.optimizer
    if stage == 0 and settings["dtype"] != "fp32":
        settings["optimizer"] = "fused" if hasattr(optimizer, "fp32_groups_flat") else "unfused"
    elif isinstance(optimizer, BF16_Optimizer):
        settings["optimizer"] = "bf16"
    elif stage in (1, 2):
        settings["optimizer"] = "zero"
        settings["round_robin"] = bool(optimizer.round_robin_gradients)
        settings["alignment"] = any(any(paddings) for paddings in getattr(optimizer, "round_robin_bit16_padding", []))
        settings["elastic"] = False  # The form that every engine loads, from its own partition's file.
    elif stage == 3:
        settings["sub_group_size"] = int(optimizer.sub_group_size)
    return "deepspeed:" + ",".join(f"{key}={text(value)}" for key, value in settings.items())


def text(value: Any) -> str:
    """As strategies write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def degrees(engine: Any) -> dict[str, Any]:
    """How many ranks each axis has. Partitions are shared out over data-parallel and sequence-parallel ranks."""
    is_pipeline = isinstance(engine.module, PipelineModule)
    pp = engine.module.num_stages if is_pipeline else 1
    partitions = engine.seq_dp_world_size
    sp = partitions // engine.dp_world_size
    return {"pp": pp, "tp": engine.mp_world_size // pp, "dp": partitions // sp, "sp": sp}


def dtype(engine: Any) -> str:
    """What the model computes with."""
    return "bf16" if engine.bfloat16_enabled() else "fp16" if engine.fp16_enabled() else "fp32"


def experts(engine: Any) -> dict[str, Any]:
    """Over how many ranks experts are spread, which of these are neighbours, and whether each tensor-parallel rank has
    a part of every expert."""
    if not engine.has_moe_layers:
        return {}
    layers = [module for module in engine.module.modules() if isinstance(module, MoE)]
    sizes = {layer.ep_size for layer in layers}
    if not sizes:
        raise LoadError("the engine's experts are AutoEP's, which this function does not serve yet; convert the "
                        "checkpoint with `ucprun convert`, and let the engine load that")  # fmt: skip
    if len(sizes) > 1:
        raise LoadError(f"layers of the engine spread their experts over {join(sizes)} ranks; a target has one number "
                        "for all layers")  # fmt: skip
    is_data_first = bool(engine.config.get("use_data_before_expert_parallelism", False))
    is_cut = any(layer.enable_expert_tensor_parallelism for layer in layers)
    return {"ep": sizes.pop(), "data_before_experts": is_data_first, "expert_tp": is_cut}


def join(numbers: set[int]) -> str:
    """`2 and 4`."""
    return " and ".join(str(number) for number in sorted(numbers))
