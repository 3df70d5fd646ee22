"""The part of a tensor that a rank holds, read off a real shard whose full tensor was filled with its own indices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy

TRUTH = Path(__file__).parent / "truth"
Positions = list[int]


def own_indices(shape: Sequence[int]) -> numpy.ndarray:
    """A full tensor in which each element is its own row-major index; exact as float32 below 2**24."""
    count = int(numpy.prod(shape))
    assert count < 2**24
    return numpy.arange(count, dtype=numpy.int64).reshape(shape)


def positions_of(shard: numpy.ndarray, shape: Sequence[int]) -> list[Positions]:
    """Per dimension, the positions that a shard of `own_indices(shape)` holds, in their order.

    Every element is checked: a shard that is not a product of positions is refused.
    """
    assert shard.ndim == len(shape), (shard.shape, shape)
    if shard.size == 0:
        return [[] if length == 0 else list(range(length)) for length in shard.shape]
    coordinates = numpy.unravel_index(shard.astype(numpy.int64), tuple(shape)) if shape else ()
    positions = []
    for dim, coordinate in enumerate(coordinates):
        first = tuple(slice(None) if other == dim else 0 for other in range(shard.ndim))
        positions.append([int(position) for position in coordinate[first]])
    assert numpy.array_equal(own_indices(shape)[numpy.ix_(*positions)], shard), "the shard is no product of positions"
    return positions


def runs_text(positions: Positions) -> str:
    """`0..4 8..12`: half-open runs in their order; `-` where nothing is held."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and runs[-1][1] == position:
            runs[-1][1] += 1
        else:
            runs.append([position, position + 1])
    return " ".join(f"{begin}..{end}" for begin, end in runs) or "-"


def held_text(positions: Sequence[Positions]) -> str:
    """One text for all dimensions."""
    return ", ".join(runs_text(each) for each in positions)


def parse_held(text: str) -> list[Positions]:
    """The reverse of `held_text`."""
    return [
        [p for run in part.split() if run != "-" for p in range(*(int(bound) for bound in run.split("..")))]
        for part in (text.split(", ") if text else [])
    ]


@dataclass
class HeldTensor:
    """One tensor: its full shape, what each rank holds (by rank), and the number its shards are multiplied by."""

    shape: list[int]
    held: list[str]
    scale: float = 1.0


@dataclass
class Truth:
    """Real shards of one model at one size of one axis."""

    name: str
    source: str
    axis: str
    degree: int
    config: dict[str, Any]
    tensors: dict[str, HeldTensor] = field(default_factory=dict)

    def save(self) -> None:
        """As a file of `truth/`, one line for each tensor."""
        lines = [
            f"  {json.dumps(key)}: {json.dumps(getattr(self, key))},"
            for key in ("name", "source", "axis", "degree", "config")
        ]
        rows = [f"    {json.dumps(name)}: {json.dumps(vars(tensor))}" for name, tensor in self.tensors.items()]
        body = ",\n".join(rows)
        text = "{\n" + "\n".join(lines) + '\n  "tensors": {\n' + body + "\n  }\n}\n"
        (TRUTH / f"{self.name}.json").write_text(text)

    @staticmethod
    def load(path: Path) -> Truth:
        """The tensors that `save` wrote."""
        value = json.loads(path.read_text())
        value["tensors"] = {name: HeldTensor(**tensor) for name, tensor in value["tensors"].items()}
        return Truth(**value)


def from_shards(
    truth: Truth,
    shapes: Mapping[str, Sequence[int]],
    shards: Sequence[Mapping[str, numpy.ndarray]],
    scales: Mapping[str, float],
) -> Truth:
    """Fills `truth` from the shards of all ranks."""
    for name, shape in shapes.items():
        scale = scales.get(name, 1.0)
        held = [held_text(positions_of(numpy.rint(rank[name] / scale), shape)) for rank in shards]
        truth.tensors[name] = HeldTensor(list(shape), held, scale)
    return truth
