"""The tensors that a load fills: which part of the checkpoint each holds, and which cannot be filled."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ucp import _ucp
from ucp._failure import failure

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)  # There may be tens of thousands.
class Place:
    """A tensor to be filled."""

    label: str
    tensor: str
    state: str
    value: torch.Tensor
    local: torch.Tensor | None = None
    holds: list[list[tuple[int, int]]] | None = None  # Which positions of each dimension; all.

    def described(self) -> _ucp.Held:
        return (self.tensor, self.state, _dtype_name(self.value.dtype), self.value.shape, self.holds)


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

    def check(self) -> None:
        if self._unused:
            raise failure(
                "usage", f"keep names `{min(self._unused)}`, and no tensor that is to be filled has such a name"
            )
        if not self.places:
            raise failure("usage", "there is nothing to fill")
        for place in self.places:
            place.local = _local(place)
        self._drop_second_names()
        for place in self.places:
            _look_at(place)
        self.places = [place for place in self.places if place.local is not None]
        self._refuse_overlaps()

    def _drop_second_names(self) -> None:
        """Shared parameters have several names, and are filled once."""
        first_of: dict[tuple[object, ...], Place] = {}
        distinct = []
        for place in self.places:
            local = place.local
            assert local is not None
            key = (local.device, local.data_ptr(), tuple(local.shape), tuple(place.value.shape), place.state)
            if local.numel() == 0 or key not in first_of:
                distinct.append(place)
                first_of[key] = place
            elif place.state == "weight":
                self.second_names[place.tensor] = first_of[key].label
        self.places = distinct

    def _refuse_overlaps(self) -> None:
        """Else one would be filled over the other."""
        spans = []
        for place in self.places:
            local = place.local
            if local is not None and local.numel() > 0:
                spans.append((str(local.device), local.data_ptr(), local.data_ptr() + local.nbytes, place.label))
        spans.sort()
        for before, after in pairwise(spans):
            if before[0] == after[0] and after[1] < before[2]:
                raise failure("usage", f"`{before[3]}` and `{after[3]}` share a part of their memory")

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
