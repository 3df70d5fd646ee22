"""The tensors that a load fills: which part of the checkpoint each holds, and which cannot be filled."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ucp import _ucp
from ucp._arrays import device_name
from ucp._failure import failure

if TYPE_CHECKING:
    import torch


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Tens of thousands of small objects, none of them in a cycle, would make the garbage collector look through all
    that the process has."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(slots=True)  # There may be tens of thousands.
class Place:
    """A tensor to be filled."""

    label: str
    tensor: str
    state: str
    value: torch.Tensor
    local: torch.Tensor | None = None
    holds: list[list[tuple[int, int]]] | None = None  # Which positions of each dimension; all.
    address: int = 0  # Of the local tensor, and how many bytes it has there; 0 of one without elements.
    size: int = 0


_extent_of = attrgetter("address", "size", "label")


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Target:
    """All tensors to be filled, and what is left out."""

    def __init__(self) -> None:
        self._keep: list[str] = []
        self._unused: set[str] = set()
        self.places: list[Place] = []
        self.steps: list[tuple[str, torch.Tensor]] = []
        self.kept: list[str] = []
        self.second_names: dict[str, str] = {}  # Of shared parameters, and the labels under which they are filled.
        self._names: dict[str, list[str]] = {}  # All of a shared parameter, by each of them.
        self.is_distributed = False  # Whether there are tensors of which each rank has a part.

    def keep(self, patterns: list[str]) -> None:
        """What stays as it is. Said before anything is added."""
        self._keep, self._unused = patterns, set(patterns)

    def is_kept(self, label: str) -> bool:
        if not self._keep:
            return False
        fitting = {pattern for pattern in self._keep if fnmatchcase(label, pattern)}
        self._unused -= fitting
        if fitting:
            self.kept.append(label)
        return bool(fitting)

    def add(self, label: str, tensor: str, state: str, value: object) -> None:
        import torch

        if self.is_kept(label):
            return
        if not isinstance(value, torch.Tensor):
            raise failure(
                "usage", f"`{label}` is a {type(value).__name__} and no tensor; name it in keep= to leave it as it is"
            )
        self.places.append(Place(label, tensor, state, value))

    @_collector_paused()
    def add_all(self, weights: Mapping[str, object]) -> None:
        for name, value in weights.items():
            self.add(name, name, "weight", value)

    @_collector_paused()
    def check(self) -> None:
        if self._unused:
            raise failure(
                "usage", f"keep names `{min(self._unused)}`, and no tensor that is to be filled has such a name"
            )
        if not self.places:
            raise failure("usage", "there is nothing to fill")
        for place in self.places:
            local = place.local = _local(place)
            place.size = local.nbytes
            place.address = local.data_ptr() if place.size > 0 else 0
        self._drop_second_names()
        for place in self.places:
            _look_at(place)
        self.places = [place for place in self.places if place.local is not None]
        self._refuse_overlaps()

    def _drop_second_names(self) -> None:
        """Shared parameters have several names, and are filled once."""
        addresses = [place.address for place in self.places if place.size > 0]
        if len(set(addresses)) == len(addresses):  # Nothing is shared.
            return
        first_of: dict[tuple[object, ...], Place] = {}
        distinct = []
        for place in self.places:
            local = place.local
            assert local is not None
            looks = (local.shape, local.stride(), local.dtype)  # Other views of it are no second name.
            key = (local.device, place.address, looks, place.value.shape, place.state)
            if place.size == 0 or key not in first_of:
                distinct.append(place)
                first_of[key] = place
            elif place.state == "weight":
                first = first_of[key]
                self.second_names[place.tensor] = first.label
                names = self._names.setdefault(first.tensor, [first.tensor])
                names.append(place.tensor)
                self._names[place.tensor] = names
        self.places = distinct

    def _refuse_overlaps(self) -> None:
        """Else one would be filled over the other."""
        on_device: dict[torch.device, list[Place]] = {}
        for place in self.places:
            if place.size > 0:
                assert place.local is not None
                on_device.setdefault(place.local.device, []).append(place)
        for places in on_device.values():
            places.sort(key=_extent_of)
            for before, after in pairwise(places):
                if after.address < before.address + before.size:
                    raise failure("usage", f"`{before.label}` and `{after.label}` share a part of their memory")

    @_collector_paused()
    def described(self) -> list[_ucp.Held]:
        return [
            (
                place.tensor,
                place.state,
                _dtype_name(place.value.dtype),
                place.value.shape,
                place.holds,
                self._names.get(place.tensor, []),
            )
            for place in self.places
        ]

    @property
    def is_on_host(self) -> bool:
        """Whether all of them are."""
        return all(place.local is None or place.local.device.type == "cpu" for place in self.places)

    @_collector_paused()
    def memory_of(self, records: list[int | None]) -> tuple[list[tuple[int, int, int]], dict[int, str]]:
        """Of these records, one for each place: their addresses and sizes, and on which devices they are."""
        memory, devices = [], {}
        for place, record in zip(self.places, records, strict=True):
            if record is None:
                continue
            assert place.local is not None  # Else it holds no elements, and has no record.
            if (device := device_name(place.local.device)) is not None:
                devices[record] = device
            memory.append((record, place.address, place.size))
        return memory, devices

    def refuse_untied(self, not_loaded: Iterable[str]) -> None:
        """Two tensors of the checkpoint do not fit into one memory."""
        for second in sorted(self.second_names.keys() & set(not_loaded)):
            raise failure(
                "usage", f"`{self.second_names[second]}` and `{second}` are one tensor here, and two in the checkpoint"
            )


def is_distributed(value: object) -> bool:
    """There is no DTensor where nobody has imported their module, which takes seconds."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def _local(place: Place) -> torch.Tensor:
    """What this rank has of it; refuses tensors without memory of their own numbers, which other questions cannot be
    asked of."""
    import torch
    from torch.nn.parameter import is_lazy

    value: Any = place.value  # Perhaps a DTensor, whose module may not be there.
    if is_lazy(value):
        raise failure("usage", f"`{place.label}` has no shape before the module's first forward()")
    if value.is_nested or value.layout is not torch.strided:
        layout = "a nested one" if value.is_nested else value.layout
        raise failure("unsupported", f"`{place.label}` has the layout {layout}; only dense tensors are filled")
    local: torch.Tensor = value.detach().to_local() if is_distributed(value) else value.detach()
    if local.device.type == "meta":
        raise failure("usage", f"`{place.label}` is on the meta device and has no memory; give it some with to_empty()")
    if local.is_neg() or local.is_conj():
        raise failure("unsupported", f"`{place.label}` is a view that negates or conjugates what its memory holds")
    return local


def _look_at(place: Place) -> None:
    """Which part of the tensor that is; nothing is left of it on a rank that holds none."""
    value: Any = place.value
    local = place.local
    assert local is not None
    if not local.is_contiguous():
        raise failure(
            "usage",
            f"`{place.label}` of shape {list(local.shape)} has the strides {list(local.stride())}; only contiguous "
            "tensors are filled",
        )
    if not is_distributed(value):
        return
    from ucp._placements import are_increasing, positions_of

    if value.device_mesh.get_coordinate() is None:
        place.local = None  # Other ranks hold it.
        return
    place.holds = positions_of(place.label, value, tuple(local.shape))
    if not all(are_increasing(runs) for runs in place.holds):
        raise failure("unsupported", f"the parts of `{place.label}`, {value.placements}, are not in order")
