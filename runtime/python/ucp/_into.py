"""`ucp.load_into`: a checkpoint into tensors that a job already has, whichever way they are distributed.

Nothing is read, and nothing overwritten, before all ranks have agreed that everything fits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
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
        self.second_names: dict[str, str] = {}  # Of shared parameters, and the labels under which they are filled.
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
        for place in self.places:
            _refuse_odd(place)
        self._drop_second_names()
        for place in self.places:
            _look_at(place)
        self.places = [place for place in self.places if place.local is not None]
        self._refuse_overlaps()

    def _drop_second_names(self) -> None:
        """Shared parameters have several names, and are filled once."""
        first_of: dict[tuple[object, ...], _Place] = {}
        distinct = []
        for place in self.places:
            local = _local(place.value)
            key = (local.device, local.data_ptr(), tuple(local.shape), tuple(place.value.shape), place.state)
            if local.numel() == 0 or local.device.type == "meta" or key not in first_of:
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


def _is_distributed(value: object) -> bool:
    """There is no DTensor where nobody has imported their module, which takes seconds."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def _local(value: torch.Tensor) -> torch.Tensor:
    return value.detach().to_local() if _is_distributed(value) else value.detach()


def _refuse_odd(place: _Place) -> None:
    """Tensors without memory of their own numbers, which other questions cannot be asked of."""
    import torch
    from torch.nn.parameter import is_lazy

    value = place.value
    if is_lazy(value):
        raise failure("usage", f"`{place.label}` has no shape before the module's first forward()")
    if value.is_nested or value.layout is not torch.strided:
        layout = "a nested one" if value.is_nested else value.layout
        raise failure("unsupported", f"`{place.label}` has the layout {layout}; only dense tensors are filled")
    local = _local(value)
    if local.device.type == "meta":
        raise failure("usage", f"`{place.label}` is on the meta device and has no memory; give it some with to_empty()")
    if local.is_neg() or local.is_conj():
        raise failure("unsupported", f"`{place.label}` is a view that negates or conjugates what its memory holds")


def _look_at(place: _Place) -> None:
    value = place.value
    local = _local(value)
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


def _named(target: object) -> Mapping[str, object]:
    import torch

    if isinstance(target, torch.nn.Module):
        return _own_tensors(target)
    if isinstance(target, Mapping):
        return target
    raise failure("usage", f"the target is a module or a mapping from names to tensors, not a {type(target).__name__}")


def _own_tensors(module: torch.nn.Module) -> Mapping[str, object]:
    """Its state_dict(); a hook may have put copies there, which nobody would look at."""
    import torch

    states = module.state_dict()
    own = {tensor.data_ptr() for tensor in (*module.parameters(), *module.buffers()) if _has_memory(tensor)}
    for name, value in states.items():
        if isinstance(value, torch.Tensor) and _has_memory(value) and value.data_ptr() not in own:
            raise failure(
                "unsupported",
                f"`{name}` of the module's state_dict() is none of its parameters and buffers but a copy, which would "
                "be filled in vain; give the tensors themselves, as a mapping",
            )
    return states


def _has_memory(tensor: torch.Tensor) -> bool:
    """That it is asked for, and of the process's own."""
    import torch
    from torch.nn.parameter import is_lazy

    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not is_lazy(tensor)
    return plain and not tensor.is_nested and tensor.layout is torch.strided and tensor.numel() > 0


@dataclass
class _Optimizer:
    """The states of an optimizer by the names of torch.distributed.checkpoint.state_dict."""

    optimizer: torch.optim.Optimizer
    was_fresh: bool  # It had made no step, and its states were made for the load.
    without_state: set[str] = field(default_factory=set)  # Trained parameters, where others have states.

    def forget(self) -> None:
        """After an error: as it was."""
        if self.was_fresh:
            self.optimizer.state.clear()

    def refuse_unfilled(self, not_loaded: Mapping[str, list[str]]) -> None:
        for name in sorted(self.without_state & not_loaded.keys()):
            if states := [state for state in not_loaded[name] if state not in ("weight", "fp32")]:
                raise failure(
                    "usage",
                    f"the optimizer has made steps, but has no states for `{name}`, and the checkpoint has "
                    f"{', '.join(states)}; load into an optimizer that has made no step",
                )


def _add_optimizer(places: _Target, model: object, optimizer: torch.optim.Optimizer) -> _Optimizer:
    """The states are made if there are none before the first step."""
    import torch
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    if not isinstance(model, torch.nn.Module):
        raise failure("usage", "with an optimizer the target is its module, which gives its states their names")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise failure("usage", f"optimizer= is a {type(optimizer).__name__} and no torch.optim.Optimizer")
    made = _Optimizer(optimizer, was_fresh=not optimizer.state)
    # PyTorch makes no states while there are gradients.
    gradients = [(parameter, parameter.grad) for group in optimizer.param_groups for parameter in group["params"]]
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        named = get_optimizer_state_dict(model, optimizer)
    except Exception as error:
        made.forget()
        raise failure(
            "unsupported",
            f"PyTorch does not give the states of this optimizer names ({type(error).__name__}: {error}); is it the "
            "module's own?",
        ) from error
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
    try:
        for name, states in named["state"].items():
            for state, value in states.items():
                label = f"{name}/{state}"
                if state != "step":
                    places.add(label, name, state, value)
                    continue
                if not isinstance(value, torch.Tensor):
                    raise failure("unsupported", f"`{label}` is a {type(value).__name__}; only tensors are filled")
                if made.was_fresh:
                    value.zero_()
                if not places.is_kept(label):
                    places.steps.append((label, value))
    except BaseException:
        made.forget()
        raise
    if named["state"]:
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        of_groups = {name for group in named["param_groups"] for name in group["params"]}
        made.without_state = (trained & of_groups) - {name for name, states in named["state"].items() if states}
    return made


def _tell_autograd(places: list[_Place]) -> None:
    """A graph that needs the old values must not be gone through with the new ones."""
    import torch

    for place in places:
        if place.local is not None and not place.local.is_inference():
            torch.autograd.graph.increment_version(place.local)


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
    places = _Target([keep] if isinstance(keep, str) else list(keep))
    made: _Optimizer | None = None
    problem = None
    try:
        source = source_from(
            path, spec=spec, sets=sets, config=config, unused=unused, drop_states=drop_states, prefer_rank=prefer_rank
        )
        memory_bytes, thread_number = byte_count(memory), thread_count(threads)
        for name, value in _named(target).items():
            places.add(name, name, "weight", value)
        if optimizer is not None:
            made = _add_optimizer(places, target, optimizer)
        places.check()
    except _ucp.Error as error:
        problem = error
    try:
        ranks = _group_of(places, group)
        agree(ranks, problem)
        return _fill(places, made, source, strict, verify, thread_number, memory_bytes, ranks)
    except BaseException:
        if made is not None:
            made.forget()
        raise


def _fill(
    places: _Target,
    made: _Optimizer | None,
    source: _ucp.Source,
    strict: bool,
    verify: bool,
    thread_number: int,
    memory_bytes: int,
    ranks: Group | None,
) -> Filled:
    problem = None
    in_group = ranks.ranks if ranks is not None else None
    held = [place.described() for place in places.places]
    with ranks or nullcontext():
        plan = _ucp.compile_held(source, held, strict, verify, in_group)
        wanted, staged = [], []
        try:
            places.refuse_untied(plan.not_loaded)
            if made is not None:
                made.refuse_unfilled(plan.not_loaded)
            if places.steps and plan.step is None:
                label = places.steps[0][0]
                raise failure(
                    "usage", f"the checkpoint has no one step counter to fill `{label}` with; keep= leaves it as it is"
                )
            for place, record in zip(places.places, plan.records, strict=True):
                if record is None:
                    continue
                buffer = place.local
                if buffer.device.type != "cpu":
                    buffer = buffer.new_empty(buffer.shape, device="cpu")
                    staged.append((place.local, buffer))
                wanted.append((record, buffer.data_ptr(), buffer.nbytes))
        except _ucp.Error as error:
            problem = error
        except (MemoryError, RuntimeError) as error:
            problem = failure("io", f"there is no memory on the host for what is loaded: {error}")
        agree(ranks, problem)
        report = _ucp.load(plan.load, wanted, thread_number, memory_bytes, verify, in_group)
        for local, buffer in staged:
            local.copy_(buffer)
        _tell_autograd(places.places)
    for _, step in places.steps:
        step.fill_(plan.step)

    filled = Filled([place.label for place in places.places] + [label for label, _ in places.steps], places.kept)
    filled.not_loaded = plan.not_loaded
    filled.remarks = list(plan.load.remarks)
    filled.report = report
    if made is not None:
        filled.remarks.append("the hyper-parameters of the optimizer's groups are those it had")
    return filled
