"""Random pairs of affine maps: what DeepSpeed's own `plan_transfer` accepts, our steps move to the same places."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import torch
from deepspeed.checkpoint.affine import (
    ParamAffineMap,
    block_gather_map,
    contiguous_split_map,
    replicated_map,
    segmented_map,
    sub_param_map,
)
from deepspeed.checkpoint.affine_transfer import AffineTransferError, plan_transfer

PAIRS = 400
NOWHERE = -1


def widths(rng: random.Random, size: int, ranks: int) -> list[int]:
    """Any, zero too."""
    ends = sorted(rng.randint(0, size) for _ in range(ranks - 1))
    return [end - begin for begin, end in zip([0, *ends], [*ends, size], strict=True)]


def parts_of(rng: random.Random, size: int) -> list[int]:
    """Sizes that add up to `size`, none of them 0."""
    count = rng.randint(1, min(3, size))
    ends = [0, *sorted(rng.sample(range(1, size), count - 1)), size]
    return [end - begin for begin, end in itertools.pairwise(ends)]


def random_map(rng: random.Random, shape: list[int]) -> ParamAffineMap:
    """One of the kinds that DeepSpeed builds, on 1 to 5 ranks."""
    ranks = rng.randint(1, 5)
    dim = rng.randrange(len(shape))
    size = shape[dim]
    kind = rng.choice(["whole", "split", "parts", "segments", "blocks"])
    if kind == "whole":
        return replicated_map(shape, ranks)
    if kind == "split":
        return contiguous_split_map(shape, widths(rng, size, ranks), dim)
    parts = parts_of(rng, size)
    if kind == "parts":
        return sub_param_map(shape, parts, [widths(rng, part, ranks) for part in parts], dim)
    if kind == "segments":
        segments = [(part, rng.random() < 0.5) for part in parts]
        split = [widths(rng, part, ranks) for part, whole in segments if not whole]
        return segmented_map(shape, segments, dim, ranks, split)
    block = rng.choice([size_ for size_ in range(1, size + 1) if size % size_ == 0])
    ids = list(range(size // block))
    rng.shuffle(ids)
    held = [ids[begin::ranks] for begin in range(ranks)]
    if rng.random() < 0.3:  # Some blocks twice, on two ranks.
        held[0] = held[0] + [one for one in held[-1] if one not in held[0]]
    return block_gather_map(shape, dict(enumerate(held)), block, dim)


def shards_of(affine: ParamAffineMap) -> list[torch.Tensor]:
    """Each element is its own row-major index in the whole tensor."""
    full = torch.arange(affine.numel).reshape(affine.logical_shape)
    return [affine.extract(full, rank) for rank in sorted(affine.shard_shapes)]


def moved_by_deepspeed(plan: Any, target: ParamAffineMap, shards: list[torch.Tensor]) -> list[list[int]]:
    """The segments of the plan, carried out."""
    moved = [
        torch.full(tuple(target.shard_shapes[rank]), NOWHERE).flatten() for rank in sorted(target.shard_shapes)
    ]
    for one in plan.segments:
        source = shards[one.source_rank].flatten().as_strided(one.shape, one.source_strides, one.source_offset)
        moved[one.target_rank].as_strided(one.shape, one.target_strides, one.target_offset).copy_(source)
    return [shard.tolist() for shard in moved]


def ask(program: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Our answers."""
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    result = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=300, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_random_pairs(ucprun: Path) -> None:
    """The seed is printed; UCP_SEED gives one."""
    seed = int(os.environ.get("UCP_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed}")
    rng = random.Random(seed)
    cases: list[dict[str, Any]] = []
    expected: list[list[list[int]]] = []
    declined = 0
    while len(cases) < PAIRS:
        shape = [rng.randint(1, 12) for _ in range(rng.randint(1, 3))]
        source, target = random_map(rng, shape), random_map(rng, shape)
        try:
            plan = plan_transfer(target, source)
        except AffineTransferError:
            declined += 1
            continue
        shards = shards_of(source)
        expected.append(moved_by_deepspeed(plan, target, shards))
        assert expected[-1] == [shard.flatten().tolist() for shard in shards_of(target)]
        cases.append({
            "source": source.to_dict(),
            "target": target.to_dict(),
            "shards": [shard.flatten().tolist() for shard in shards],
        })
    answers = ask(ucprun.with_name("affine_moves"), cases)
    assert len(answers) == PAIRS
    print(f"{PAIRS} pairs that plan_transfer accepts, {declined} that it declines")
    for case, answer, moved in zip(cases, answers, expected, strict=True):
        assert answer == {"shards": moved}, (seed, case)
