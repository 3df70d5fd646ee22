"""AutoEP checkpoints with other placements of experts, built from those that the engine saved with its only one.

DeepSpeed 0.19.8 reads placements that are uneven, without order and replicated, and writes none of them yet. The bytes
follow from its own layout: an expert rank's tensors are its experts one behind the other, flattened and cut over the
ranks that have the same ones.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from deepspeed.checkpoint.affine import AFFINE_MAP_FORMAT_VERSION
from deepspeed.checkpoint.autoep_affine import autoep_placement_to_affine_map, make_autoep_placement_descriptor
from deepspeed.utils.tensor_fragment import fragment_address

Placement = list[list[int]]
Tensors = dict[str, torch.Tensor]  # By name, with all experts.

STAGE3 = "fp32_flat_groups"


@dataclass
class Checkpoint:
    """All files of a checkpoint whose experts are placed as the engine does it."""

    folder: Path
    models: dict[int, dict[str, Any]]  # By rank; below stage 3 the first ones' only, by tensor-parallel rank.
    optimizers: dict[int, dict[str, Any]]  # By rank, of which tensor-parallel ones are neighbours.
    stage: int | None = None  # Of a pipeline, the stage of which these are all files.

    @property
    def layers(self) -> list[dict[str, Any]]:
        return self.models[0]["ds_autoep_layers"]

    def sharing(self, rank: int) -> list[int]:
        """The ranks that are one expert rank."""
        ranks, ep = len(self.optimizers), self.layers[0]["ep_size"]
        if self.models[0]["ds_config"].get("use_data_before_expert_parallelism"):
            return list(range(rank * ranks // ep, (rank + 1) * ranks // ep))
        return list(range(rank, ranks, ep))

    @property
    def mp(self) -> str:
        """The model-parallel rank in the names of its files, as a pattern."""
        return "*" if self.stage is None else f"{self.stage:02d}"

    @property
    def model_files(self) -> list[Path]:
        """In the order of `models`."""
        return files_of(self.folder, f"zero_pp_rank_*_mp_rank_{self.mp}_model_states.pt") or files_of(
            self.folder, f"mp_rank_{self.mp}_model_states.pt"
        )

    @property
    def optimizer_files(self) -> list[Path]:
        """In the order of `optimizers`."""
        return files_of(self.folder, f"*_mp_rank_{self.mp}_optim_states.pt")

    def expert_groups(self) -> list[int]:
        """The numbers of the groups, or sub-groups, of experts."""
        shapes = self.models[0]["param_shapes"]
        return [index for index, group in enumerate(shapes) if all(".mlp.experts." in name for name in group)]


def files_of(folder: Path, pattern: str) -> list[Path]:
    """By name."""
    return sorted(folder.glob(pattern))


def load(folder: Path, stage: int | None = None) -> Checkpoint:
    checkpoint = Checkpoint(folder, {}, {}, stage)
    for held, files in (
        (checkpoint.models, checkpoint.model_files),
        (checkpoint.optimizers, checkpoint.optimizer_files),
    ):
        held.update(enumerate(torch.load(file, weights_only=False) for file in files))
    return checkpoint


def save(checkpoint: Checkpoint) -> None:
    for held, files in (
        (checkpoint.models, checkpoint.model_files),
        (checkpoint.optimizers, checkpoint.optimizer_files),
    ):
        for index, file in enumerate(files):
            torch.save(held[index], file)


def vectors(file: dict[str, Any], group: int) -> dict[str, tuple[Any, Any]]:
    """Where the master and the states of a group stand: a container and a key, by state."""
    states = file["optimizer_state_dict"]
    base = states["optimizer_state_dict"] if STAGE3 in states else states["base_optimizer_state"]
    found = {key: (base["state"][group], key) for key in ("exp_avg", "exp_avg_sq")}
    found["fp32"] = (states[STAGE3 if STAGE3 in states else "single_partition_of_fp32_groups"], group)
    return found


def gather(checkpoint: Checkpoint, group: int, state: str) -> Tensors:
    """The tensors of a group with all experts, from ranks that have neighbouring ones."""
    shapes = checkpoint.models[0]["param_shapes"][group]
    is_stage3 = STAGE3 in checkpoint.optimizers[0]["optimizer_state_dict"]
    local: list[Tensors] = []
    for rank in range(checkpoint.layers[0]["ep_size"]):
        sharing = checkpoint.sharing(rank)
        held = [vectors(checkpoint.optimizers[d], group)[state] for d in sharing]
        parts = [container[key].detach() for container, key in held]
        tensors, at = {}, 0
        for name, shape in shapes.items():
            size = math.prod(shape)
            if is_stage3:
                each = math.ceil(size / len(sharing))
                flat = torch.cat([part[at : at + each] for part in parts])[:size]
                at += each
            else:
                flat = torch.cat(parts)[at : at + size]
                at += size
            tensors[name] = flat.view(tuple(shape))
        local.append(tensors)
    return {name: torch.cat([tensors[name] for tensors in local]) for name in shapes}


def scatter(checkpoint: Checkpoint, group: int, state: str, tensors: Tensors, placement: Placement) -> None:
    """The opposite, for any placement."""
    is_stage3 = STAGE3 in checkpoint.optimizers[0]["optimizer_state_dict"]
    for rank, experts in enumerate(placement):
        sharing = checkpoint.sharing(rank)
        local = {name: tensor[experts].flatten() for name, tensor in tensors.items()}
        if is_stage3:
            each = {name: math.ceil(flat.numel() / len(sharing)) for name, flat in local.items()}
            padded = {n: torch.cat([f, f.new_zeros(each[n] * len(sharing) - f.numel())]) for n, f in local.items()}
            parts = [
                torch.cat([flat[i * each[name] : (i + 1) * each[name]] for name, flat in padded.items()])
                for i in range(len(sharing))
            ]
            paddings = [0] * len(sharing)
        else:
            flat = torch.cat(list(local.values()))
            size = 2 * math.ceil(flat.numel() / (2 * len(sharing)))
            padded_flat = torch.cat([flat, flat.new_zeros(size * len(sharing) - flat.numel())])
            parts = [padded_flat[i * size : (i + 1) * size] for i in range(len(sharing))]
            paddings = [min(size, max(0, (i + 1) * size - flat.numel())) for i in range(len(sharing))]
        for index, (d, part, padding) in enumerate(zip(sharing, parts, paddings, strict=True)):
            container, key = vectors(checkpoint.optimizers[d], group)[state]
            states = checkpoint.optimizers[d]["optimizer_state_dict"]
            is_short = state == "fp32" and "zero_stage" in states and not is_stage3
            container[key] = part[: part.numel() - padding].clone() if is_short else part.clone()
            if not is_stage3:
                states["group_paddings"][group] = padding
                states["param_slice_mappings"][group] = slices(local, index * part.numel(), part.numel())


def slices(local: Tensors, begin: int, length: int) -> dict[str, fragment_address]:
    """The parameters of a partition, and their places."""
    mapping, at = {}, 0
    for name, flat in local.items():
        first, last = max(at, begin), min(at + flat.numel(), begin + length)
        if first < last:
            mapping[name] = fragment_address(numel=last - first, start=first - begin)
        at += flat.numel()
    return mapping


def describe(checkpoint: Checkpoint, placement: Placement) -> None:
    """Writes the placement into the metadata of every file, by DeepSpeed's own functions."""
    descriptor = make_autoep_placement_descriptor(checkpoint.layers[0]["num_experts"], placement)
    for model in checkpoint.models.values():
        own = placement[model["ds_autoep_layers"][0]["ep_rank"]]
        for shapes in model["param_shapes"]:
            for name, shape in shapes.items():
                if ".mlp.experts." in name:
                    shapes[name] = torch.Size([len(own), *shape[1:]])
        for layer in model["ds_autoep_layers"]:
            maps = layer["affine_maps"]["params"]
            layer["num_local_experts"] = len(own)
            layer["expert_placement"] = descriptor
            layer["affine_maps"] = {
                "version": AFFINE_MAP_FORMAT_VERSION,
                "params": {
                    name: autoep_placement_to_affine_map(descriptor, old["logical_shape"]).to_dict()
                    for name, old in maps.items()
                },
            }
        model["universal_checkpoint_info"]["ds_autoep_layers"] = model["ds_autoep_layers"]


def move_weights(checkpoint: Checkpoint, placement: Placement) -> None:
    """Each tensor-parallel rank saves the weights of its own experts, one file each, and what it is in them."""
    tp = checkpoint.models[0]["mp_world_size"] if checkpoint.stage is None else 1
    for layer, entry in enumerate(checkpoint.layers):
        of_expert = f"_mp_rank_{checkpoint.mp}_model_states.pt"
        files = {
            expert: files_of(checkpoint.folder, f"layer_{layer}_expert_{expert}{of_expert}")[0]
            for expert in range(entry["num_experts"])
        }
        weights = {expert: torch.load(file, weights_only=False) for expert, file in files.items()}
        for file in files_of(checkpoint.folder, f"layer_{layer}_expert_*{of_expert}"):
            file.unlink()
        for rank in range(len(checkpoint.optimizers)):
            ep_rank = next(r for r in range(len(placement)) if rank in checkpoint.sharing(r))
            for expert in placement[ep_rank]:
                saved = dict(weights[expert])
                if tp > 1:
                    saved["folding"] = {**saved["folding"], "tp_rank": rank % tp, "ep_rank": ep_rank}
                mp = rank % tp if checkpoint.stage is None else checkpoint.stage
                name = f"layer_{layer}_expert_{expert}_mp_rank_{mp:02d}_model_states.pt"
                torch.save(saved, checkpoint.folder / name)


def place(checkpoint: Checkpoint, placement: Placement) -> None:
    """Changes its files."""
    for group in checkpoint.expert_groups():
        for state in ("fp32", "exp_avg", "exp_avg_sq"):
            scatter(checkpoint, group, state, gather(checkpoint, group, state), placement)
    describe(checkpoint, placement)
    if not any(checkpoint.folder.glob("zero_pp_rank_*_model_states.pt")):
        move_weights(checkpoint, placement)
    save(checkpoint)


def place_otherwise(source: Path, target: Path, placement: Placement) -> None:
    """A copy of the checkpoint with its experts placed so."""
    shutil.copytree(source, target)
    place(load(target / (target / "latest").read_text()), placement)


def place_stages(source: Path, target: Path, placements: list[Placement]) -> None:
    """The same of a pipeline, of which each stage has a placement."""
    shutil.copytree(source, target)
    for stage, placement in enumerate(placements):
        place(load(target / (target / "latest").read_text(), stage), placement)
