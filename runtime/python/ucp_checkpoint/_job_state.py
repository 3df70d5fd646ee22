"""The state of a job as a Saver is given it, and what it is at a moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ucp_checkpoint._failure import failure
from ucp_checkpoint._job_tensors import ModuleTensors, joined_names, optimizer_state
from ucp_checkpoint._saved_dict import Description, SavedDict, describe


@dataclass
class Moment:
    """The state of a rank at the moment of a save."""

    described: Description
    values: dict[str, Any]  # By key.
    dicts: list[SavedDict]  # They keep the tensors that are described.


class JobState:
    """A module and its optimizer, or a nested dict. Tensors that have not moved keep their description."""

    def __init__(self, state: object, optimizer: object) -> None:
        self._state, self._optimizer = state, optimizer
        self._all_names: list[list[str]] | None = None  # Of the optimizer's groups, where ranks have others.
        self._root = self._make_root()
        self._dict: SavedDict | None = None
        self._described: Description | None = None
        self._sharded = _sharded_modules(state)

    def _make_root(self) -> Mapping[Any, Any]:
        state, optimizer = self._state, self._optimizer
        if isinstance(state, torch.nn.Module):
            root: dict[str, Any] = {"model": ModuleTensors(state)}
            if optimizer is not None:
                if not isinstance(optimizer, torch.optim.Optimizer):
                    raise failure("usage", f"optimizer= is a {type(optimizer).__name__} and no torch.optim.Optimizer")
                root["optimizer"] = optimizer_state(state, optimizer, self._all_names)
                self._states, self._groups = optimizer.state, list(optimizer.param_groups)
            return root
        if not isinstance(state, Mapping):
            raise failure("usage", f"the state is a module or a dict, not a {type(state).__name__}")
        if optimizer is not None:
            raise failure("usage", "with an optimizer the state is its module, which gives its states their names")
        return state

    def names_of_groups(self) -> list[list[str]]:
        """The parameters of this rank in each group of the optimizer."""
        groups = self._root["optimizer"]["param_groups"] if self._optimizer is not None else []
        return [list(group["params"]) for group in groups]

    def join_groups(self, by_rank: list[list[list[str]]]) -> None:
        """The result of names_of_groups() on each rank."""
        self._all_names = joined_names(by_rank)
        if self._all_names is not None:
            self._root = self._make_root()

    def first(self, extra: Mapping[str, object]) -> Moment:
        """The state that will be saved. An optimizer that has made no step is asked which states it will have."""
        optimizer = self._optimizer
        moment = self.now(extra, is_free=True)
        if isinstance(optimizer, torch.optim.Optimizer) and not optimizer.state:
            from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

            try:
                _without_gradients(optimizer, lambda: get_optimizer_state_dict(self._state, optimizer))  # type: ignore[arg-type]
                moment = self.now(extra, is_free=True)
            finally:
                optimizer.state.clear()
                self._dict = None
        return moment

    def now(self, extra: Mapping[str, object], is_free: bool) -> Moment:
        """The state as it is now. `is_free`: nobody reads the copies that were made for the last moment."""
        for module in self._sharded:
            module.reshard()  # As its state_dict() does: a forward pass alone leaves whole parameters in it.
        if self._has_other_states():
            self._root = self._make_root()
            self._dict = None
        if self._dict is None or self._described is None or not self._dict.is_as_before() or self._is_read(is_free):
            self._dict = SavedDict(self._root)
            self._described = describe(self._dict)
        else:
            self._dict.copy_again()
        if not extra:
            return Moment(self._described, self._dict.values(), [self._dict])
        beside = self._beside(extra)
        values = {**self._dict.values(), **beside.values()}
        return Moment(self._described + describe(beside), values, [self._dict, beside])

    def _is_read(self, is_free: bool) -> bool:
        return self._dict is not None and self._dict.has_copies and not is_free

    def _has_other_states(self) -> bool:
        """After load_state_dict() of an optimizer, or add_param_group()."""
        optimizer = self._optimizer
        if not isinstance(optimizer, torch.optim.Optimizer):
            return False
        groups = optimizer.param_groups
        if optimizer.state is not self._states or len(groups) != len(self._groups):
            return True
        return any(group is not known for group, known in zip(groups, self._groups, strict=True))

    def _beside(self, extra: Mapping[str, object]) -> SavedDict:
        root = {}
        for name, value in extra.items():
            if name in self._root:
                raise failure("usage", f"extra has an entry `{name}`, which the state also has")
            root[name] = value.state_dict() if hasattr(value, "state_dict") else value
        return SavedDict(root)


def _sharded_modules(state: object) -> list[Any]:
    """Those that fully_shard() has changed."""
    import torch.distributed as dist

    if not isinstance(state, torch.nn.Module) or not dist.is_available():
        return []
    from torch.distributed.fsdp import FSDPModule

    return [part for part in state.modules() if isinstance(part, FSDPModule)]


def _without_gradients(optimizer: torch.optim.Optimizer, work: Callable[[], object]) -> None:
    """PyTorch makes no states while there are gradients."""
    gradients = [(parameter, parameter.grad) for group in optimizer.param_groups for parameter in group["params"]]
    try:
        for parameter, _ in gradients:
            parameter.grad = None
        work()
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
