"""Positions of placements are those that PyTorch itself cuts, on every small size."""

from __future__ import annotations

import itertools

import torch
from torch.distributed.tensor.placement_types import Shard, _StridedShard

from ucp_checkpoint._placements import _apply, _held


def listed(runs: list[tuple[int, int]]) -> list[int]:
    """Every position."""
    return [position for begin, end in runs for position in range(begin, end)]


def cut(values: torch.Tensor, pieces: int, coordinates: int) -> list[torch.Tensor]:
    """The positions that PyTorch gives to each coordinate."""
    placement = Shard(0) if pieces == 1 else _StridedShard(0, split_factor=pieces)
    return placement._split_tensor(values, coordinates, with_padding=False)[0]


def test_from_the_left() -> None:
    """A strided placement and then a plain one, as PyTorch applies them."""
    for length, pieces, first, second in itertools.product(range(14), (1, 2, 3), (1, 2, 3, 4), (1, 2, 3)):
        for place, part in enumerate(cut(torch.arange(length), pieces, first)):
            for other, part_of_part in enumerate(cut(part, 1, second)):
                runs = _apply(length, [(pieces, first, place), (1, second, other)])
                assert listed(runs) == part_of_part.tolist(), (length, pieces, first, second, place, other)


def test_as_fsdp2_over_tensor_parallelism_cuts() -> None:
    """It cuts what tensor parallelism left, which is the same but where sizes are uneven: then the local size tells."""
    told_apart = 0
    for length, data, tensor in itertools.product(range(1, 30), (2, 3, 4), (2, 3, 4)):
        for column, left in enumerate(torch.arange(length).chunk(tensor)):
            for row, part in enumerate(left.chunk(data)):
                parts = [(tensor, data, row), (1, tensor, column)]
                told_apart += len(listed(_apply(length, parts))) != len(part)
                assert listed(_held(length, parts, len(part))) == part.tolist(), (length, parts)
    assert told_apart > 0


def test_as_fsdp2_over_experts_and_tensor_parallelism_cuts() -> None:
    """All three of one dimension: those to the right are applied from the left, and then FSDP2's."""
    for length, data, expert, tensor in itertools.product(range(1, 20), (2, 3), (2, 3), (2, 3)):
        for first, of_experts in enumerate(torch.arange(length).chunk(expert)):
            for second, left in enumerate(of_experts.chunk(tensor)):
                for row, part in enumerate(left.chunk(data)):
                    parts = [(expert * tensor, data, row), (1, expert, first), (1, tensor, second)]
                    assert listed(_held(length, parts, len(part))) == part.tolist(), (length, parts)


def test_as_a_strided_placement_by_hand_cuts() -> None:
    """Where FSDP2's way gives another size, or there is none."""
    by_hand = 0
    for length, pieces, first, second in itertools.product(range(1, 14), (1, 2, 3), (2, 3), (2, 3)):
        for place, other in itertools.product(range(first), range(second)):
            parts = [(pieces, first, place), (1, second, other)]
            right = cut(cut(torch.arange(length), pieces, first)[place], 1, second)[other].tolist()
            found = _held(length, parts, len(right))
            assert found is not None
            if pieces not in (1, second):
                by_hand += 1
                assert listed(found) == right
    assert by_hand > 0
