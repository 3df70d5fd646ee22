"""The conversion of numbered elements as factors: which part of one side is where on the other.

A part is one pattern of one side, whole, for all places of its counters; the other side may hold several parts in one
pattern. Each axis of a part is a product of digits, and each digit runs along one axis of the other side in steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from ucp_checkpoint._failure import failure
from ucp_checkpoint._import_names import Group, Index


@dataclass(frozen=True)
class Digit:
    """One factor of an axis: `radix` places, along `axis` of the other side in steps of `step` places."""

    radix: tuple[int, ...]
    axis: int
    step: tuple[int, ...]


@dataclass
class Part:
    """A group of one side and where it is in a group of the other: digits for each axis, and the first place on each
    axis there."""

    own: Group
    other: Group
    axes: list[list[Digit]]
    start: list[tuple[int, ...]]


def refuse(group: Group, why: str) -> Exception:
    """To be raised."""
    return failure("unsupported", f"the tensor `{group.one()}` {why}; write a spec by hand")


class Stacked:
    """All tensors of a group as one array for each configuration: the counters' places that are there, then the
    tensor's own axes."""

    def __init__(self, group: Group, tensors: list[dict[str, numpy.ndarray]]) -> None:
        self.group = group
        self.arrays: list[numpy.ndarray] = []
        self.present: list[list[list[int]]] = []  # For each configuration and counter.
        for names, codes in zip(group.names, tensors, strict=True):
            present = [sorted({index[axis] for index in names}) for axis in range(len(group.counters))]
            shapes = {codes[name].shape for name in names.values()}
            count = int(numpy.prod([len(one) for one in present], dtype=int))
            if len(shapes) > 1:
                raise refuse(group, f"has several shapes, {' and '.join(map(str, sorted(shapes)[:2]))}")
            if count != len(names):
                raise refuse(group, "is in layers that no rule for each counter describes")
            shape = next(iter(shapes))
            rows = [codes[names[index]] for index in _places(present)]
            self.arrays.append(numpy.stack(rows).reshape([*(len(one) for one in present), *shape]))
            self.present.append(present)


def _places(present: list[list[int]]) -> list[Index]:
    places: list[Index] = [()]
    for one in present:
        places = [(*place, number) for place in places for number in one]
    return places


def lift(memory: list[Stacked], hub: list[Stacked], elements: list[int]) -> list[Part]:
    """The parts of both sides. A part is a group of the hub, or, where the hub fuses, a group in memory."""
    of_memory = [_owners(memory, variant, count) for variant, count in enumerate(elements)]
    of_hub = [_owners(hub, variant, count) for variant, count in enumerate(elements)]
    for variant, (owners, _) in enumerate(of_hub):
        if (owners < 0).any():
            lost = int(numpy.flatnonzero(owners < 0)[0])
            raise refuse(memory[of_memory[variant][0][lost]].group, "is not in the files of the hub")
    hub_sources = [_numbers(of_memory[0][0], one) for one in hub]
    memory_sources = [_numbers(of_hub[0][0], one) for one in memory]
    parts = []
    for one, sources in zip(hub, hub_sources, strict=True):
        if len(sources) == 1:
            parts.append(_part(one, memory[sources[0]], sources[0], of_memory))
    for number, (one, sources) in enumerate(zip(memory, memory_sources, strict=True)):
        fused = [s for s in sources if len(hub_sources[s]) > 1]
        if fused and len(sources) > 1:
            raise refuse(one.group, "is spread over tensors of the hub that hold others as well")
        if fused:
            parts.append(_part(memory[number], hub[fused[0]], fused[0], of_hub))
    return parts


def _numbers(owners: numpy.ndarray, one: Stacked) -> list[int]:
    """The groups of the other side that hold elements of this one."""
    return [int(number) for number in numpy.flatnonzero(numpy.bincount(owners[one.arrays[0]].reshape(-1)))]


Owners = tuple[numpy.ndarray, numpy.ndarray]


def _owners(side: list[Stacked], variant: int, elements: int) -> Owners:
    """Of each element, the group and the place in it."""
    owners = numpy.full(elements, -1)
    places = numpy.zeros(elements, dtype=numpy.int64)
    for number, one in enumerate(side):
        codes = one.arrays[variant].reshape(-1)
        in_order = numpy.arange(len(codes))
        is_new = not (owners[codes] >= 0).any()
        owners[codes] = number
        places[codes] = in_order
        if not is_new or (places[codes] != in_order).any():
            raise refuse(one.group, "holds elements that are stored twice")
    return owners, places


def _part(own: Stacked, other: Stacked, number: int, owners: list[Owners]) -> Part:
    found = []
    for variant, array in enumerate(own.arrays):
        if (owners[variant][0][array] != number).any():
            raise refuse(own.group, "comes from other tensors at other sizes")
        found.append(_digits(own.group, owners[variant][1][array], other.arrays[variant].shape))
    axes = []
    for axis, digits in enumerate(found[0][0]):
        at_all = [one[0][axis] for one in found]
        if any([d[1] for d in digits] != [d[1] for d in one] for one in at_all):
            raise refuse(own.group, "has factors that differ from size to size")
        axes.append(
            [
                Digit(tuple(one[k][0] for one in at_all), digits[k][1], tuple(one[k][2] for one in at_all))
                for k in range(len(digits))
            ]
        )
    starts = [tuple(one[1][axis] for one in found) for axis in range(other.arrays[0].ndim)]
    return Part(own.group, other.group, axes, starts)


def _digits(
    group: Group, places: numpy.ndarray, shape: tuple[int, ...]
) -> tuple[list[list[tuple[int, int, int]]], tuple[int, ...]]:
    """For each axis, its digits as (radix, axis of the other side, step there); and the first place."""
    first = int(places.flat[0])
    rebuilt = numpy.full(places.shape, first)
    axes = []
    for axis, length in enumerate(places.shape):
        line = places[tuple(slice(None) if k == axis else 0 for k in range(places.ndim))] - first
        rebuilt += line.reshape([length if k == axis else 1 for k in range(places.ndim)])
        axes.append([piece for digit in _runs(group, line) for piece in _split(group, *digit, shape)])
    if (rebuilt != places).any():
        raise refuse(group, "has an order of elements that is not a product of factors")
    return axes, tuple(int(place) for place in numpy.unravel_index(first, shape))


def _runs(group: Group, line: numpy.ndarray) -> list[tuple[int, int]]:
    """A row of places as digits, each with its radix and its distance, the slowest first."""
    digits: list[tuple[int, int]] = []
    while len(line) > 1:
        step = int(line[1] - line[0])
        off = numpy.flatnonzero(line != line[0] + step * numpy.arange(len(line)))
        radix = int(off[0]) if len(off) else len(line)
        rows = line.reshape(-1, radix) if len(line) % radix == 0 else None
        if step <= 0 or rows is None or (rows != rows[:, :1] + step * numpy.arange(radix)).any():
            raise refuse(group, "has an order of elements that is not a product of factors")
        digits.insert(0, (radix, step))
        line = line[::radix]
    return digits


def _split(group: Group, radix: int, distance: int, shape: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """A digit at the axes of the other side that it runs along, the slowest first."""
    inner = 1
    pieces: list[tuple[int, int, int]] = []
    for axis in reversed(range(len(shape))):
        outer = inner * shape[axis]
        if inner <= distance < outer and radix > 1:
            if distance % inner or (distance * radix > outer and outer % distance):
                raise refuse(group, "has a factor that ends inside of a row")
            here = min(radix, outer // distance)
            if radix % here:
                raise refuse(group, "has a factor that ends inside of a row")
            pieces.insert(0, (here, axis, distance // inner))
            radix //= here
            distance = outer
        inner = outer
    return pieces
