"""The strategy whose files a running engine loads, from its own settings."""

from __future__ import annotations

from typing import Any

from deepspeed.runtime.bf16_optimizer import BF16_Optimizer
from deepspeed.runtime.pipe.module import PipelineModule

from .errors import LoadError
from .experts import strategy_of_experts
from .held import has_optimizer


def strategy_of(engine: Any) -> str:
    """`deepspeed:tp=2,…`: all that decides what stands where in this engine's files."""
    stage = engine.zero_optimization_stage()
    settings: dict[str, Any] = {**degrees(engine), "zero": stage, "dtype": dtype(engine), **strategy_of_experts(engine)}
    optimizer = engine.optimizer
    if stage == 3 and not has_optimizer(engine):
        raise LoadError(
            "the engine has no optimizer, and DeepSpeed's loader fails without one at stage 3: load into an engine "
            "without ZeRO, or by `ucp.load_into` into the model before deepspeed.initialize()"
        )
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
    """The dtype in which the model computes."""
    return "bf16" if engine.bfloat16_enabled() else "fp16" if engine.fp16_enabled() else "fp32"
