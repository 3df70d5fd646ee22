"""make_checkpoint.py OUT [--parameters N] [--ranks N]: writes a large ZeRO stage 2 checkpoint, without training.

The files are those of a small one that the real engine wrote (a fixture), with larger tensors put into them: every
element is random, and each rank's optimizer file holds its part of the flattened parameters.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

TEMPLATE = Path(__file__).parents[1] / "fixtures" / "fused_adam_zero2" / "checkpoint" / "global_step4"
HIDDEN = 2048
VOCABULARY = 32000


def shapes(parameters: int) -> OrderedDict[str, torch.Size]:
    """Names and shapes of a model with at least this many parameters."""
    model = OrderedDict({"embed.weight": torch.Size([VOCABULARY, HIDDEN])})
    layer = 0
    while sum(shape.numel() for shape in model.values()) < parameters:
        model[f"blocks.{layer}.norm.weight"] = torch.Size([HIDDEN])
        model[f"blocks.{layer}.up.weight"] = torch.Size([4 * HIDDEN, HIDDEN])
        model[f"blocks.{layer}.down.weight"] = torch.Size([HIDDEN, 4 * HIDDEN])
        layer += 1
    return model


def fragments(model: OrderedDict[str, torch.Size], begin: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The parameters within [begin, end) of the flattened model: name, how many elements, and where in that range."""
    offset = 0
    for name, shape in model.items():
        first, last = max(offset, begin), min(offset + shape.numel(), end)
        if first < last:
            yield name, last - first, first - begin
        offset += shape.numel()


def write_model(folder: Path, model: OrderedDict[str, torch.Size], ranks: int, master: torch.Tensor) -> None:
    """The model-states file: the master's rounding, tensor by tensor."""
    states: dict[str, Any] = torch.load(TEMPLATE / "mp_rank_00_model_states.pt", weights_only=False)
    pieces = torch.split(master, [shape.numel() for shape in model.values()])
    states["module"] = OrderedDict(
        (name, piece.to(torch.bfloat16).view(shape)) for (name, shape), piece in zip(model.items(), pieces, strict=True)
    )
    states["param_shapes"] = [model]
    states["dp_world_size"] = ranks
    torch.save(states, folder / "mp_rank_00_model_states.pt")


def write_rank(folder: Path, model: OrderedDict[str, torch.Size], ranks: int, rank: int, master: torch.Tensor) -> None:
    """One rank's optimizer file."""
    file = "bf16_zero_pp_rank_{}_mp_rank_00_optim_states.pt"
    states: dict[str, Any] = torch.load(TEMPLATE / file.format(0), weights_only=False)
    optimizer = states["optimizer_state_dict"]
    length = master.numel() // ranks
    begin = rank * length
    optimizer["single_partition_of_fp32_groups"] = [master[begin : begin + length].clone()]
    moments = optimizer["base_optimizer_state"]["state"][0]
    moments["exp_avg"] = torch.rand(length)
    moments["exp_avg_sq"] = torch.rand(length)
    optimizer["group_paddings"] = [0]
    optimizer["param_alignment_paddings"] = [[0] * len(model)]
    optimizer["partition_count"] = [ranks]
    slices = optimizer["param_slice_mappings"][0]
    address = type(next(iter(slices.values())))
    optimizer["param_slice_mappings"] = [
        OrderedDict(
            (name, address(numel=elements, start=start))
            for name, elements, start in fragments(model, begin, begin + length)
        )
    ]
    torch.save(states, folder / file.format(rank))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parameters", type=int, default=160_000_000)
    parser.add_argument("--ranks", type=int, default=4)
    arguments = parser.parse_args()

    model = shapes(arguments.parameters)
    folder = arguments.out / "global_step4"
    folder.mkdir(parents=True)
    master = torch.rand(sum(shape.numel() for shape in model.values()))
    write_model(folder, model, arguments.ranks, master)
    for rank in range(arguments.ranks):
        write_rank(folder, model, arguments.ranks, rank, master)
    (arguments.out / "latest").write_text("global_step4")


if __name__ == "__main__":
    main()
