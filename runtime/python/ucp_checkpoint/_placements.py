"""Computes from placements which positions of a distributed tensor this rank holds, dimension by dimension.

A dimension's positions are runs [begin, end). PyTorch applies placements from the left: each takes the part of one
coordinate from what the ones before it have left. `_StridedShard` takes its part from each of several pieces, as if
placements to its right, of so many coordinates together, had been applied first; FSDP2 over tensor parallelism is
written so. FSDP2 itself does apply those first, which gives other parts where sizes are uneven: then the local tensor
says which of the two it was.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from ucp_checkpoint._failure import failure

Runs = list[tuple[int, int]]


def positions_of(name: str, tensor: Any, local: tuple[int, ...]) -> list[Runs]:
    """Of a DTensor of whose mesh this rank is. Raises where the shape of its local tensor is not that of its
    placements."""
    from torch.distributed.tensor.placement_types import _StridedShard

    coordinate = tensor.device_mesh.get_coordinate()
    shards: list[list[tuple[int, int, int]]] = [[] for _ in tensor.shape]  # (pieces, coordinates, place) by dimension.
    for axis, placement in enumerate(tensor.placements):
        if placement.is_replicate():
            continue
        if placement.is_partial():
            raise failure(
                "usage",
                f"tensor `{name}` has the placement {placement}: each rank holds a term of a sum, which no checkpoint "
                "has; redistribute it to Replicate or Shard",
            )
        pieces = placement.split_factor if isinstance(placement, _StridedShard) else 1
        shards[placement.dim].append((pieces, tensor.device_mesh.size(axis), coordinate[axis]))
    found = [_held(length, parts, size) for length, parts, size in zip(tensor.shape, shards, local, strict=True)]
    held = [runs for runs in found if runs is not None]
    if len(held) < len(found):
        raise failure(
            "usage",
            f"tensor `{name}` of shape {list(tensor.shape)} is {list(local)} on this rank, where its placements "
            f"{tensor.placements} on the mesh {list(tensor.device_mesh.shape)} give other sizes",
        )
    return held


def _held(length: int, parts: list[tuple[int, int, int]], local_length: int) -> Runs | None:
    # FSDP2's way first: of the two, it is the one that jobs use with sizes that leave the choice.
    if (order := _order(parts)) is not None:
        in_order = _apply(length, [(1, coordinates, place) for _, coordinates, place in order])
        if _length(in_order) == local_length:
            return in_order
    from_left = _apply(length, parts)
    return from_left if _length(from_left) == local_length else None


def _order(parts: list[tuple[int, int, int]]) -> list[tuple[int, int, int]] | None:
    """Each behind those to its right whose coordinates are together its pieces, if there are such."""
    order: list[tuple[int, int, int]] = []
    for part in reversed(parts):
        before = [math.prod(coordinates for _, coordinates, _ in order[:count]) for count in range(len(order) + 1)]
        if part[0] not in before:
            return None
        order.insert(before.index(part[0]), part)
    return order


def _apply(length: int, parts: list[tuple[int, int, int]]) -> Runs:
    runs: Runs = [(0, length)] if length > 0 else []
    for pieces, coordinates, place in parts:
        taken: Runs = []
        for piece in range(pieces):
            taken += _chunk(_chunk(runs, pieces, piece), coordinates, place)
        runs = _joined(taken)
    return runs


def _chunk(runs: Runs, coordinates: int, place: int) -> Runs:
    """The positions that torch.chunk gives to a coordinate: ceil(n / k), and to the last ones the rest."""
    width = -(-_length(runs) // coordinates)
    begin, end = place * width, (place + 1) * width
    taken, passed = [], 0
    for first, last in runs:
        low, high = max(begin - passed, 0), min(end - passed, last - first)
        if low < high:
            taken.append((first + low, first + high))
        passed += last - first
    return taken


def _joined(runs: Runs) -> Runs:
    joined: Runs = []
    for begin, end in runs:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined


def _length(runs: Runs) -> int:
    return sum(end - begin for begin, end in runs)


def are_increasing(runs: Runs) -> bool:
    """As positions of a strided placement of a strided one need not be."""
    return all(a[1] <= b[0] for a, b in pairwise(runs))
