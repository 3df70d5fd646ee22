"""`ucp.load_into`: a checkpoint into tensors that a job already has, whichever way they are distributed.

Nothing is read, and nothing overwritten, before all ranks have agreed that everything fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._agree import agree
from ucp_checkpoint._arrays import need_torch, settle
from ucp_checkpoint._failure import failure
from ucp_checkpoint._module import named_tensors
from ucp_checkpoint._optimizer import OptimizerStates, add_optimizer
from ucp_checkpoint._source import Path, Settings, source_from
from ucp_checkpoint._target import Place, Target, is_distributed
from ucp_checkpoint._work import Work, byte_count, thread_count

if TYPE_CHECKING:
    import torch

    from ucp_checkpoint._ranks import Group


@dataclass
class Filled:
    """The report of a load into existing tensors."""

    tensors: list[str] = field(default_factory=list)  # Filled, by name; an optimizer's as "NAME/STATE".
    kept: list[str] = field(default_factory=list)  # Named to keep their value.
    not_loaded: dict[str, list[str]] = field(default_factory=dict)  # States of the checkpoint that nobody has.
    remarks: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


def _tell_autograd(places: list[Place]) -> None:
    """A graph that needs the old values must not be gone through with the new ones."""
    import torch

    for place in places:
        if place.local is not None and not place.local.is_inference():
            torch.autograd.graph.increment_version(place.local)


def _group_of(places: Target, group: object) -> Group | None:
    if group is None and places.is_distributed:
        import torch.distributed as dist

        group = dist.group.WORLD
    if group is None:
        return None
    from ucp_checkpoint._ranks import Group

    return Group(group, "ucp.load_into")


def load_into(
    target: object,
    path: Path,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    keep: str | Iterable[str] = (),
    strict: bool = True,
    trust_ties: bool = False,
    group: object = None,
    spec: Path | None = None,
    layout: str | None = None,
    sets: Settings = (),
    config: Path | None = None,
    unused: Mapping[str, str | int] | None = None,
    drop_states: Iterable[str] = (),
    prefer_rank: str = "",
    verify: bool = False,
    threads: int | None = None,
    memory: int | str = "1GiB",
    device_memory: int | str = "512MiB",
    _own_folder: Path | None = None,
) -> Filled:
    """Fills tensors of a running job from a checkpoint of any format and topology.

    `target` is a module, or names with their tensors: plain ones, or DTensors (FSDP2, tensor parallelism), whose
    placements say which part each rank holds. Then all ranks of `group` call this, by default all ranks of the job.
    With `optimizer`, its states are also filled. Names are those of the checkpoint. Each tensor is filled or refused;
    `keep` names those that stay as they are ("NAME", or "NAME/STATE" of the optimizer, or patterns). With `strict`, the
    checkpoint may not hold tensors that nobody has a place for. With `trust_ties`, a parameter that is shared here, and
    has two tensors in the checkpoint, is filled with the one of its first name. With `layout`, the target's names and
    shapes are those of this layout of the spec's model, and the checkpoint's those of another.

    Nothing is read before all ranks know that everything fits. After an error later than that, the tensors hold
    anything.
    """
    need_torch("load_into() fills tensors of PyTorch")
    made: OptimizerStates | None = None
    problem: Exception | None = None
    places = Target()
    try:
        try:
            named = named_tensors(target)
            places.is_distributed = any(is_distributed(value) for value in named.tensors.values())
            source = source_from(
                path,
                spec=spec,
                sets=sets,
                config=config,
                unused=unused,
                drop_states=drop_states,
                prefer_rank=prefer_rank,
            )
            work = Work(thread_count(threads), byte_count(memory), byte_count(device_memory, "device_memory"))
            of_job = _arguments.text("layout", layout, "the name of a layout") if layout is not None else ""
            strict, verify = _arguments.flag("strict", strict), _arguments.flag("verify", verify)
            places.trusts_ties = _arguments.flag("trust_ties", trust_ties)
            places.keep(_arguments.texts("keep", keep, "a name or several"))
            places.add_all(named)
            if optimizer is not None:
                made = add_optimizer(places, target, optimizer)
            places.check()
        except Exception as error:
            problem = error
        ranks = _group_of(places, group)
        agree(ranks, problem)
        own_folder = b"" if _own_folder is None else _arguments.path("path", _own_folder)
        return _fill(places, made, source, strict, verify, work, ranks, own_folder, of_job)
    except BaseException:
        if made is not None:
            made.forget()
        raise


def _fill(
    places: Target,
    made: OptimizerStates | None,
    source: _ucp.Source,
    strict: bool,
    verify: bool,
    work: Work,
    ranks: Group | None,
    own_folder: bytes,
    layout: str,
) -> Filled:
    problem = None
    in_group = ranks.ranks if ranks is not None else None
    held = places.described()
    with ranks or nullcontext():
        is_checked = strict and not places.trusts_ties  # Else refuse_left() looks, which knows of second names.
        how = (is_checked, places.kept_names, verify, in_group, work.threads)
        plan = _ucp.compile_held(source, held, *how, folder=own_folder, layout=layout)
        try:
            places.refuse_untied(plan.not_loaded)
            if strict:
                places.refuse_left(plan.not_loaded)
            if made is not None:
                made.refuse_unfilled(plan.not_loaded)
            if places.steps and plan.step is None:
                label = places.steps[0][0]
                raise failure(
                    "usage", f"the checkpoint has no one step counter to fill `{label}` with; keep= leaves it as it is"
                )
            wanted, devices = places.memory_of(plan.records)
            settle(devices.values())
        except _ucp.Error as error:
            problem = error
        agree(ranks, problem)
        try:
            report = work.load(plan.load, wanted, verify, in_group, devices)
        finally:  # Also after an error, since the tensors may have changed.
            _tell_autograd(places.places)
    if plan.step is not None:
        for _, step in places.steps:
            step.fill_(plan.step)

    filled = Filled([place.label for place in places.places] + [label for label, _ in places.steps], places.kept)
    filled.not_loaded = plan.not_loaded
    filled.remarks = list(plan.load.remarks)
    filled.report = report
    if made is not None:
        filled.remarks.append("the hyper-parameters of the optimizer's groups are those it had")
    return filled
