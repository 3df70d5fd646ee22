"""The files that this rank of a running engine would save itself, by name, with the engine's own tensors in them.

Nothing is copied. Loaded files must have this form, and may be read straight into these tensors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepspeed.runtime.pipe.module import PipelineModule
from deepspeed.runtime.utils import DummyOptim
from deepspeed.runtime.zero.parameter_offload import DeepSpeedZeRoOffload
from deepspeed.utils import groups

from .archive import State
from .experts import files_of_experts, layers_of


def has_optimizer(engine: Any) -> bool:
    """Whether the engine trains. In bfloat16 and at stage 3, one that does not has something else in this place."""
    base = getattr(engine.optimizer, "optimizer", engine.optimizer)
    return base is not None and not isinstance(base, DummyOptim | DeepSpeedZeRoOffload)


def model_file(engine: Any) -> str:
    """The file with the module and all else that does not belong to the optimizer."""
    return Path(engine._get_ckpt_name("", "")).name


def optimizer_file(engine: Any) -> str | None:
    """The file of this rank's part of the optimizer; without ZeRO there is one for experts alone."""
    if not has_optimizer(engine):
        return None
    if engine.zero_optimization():
        return Path(engine._get_zero_ckpt_name("", "")).name
    if not engine.has_moe_layers:
        return None
    largest = groups._get_max_expert_size_name()
    return Path(engine._get_optimizer_ckpt_name("", "", groups._get_expert_parallel_rank(largest))).name


def has_layer_files(engine: Any) -> bool:
    """A pipeline's weights are in files of its layers, but for one with experts."""
    return isinstance(engine.module, PipelineModule) and not engine.has_moe_layers


def held_by(engine: Any) -> dict[str, State]:
    """File by file."""
    files: dict[str, State] = {}
    module = None
    if has_layer_files(engine):
        for index, layer in enumerate(engine.module.forward_funcs):
            if hasattr(layer, "state_dict"):
                files[Path(engine.module.ckpt_layer_path("", index)).name] = layer.state_dict()
    else:
        module = engine.module.state_dict()
        files |= files_of_experts(engine, module)
    stage = engine.zero_optimization_stage()
    model: State = {"module": module}
    if fused := [layer.placement() for layer in layers_of(engine) if layer.is_fused]:
        model["ds_autoep_layers"] = fused
    if stage > 0 and has_optimizer(engine):
        model["param_shapes"] = engine._get_zero_param_shapes()
    if stage > 1:
        model["frozen_param_shapes"] = engine._get_zero_frozen_param_attributes(engine._get_param_shape_func)
        model["frozen_param_fragments"] = engine._get_zero_frozen_param_attributes(engine._get_param_fragment_func)
    optimizer = engine.optimizer.state_dict() if has_optimizer(engine) else None
    if stage > 0:
        files[str(optimizer_file(engine))] = {"optimizer_state_dict": optimizer}
    else:
        model["optimizer"] = optimizer
        if name := optimizer_file(engine):
            files[name] = {"optimizer": optimizer}
    files[model_file(engine)] = model
    return files
