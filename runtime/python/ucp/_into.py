"""`ucp.load_into`: a checkpoint into tensors that a job already has, whichever way they are distributed.

Nothing is read, and nothing overwritten, before all ranks have agreed that everything fits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from ucp import _ucp
from ucp._failure import agree, failure
from ucp._source import Path, Settings, source_from
from ucp._work import byte_count, thread_count

if TYPE_CHECKING:
    import torch

    from ucp._ranks import Group


@dataclass
class Filled:
    """What came of a load into existing tensors."""

    tensors: list[str] = field(default_factory=list)  # Filled, by name; an optimizer's as "NAME/STATE".
    kept: list[str] = field(default_factory=list)  # Named to keep their value.
    not_loaded: dict[str, list[str]] = field(default_factory=dict)  # States of the checkpoint that nobody has.
    remarks: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Place:
    """A tensor to be filled."""

    label: str
    tensor: str
    state: str
    value: torch.Tensor
    local: torch.Tensor | None = None
    holds: list[list[tuple[int, int]]] = field(default_factory=list)

    def described(self) -> _ucp.Held:
        dtype = str(self.value.dtype).removeprefix("torch.")
        return (self.tensor, self.state, dtype, list(self.value.shape), self.holds)


class _Target:
    """All tensors to be filled, and what is left out."""

    def __init__(self, keep: list[str]) -> None:
        self._keep = keep
        self._unused = set(keep)
        self.places: list[_Place] = []
        self.steps: list[tuple[str, torch.Tensor]] = []
        self.kept: list[str] = []
        self.is_distributed = False

    def is_kept(self, label: str) -> bool:
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
        self.is_distributed = self.is_distributed or _is_distributed(value)
        self.places.append(_Place(label, tensor, state, value))

    def check(self) -> None:
        if self._unused:
            raise failure(
                "usage", f"keep names `{min(self._unused)}`, and no tensor that is to be filled has such a name"
            )
        if not self.places:
            raise failure("usage", "there is nothing to fill")
        self._drop_second_names()
        for place in self.places:
            _look_at(place)
        self.places = [place for place in self.places if place.local is not None]

    def _drop_second_names(self) -> None:
        """Shared parameters have several names, and are filled once."""
        seen: set[tuple[object, ...]] = set()
        distinct = []
        for place in self.places:
            local = _local(place.value)
            key = (local.device, local.data_ptr(), tuple(local.shape), tuple(place.value.shape), place.state)
            if local.numel() == 0 or local.device.type == "meta" or key not in seen:
                distinct.append(place)
            seen.add(key)
        self.places = distinct


def _is_distributed(value: object) -> bool:
    """There is no DTensor where nobody has imported their module, which takes seconds."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def _local(value: torch.Tensor) -> torch.Tensor:
    return value.detach().to_local() if _is_distributed(value) else value.detach()


def _look_at(place: _Place) -> None:
    value = place.value
    local = _local(value)
    if local.device.type == "meta":
        raise failure("usage", f"`{place.label}` is on the meta device and has no memory; give it some with to_empty()")
    if local.layout is not _strided_layout():
        raise failure("unsupported", f"`{place.label}` has the layout {local.layout}; only dense tensors are filled")
    if not local.is_contiguous():
        raise failure(
            "usage",
            f"`{place.label}` of shape {list(local.shape)} has the strides {list(local.stride())}; only contiguous "
            "tensors are filled",
        )
    if _is_distributed(value):
        from ucp._placements import are_increasing, positions_of

        if value.device_mesh.get_coordinate() is None:
            return  # Other ranks hold it.
        place.holds = positions_of(place.label, value)
        if not all(are_increasing(runs) for runs in place.holds):
            raise failure("unsupported", f"the parts of `{place.label}`, {value.placements}, are not in order")
    else:
        place.holds = [[(0, length)] if length > 0 else [] for length in value.shape]
    place.local = local


def _strided_layout() -> object:
    import torch

    return torch.strided


def _named(target: object) -> Mapping[str, object]:
    import torch

    if isinstance(target, torch.nn.Module):
        return target.state_dict()
    if isinstance(target, Mapping):
        return target
    raise failure("usage", f"the target is a module or a mapping from names to tensors, not a {type(target).__name__}")


def _add_optimizer(places: _Target, model: object, optimizer: torch.optim.Optimizer) -> None:
    """States by the names of torch.distributed.checkpoint.state_dict, made if there are none before the first step."""
    import torch
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    if not isinstance(model, torch.nn.Module):
        raise failure("usage", "with an optimizer the target is its module, which gives its states their names")
    for name, states in get_optimizer_state_dict(model, optimizer)["state"].items():
        for state, value in states.items():
            label = f"{name}/{state}"
            if state == "step":
                if not places.is_kept(label):
                    places.steps.append((label, value))
            else:
                places.add(label, name, state, value)


def _group_of(places: _Target, group: object) -> Group | None:
    if group is None and places.is_distributed:
        import torch.distributed as dist

        group = dist.group.WORLD
    if group is None:
        return None
    from ucp._ranks import Group

    return Group(group)


def load_into(
    target: object,
    path: Path,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    keep: str | Iterable[str] = (),
    strict: bool = True,
    group: object = None,
    spec: Path | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
    verify: bool = False,
    threads: int | None = None,
    memory: int | str = "1GiB",
) -> Filled:
    """Fills tensors of a running job from a checkpoint of any format and topology.

    `target` is a module, or names with their tensors: plain ones, or DTensors (FSDP2, tensor parallelism), whose
    placements say which part each rank holds. Then all ranks of `group` call this, by default all ranks of the job.
    With `optimizer`, its states are filled, too. Names are those of the checkpoint. Each tensor is filled or refused;
    `keep` names those that stay as they are ("NAME", or "NAME/STATE" of the optimizer, or patterns). With `strict`, the
    checkpoint may not hold tensors that nobody has a place for.

    Nothing is read before all ranks know that everything fits. After an error later than that, the tensors hold
    anything.
    """
    source = source_from(
        path, spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states, prefer_rank=prefer_rank
    )
    memory_bytes, thread_number = byte_count(memory), thread_count(threads)
    places = _Target([keep] if isinstance(keep, str) else list(keep))
    problem = None
    try:
        for name, value in _named(target).items():
            places.add(name, name, "weight", value)
        if optimizer is not None:
            _add_optimizer(places, target, optimizer)
        places.check()
    except _ucp.Error as error:
        problem = error
    ranks = _group_of(places, group)
    agree(ranks, problem)

    in_group = ranks.ranks if ranks is not None else None
    held = [place.described() for place in places.places]
    with ranks or nullcontext():
        plan = _ucp.compile_held(source, held, strict, verify, in_group)
        if places.steps and plan.step is None:
            label = places.steps[0][0]
            raise failure(
                "usage", f"the checkpoint has no one step counter to fill `{label}` with; keep= leaves it as it is"
            )
        wanted, staged = [], []
        for place, record in zip(places.places, plan.records, strict=True):
            if record is None:
                continue
            buffer = place.local
            if buffer.device.type != "cpu":
                buffer = buffer.new_empty(buffer.shape, device="cpu")
                staged.append((place.local, buffer))
            wanted.append((record, buffer.data_ptr(), buffer.nbytes))
        report = _ucp.load(plan.load, wanted, thread_number, memory_bytes, verify, in_group)
        for local, buffer in staged:
            local.copy_(buffer)
    for _, step in places.steps:
        step.fill_(plan.step)

    filled = Filled([place.label for place in places.places] + [label for label, _ in places.steps], places.kept)
    filled.not_loaded = plan.not_loaded
    filled.remarks = list(plan.load.remarks)
    filled.report = report
    if optimizer is not None:
        filled.remarks.append("the hyper-parameters of the optimizer's groups are those it had")
    return filled
