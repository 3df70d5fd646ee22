"""Affine maps as the builders of the real DeepSpeed make them, for layouts that AutoTP and AutoEP have.

Run it to write tests/fixtures/affine_maps.json again. Widths and lists come from DeepSpeed's own functions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deepspeed.checkpoint.affine import (
    block_gather_map,
    contiguous_split_map,
    replicated_map,
    segmented_map,
    sub_param_map,
)
from deepspeed.checkpoint.autoep_affine import autoep_placement_to_affine_map, make_autoep_placement_descriptor
from deepspeed.module_inject.fusedqkv_utils import codegen_block_layout, shared_qk_value_head_ids
from deepspeed.module_inject.tp_shard import AutoTPMeta, get_shard_size_list

FILE = Path(__file__).parents[1] / "fixtures" / "affine_maps.json"


def widths(size: int, ranks: int, **meta: int) -> list[int]:
    """The part that AutoTP gives each rank."""
    found: list[int] = get_shard_size_list(size, ranks, AutoTPMeta(**meta))
    return found


def maps() -> dict[str, Any]:
    """By what they show."""
    heads = {rank: shared_qk_value_head_ids(8, 2, rank) for rank in range(2)}
    codegen = codegen_block_layout(48, 2, 8)
    assert codegen is not None
    placement = make_autoep_placement_descriptor(4, [[0, 3], [1], [3, 2]])
    fused = [widths(8 * 2, 4, num_kv_heads=4), widths(4 * 2, 4, num_kv_heads=4), widths(4 * 2, 4, num_kv_heads=4)]
    made = {
        "replicated": replicated_map([6, 4], 3),
        "replicated, divided by the degree": replicated_map([4], 2, scale=0.5),
        "column parallel": contiguous_split_map([8, 3], widths(8, 2), 0),
        "row parallel": contiguous_split_map([3, 8], widths(8, 2), 1),
        "uneven": contiguous_split_map([10, 3], widths(10, 4), 0),
        "in whole units of 64": contiguous_split_map([14300], widths(14300, 4, tp_grain_size=64), 0),
        "two heads over three ranks": contiguous_split_map([8, 3], widths(8, 3, num_kv_heads=2), 0),
        "fused query, key and value": sub_param_map([32, 3], [16, 8, 8], fused, 0),
        "gate and up, uneven, along columns": sub_param_map([2, 20], [10, 10], [widths(10, 4)] * 2, 1),
        "shared key and value beside cut queries": segmented_map(
            [14, 3], [(10, False), (4, True)], 0, 4, [widths(10, 4)]),
        "shared heads of values": block_gather_map([16, 3], heads, 2, 0),
        "permuted blocks": block_gather_map([48, 2], codegen[1], codegen[0], 0),
        "experts, one of them twice": autoep_placement_to_affine_map(placement, [4, 2, 3]),
    }
    return {name: entry.to_dict() for name, entry in made.items()}


def as_json() -> str:
    """One line for each map."""
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in maps().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(as_json())
