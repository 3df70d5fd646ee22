"""The tensors that a load fills: which part of the checkpoint each holds, and which cannot be filled."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _ucp
from ucp_checkpoint._arrays import device_name
from ucp_checkpoint._failure import failure

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


@dataclass
class Named:
    """Values that a load fills, by name."""

    tensors: Mapping[str, object]
    identities: Mapping[str, int] = field(default_factory=dict)  # Where they are not the tensors' own.
    wrapped: Mapping[str, str] = field(default_factory=dict)  # Names that wrappers make longer, and how.


@dataclass(slots=True)  # There may be tens of thousands.
class Place:
    """A tensor to be filled."""

    label: str
    tensor: str
    state: str
    value: torch.Tensor
    local: torch.Tensor | None = None
    holds: list[list[tuple[int, int]]] | None = None  # Its positions in each dimension; None for all.
    address: int = 0  # Of the local tensor, and how many bytes it has there; 0 of one without elements.
    size: int = 0
    identity: int = 0  # The same for all names of a tensor, also on ranks that hold no element of it.


@cache
def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class Target:
    """All tensors to be filled, and what is left out."""

    def __init__(self) -> None:
        self._keep: list[str] = []
        self._unused: set[str] = set()
        self.places: list[Place] = []
        self.steps: list[tuple[str, torch.Tensor]] = []
        self.kept: list[str] = []
        self.kept_names: list[str] = []  # Of tensors, as the checkpoint may have them.
        self._kept_tensors: list[tuple[str, torch.Tensor]] = []
        self.trusts_ties = False  # Two tensors of the checkpoint are taken for one where they are one here.
        self.second_names: dict[str, str] = {}  # Of shared parameters, and the labels under which they are filled.
        self._names: dict[str, list[str]] = {}  # All of a parameter that has several, by each of them.
        self.is_distributed = False  # Whether there are tensors of which each rank has a part.

    def keep(self, patterns: list[str]) -> None:
        """Names the tensors that stay as they are, by patterns. Call it before anything is added."""
        self._keep, self._unused = patterns, set(patterns)

    def is_kept(self, label: str) -> bool:
        if not self._keep:
            return False
        fitting = {pattern for pattern in self._keep if fnmatchcase(label, pattern)}
        self._unused -= fitting
        if fitting:
            self.kept.append(label)
        return bool(fitting)

    def add(self, label: str, tensor: str, state: str, value: object, identity: int | None = None) -> None:
        import torch

        if self.is_kept(label):
            if isinstance(value, torch.Tensor):
                self._kept_tensors.append((label, value))
            if state == "weight":
                self.kept_names.append(tensor)
            return
        if not isinstance(value, torch.Tensor):
            raise failure(
                "usage", f"`{label}` is a {type(value).__name__} and no tensor; name it in keep= to leave it as it is"
            )
        self.places.append(Place(label, tensor, state, value, identity=id(value) if identity is None else identity))

    @_collector_paused()
    def add_all(self, named: Named) -> None:
        for name, value in named.tensors.items():
            self.add(name, name, "weight", value, named.identities.get(name))
        for name, wrapped in named.wrapped.items():
            self._names[name] = self._names[wrapped] = [name, wrapped]
        self.kept_names += [named.wrapped[name] for name in self.kept_names if name in named.wrapped]

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
            if place.size > 0 and place.address == 0:
                kind = type(local).__name__
                raise failure("unsupported", f"`{place.label}` is a {kind} without memory of its own numbers")
        self._drop_second_names()
        for place in self.places:
            _look_at(place)
        self.places = [place for place in self.places if place.local is not None]
        self._refuse_overlaps()

    def _drop_second_names(self) -> None:
        """Shared parameters have several names, and are filled once."""
        keys = [place.address or place.identity for place in self.places]
        if len(set(keys)) == len(keys):  # Nothing is shared.
            return
        first_of: dict[tuple[object, ...], Place] = {}
        distinct = []
        for place in self.places:
            key = _sameness(place)
            if key not in first_of:
                distinct.append(place)
                first_of[key] = place
            elif place.state == "weight":
                first = first_of[key]
                names = self._names.setdefault(first.tensor, [first.tensor])
                for name in self._names.get(place.tensor, [place.tensor]):
                    self.second_names[name] = first.label
                    self._names[name] = names
                    names.append(name)
        self.places = distinct

    def _refuse_overlaps(self) -> None:
        """Else one would be filled over the other, or over what is to stay."""
        on_device: dict[torch.device, list[tuple[int, int, str, bool]]] = {}
        for place in self.places:
            if place.size > 0:
                assert place.local is not None
                on_device.setdefault(place.local.device, []).append((place.address, place.size, place.label, False))
        for label, value in self._kept_tensors:
            if (local := _memory_of(value)) is not None:
                on_device.setdefault(local.device, []).append((local.data_ptr(), local.nbytes, label, True))
        for extents in on_device.values():
            _refuse_overlap(sorted(extents))

    @_collector_paused()
    def described(self) -> list[_ucp.Held]:
        return [
            (
                place.tensor,
                place.state,
                dtype_name(place.value.dtype),
                place.value.shape,
                place.holds,
                self._names.get(place.tensor, []),
            )
            for place in self.places
        ]

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
        for second in sorted(self.second_names.keys() & set(not_loaded)) if not self.trusts_ties else ():
            raise failure(
                "usage",
                f"`{self.second_names[second]}` and `{second}` are one tensor here, and two in the checkpoint; if they "
                "were one in the job that saved it, as torch.distributed.checkpoint stores them, pass trust_ties=True",
            )


    def refuse_left(self, not_loaded: Mapping[str, list[str]]) -> None:
        """Tensors of the checkpoint that nobody has a place for."""
        for name in sorted(not_loaded.keys() - self.second_names.keys() - set(self.kept_names)):
            if "weight" in not_loaded[name] or "fp32" in not_loaded[name]:
                said = f"the checkpoint holds tensor `{name}`, and no rank has a place for it; pass strict=False"
                raise failure("usage", said)


def _sameness(place: Place) -> tuple[object, ...]:
    """A key that is equal for two names of one tensor. Another view of the tensor is not a second name."""
    local = place.local
    assert local is not None
    if place.size == 0:  # A tensor without any elements is nobody's second name.
        return (place.identity, place.state, place.label if place.value.numel() == 0 else "")
    return (local.device, place.address, local.shape, local.stride(), local.dtype, place.value.shape, place.state)


def _refuse_overlap(extents: list[tuple[int, int, str, bool]]) -> None:
    """Of (address, size, label, whether it is kept), in their order."""
    reach = {False: (0, ""), True: (0, "")}  # Of those so far, kept and not, the last end.
    for address, size, label, is_kept in extents:
        for other_kept, (end, other) in reach.items():
            if address >= end or (is_kept and other_kept):
                continue
            if is_kept == other_kept:
                raise failure("usage", f"`{other}` and `{label}` share a part of their memory")
            kept, filled = (label, other) if is_kept else (other, label)
            raise failure("usage", f"keep names `{kept}`, which shares memory with `{filled}`, which is to be filled")
        reach[is_kept] = max(reach[is_kept], (address + size, label))


def _memory_of(value: torch.Tensor) -> torch.Tensor | None:
    """The memory that this rank has of a tensor that stays as it is, if it has any."""
    given: Any = value
    local: torch.Tensor = given.detach().to_local() if is_distributed(given) else given
    return local if has_memory(local) else None


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether the tensor has elements in plain dense memory of this process."""
    import torch
    from torch.nn.parameter import is_lazy

    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not is_lazy(tensor)
    return plain and not tensor.is_nested and tensor.layout is torch.strided and tensor.numel() > 0


def is_distributed(value: object) -> bool:
    """Whether `value` is a DTensor. Their module takes seconds to import, so it is looked up and not imported."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def _local(place: Place) -> torch.Tensor:
    """The local tensor of this rank. Tensors without memory of their own numbers are refused, since the other checks
    need it."""
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
    """Enters the part of a distributed tensor that this rank holds; a rank outside of its mesh has no memory of it."""
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
    from ucp_checkpoint._placements import are_increasing, positions_of

    if value.device_mesh.get_coordinate() is None:
        place.local = None  # Other ranks hold it.
        return
    place.holds = positions_of(place.label, value, tuple(local.shape))
    if not all(are_increasing(runs) for runs in place.holds):
        raise failure("unsupported", f"the parts of `{place.label}`, {value.placements}, are not in order")
