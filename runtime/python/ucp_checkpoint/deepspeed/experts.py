"""A running engine's layers with experts: DeepSpeed's MoE layer, and those that AutoEP put for the model's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepspeed.moe.layer import MoE
from deepspeed.utils import groups

from .archive import State
from .errors import LoadError

try:
    from deepspeed.module_inject.auto_ep_layer import AutoEPMoELayer
except ImportError:  # No layer is AutoEP's where DeepSpeed has none.
    AutoEPMoELayer = type("AutoEPMoELayer", (), {})

EXPERTS = ".deepspeed_moe.experts.deepspeed_experts."  # Of DeepSpeed's own layer, before an expert's number.
FOLDING = "folding"  # In a file beside AutoTP: whose it is, which DeepSpeed compares itself.
MATRICES = ("w1", "w2", "w3")  # Of AutoEP's, with an expert for each place of the first dimension.


@dataclass(frozen=True)
class Layer:
    """One of them. Layers of both kinds are counted together, in the order of the module."""

    path: str
    part: Any
    number: int

    @property
    def is_fused(self) -> bool:
        """Whether it is AutoEP's."""
        return isinstance(self.part, AutoEPMoELayer)

    @property
    def group(self) -> str:
        """The name of the ranks that share its experts out."""
        return str(self.part.ep_group_name if self.is_fused else self.part.expert_group_name)

    @property
    def first(self) -> int:
        """The number of this rank's first expert in the whole model."""
        return int(groups._get_expert_parallel_rank(self.group)) * int(self.part.num_local_experts)

    def placement(self) -> State:
        """The entries of AutoEP's files on this layer that must match this engine's."""
        return {
            "moe_layer_id": self.number,
            "module_path": self.path,
            "num_experts": self.part.num_experts,
            "ep_size": self.part.ep_size,
            "expert_placement": self.part.expert_placement_descriptor,
        }


def layers_of(engine: Any) -> list[Layer]:
    """In the order in which files number them."""
    found = [(path, part) for path, part in engine.module.named_modules() if isinstance(part, MoE | AutoEPMoELayer)]
    return [Layer(path, part, number) for number, (path, part) in enumerate(found)]


def strategy_of_experts(engine: Any) -> dict[str, Any]:
    """Over how many ranks experts are spread, which of these are neighbours, and whether each tensor-parallel rank has
    a part of every expert."""
    if not engine.has_moe_layers:
        return {}
    layers = layers_of(engine)
    fused = [layer for layer in layers if layer.is_fused]
    if fused and not all(hasattr(layer.part, "expert_placement_descriptor") for layer in fused):
        raise LoadError("AutoEP of this DeepSpeed does not say which rank has which experts, as that of 0.19.8 does; "
                        "convert the checkpoint with `ucprun convert`, and let the engine load that")  # fmt: skip
    sizes = {int(layer.part.ep_size) for layer in layers}
    if len(sizes) > 1:
        raise LoadError(f"layers of the engine spread their experts over {join(sizes)} ranks; a target has one number "
                        "for all layers")  # fmt: skip
    is_data_first = bool(engine.config.get("use_data_before_expert_parallelism", False))
    degrees = {"ep": sizes.pop(), "data_before_experts": is_data_first}
    if fused:
        return degrees
    return degrees | {"expert_tp": any(layer.part.enable_expert_tensor_parallelism for layer in layers)}


def join(numbers: set[int]) -> str:
    """`2 and 4`."""
    return " and ".join(str(number) for number in sorted(numbers))


def files_of_experts(engine: Any, module: State) -> dict[str, State]:
    """Takes the experts out of the module's state; each has a file of its own, with its number in the whole model. At
    stage 3 AutoEP's have none: the optimizer has them."""
    files: dict[str, State] = {}
    for layer in layers_of(engine):
        take = fused_expert if layer.is_fused else expert
        is_in_files = not layer.is_fused or engine.zero_optimization_stage() < 3
        for local in range(layer.part.num_local_experts if is_in_files else 0):
            name = engine._get_expert_ckpt_name("", layer.number, layer.first + local, "", engine.mpu)
            files[Path(name).name] = take(module, layer, local)
        for matrix in MATRICES if layer.is_fused else ():
            del module[fused_name(layer, matrix)]
    return files


def expert(module: State, layer: Layer, local: int) -> State:
    """Under the names of the whole model."""
    mine = f"{layer.path}{EXPERTS}{local}."
    return {
        f"{layer.path}{EXPERTS}{layer.first + local}.{key.removeprefix(mine)}": module.pop(key)
        for key in list(module)
        if key.startswith(mine)
    }


def fused_expert(module: State, layer: Layer, local: int) -> State:
    """Its part of each of the layer's tensors."""
    names = [fused_name(layer, matrix) for matrix in MATRICES]
    return {f"{name}.{layer.first + local}": module[name][local] for name in names}


def fused_name(layer: Layer, matrix: str) -> str:
    """A model that is one layer has names without a path."""
    return f"{layer.path}.experts.{matrix}".removeprefix(".")
