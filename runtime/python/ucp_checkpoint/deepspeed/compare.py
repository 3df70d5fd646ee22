"""Whether what would be loaded has the form of what the engine holds: DeepSpeed's loaders compare no names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .archive import State
from .errors import LoadError
from .ranks import shortened

Pair = tuple[str, torch.Tensor, torch.Tensor]  # Where, what is served, what the engine holds.


def flat(state: Any, place: str = "") -> State:
    """Megatron's dicts inside dicts under joined names; no tensor has a name of its own otherwise."""
    found: State = {}
    for key, value in (state or {}).items():
        name = f"{place}.{key}" if place else str(key)
        found |= flat(value, name) if isinstance(value, dict) else {name: value}
    return found


def pairs(served: Any, held: Any, place: str) -> Iterator[Pair]:
    """Every tensor that both have at the same place. Lists of tensors are equally long."""
    if isinstance(served, torch.Tensor) and isinstance(held, torch.Tensor):
        yield place, served, held
    elif isinstance(served, dict) and isinstance(held, dict):
        for key in served.keys() & held.keys():
            yield from pairs(served[key], held[key], f"{place}.{key}" if place else str(key))
    elif isinstance(served, list) and isinstance(held, list):
        if len(served) != len(held) and any(isinstance(value, torch.Tensor) for value in served + held):
            raise LoadError(f"{place} has {len(served)} vectors in the checkpoint and {len(held)} in the engine")
        for index, (mine, other) in enumerate(zip(served, held, strict=False)):
            yield from pairs(mine, other, f"{place}[{index}]")


def check_shapes(served: Any, held: Any, place: str) -> None:
    """All tensors that both have are of the same shape."""
    for where, mine, other in pairs(served, held, place):
        if mine.shape != other.shape:
            raise LoadError(f"{where} is {list(mine.shape)} in the checkpoint and {list(other.shape)} in the engine")


def check_names(served: State, held: State, place: str) -> None:
    """The same names on both sides; which order they have does not matter."""
    if missing := sorted(held.keys() - served.keys()):
        raise LoadError(f"the checkpoint has no {shortened(missing)} in {place}, which the engine has")
    if further := sorted(served.keys() - held.keys()):
        raise LoadError(f"the checkpoint has {shortened(further)} in {place}, which the engine has not")


def check_groups(served: list[State], held: list[State]) -> None:
    """The optimizer's groups list the same parameters in the same order: they are one long vector each."""
    if len(served) != len(held):
        raise LoadError(f"the optimizer has {len(served)} groups in the checkpoint and {len(held)} in the engine")
    for index, (mine, other) in enumerate(zip(served, held, strict=True)):
        ours, theirs = list(mine.items()), list(other.items())
        for at in range(max(len(ours), len(theirs))):
            one, two = (entry[at] if at < len(entry) else None for entry in (ours, theirs))
            if one is None or two is None or one[0] != two[0] or tuple(one[1]) != tuple(two[1]):
                where = f"parameter {at} of the optimizer's group {index}"
                raise LoadError(f"{where} is {described(one)} in the checkpoint and {described(two)} in the engine")


def described(entry: tuple[str, Any] | None) -> str:
    """A parameter with its shape."""
    return "none" if entry is None else f"`{entry[0]}` {list(entry[1])}"


def check_placements(served: list[State], held: list[State]) -> None:
    """AutoEP's layers are the same in the same order, and every rank has the same experts of each. DeepSpeed looks at
    none of it below stage 3."""
    if len(served) != len(held):
        raise LoadError(f"AutoEP has {len(served)} layers in the checkpoint and {len(held)} in the engine")
    for mine, other in zip(served, held, strict=True):
        for key, value in other.items():
            if mine[key] != value:
                raise LoadError(f"`{key}` of AutoEP's layer `{other['module_path']}` is {mine[key]} in the checkpoint "
                                f"and {value} in the engine")  # fmt: skip


def check_model(served: State, held: State, name: str, strict: bool, is_partitioned: bool) -> None:
    """The file of the module. Where parameters are cut over the partitions, it has empty ones."""
    module, own = flat(served.get("module")), flat(held.get("module"))
    if held.get("module") is not None:
        if strict:
            check_names(module, own, f"`{name}`")
        if not is_partitioned:
            check_shapes(module, own, "")
    if served.get("param_shapes") is not None and held.get("param_shapes") is not None:
        check_groups(served["param_shapes"], held["param_shapes"])
    if served.get("ds_autoep_layers") is not None and held.get("ds_autoep_layers") is not None:
        check_placements(served["ds_autoep_layers"], held["ds_autoep_layers"])
    frozen = (held.get("frozen_param_shapes") or {}).keys()
    if served.get("frozen_param_shapes") is not None and (missing := frozen - served["frozen_param_shapes"].keys()):
        raise LoadError(f"{shortened(sorted(missing))} is frozen in the engine, and not in the checkpoint")
    check_shapes(served.get("frozen_param_fragments"), held.get("frozen_param_fragments"), "")


def keep_frozen(served: State, held: State) -> str | None:
    """If the file has none of the engine's frozen parameters, makes DeepSpeed's loader look for none, and returns a
    remark about it. Below stage 2, no file says that it was saved with `exclude_frozen_parameters`."""
    frozen = (held.get("frozen_param_shapes") or {}).keys()
    if not frozen or served.get("frozen_param_shapes") is None or frozen & served["frozen_param_shapes"].keys():
        return None
    served["frozen_param_shapes"] = served["frozen_param_fragments"] = None
    return f"frozen parameters stay what they are in the engine, the checkpoint has none: {shortened(sorted(frozen))}"


def base_of(optimizer: State) -> Any:
    """The state of the optimizer that takes the steps, in what DeepSpeed's wrapper keeps."""
    for key in ("base_optimizer_state", "optimizer_state_dict"):
        if key in optimizer:
            return optimizer[key]
    return optimizer


def check_optimizer(served: State, held: State, name: str) -> None:
    """Masters and states, their number and lengths, zeros between them, and whose settings they are."""
    for key, what in (("zero_stage", "the ZeRO stage"), ("partition_count", "the number of partitions"),
                      ("param_alignment_paddings", "the zeros between parameters"),
                      ("ds_zero_partition_groups", "which ranks share a sub-group out")):  # fmt: skip
        if key in served and key in held and served[key] != held[key]:
            raise LoadError(f"{what} in `{name}` is {served[key]}, and {held[key]} in the engine")
    check_shapes(served, held, "")
    mine, other = base_of(served), base_of(held)
    if not isinstance(mine, dict) or not isinstance(other, dict):
        return  # An elastic checkpoint has no settings: the engine keeps its own.
    if len(mine["param_groups"]) != len(other["param_groups"]):
        raise LoadError(f"the optimizer has {len(mine['param_groups'])} groups in the checkpoint and "
                        f"{len(other['param_groups'])} in the engine")  # fmt: skip
    for index, (ours, theirs) in enumerate(zip(mine["param_groups"], other["param_groups"], strict=True)):
        numbers = {key for key, value in theirs.items() if is_number(value)}
        if missing := sorted(numbers - ours.keys()):
            raise LoadError(f"the settings of the optimizer's group {index} in the checkpoint have no "
                            f"{shortened(missing)}, which the engine's optimizer has: it is another kind")  # fmt: skip


def is_number(value: Any) -> bool:
    """A setting without which an optimizer does not step; switches have defaults."""
    values = value if isinstance(value, tuple | list) else [value]
    return bool(values) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in values)
