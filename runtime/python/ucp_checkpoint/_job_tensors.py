"""The tensors of a module and its optimizer as a nested dict, by the names of torch.distributed.checkpoint.

All of it is looked up in the module and the optimizer each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import torch

from ucp_checkpoint._failure import failure
from ucp_checkpoint._module import unwrapped
from ucp_checkpoint._target import is_distributed


class ModuleTensors(Mapping[str, Any]):
    """The tensors of a module's state_dict() by their bare names, found in the module each time."""

    def __init__(self, module: torch.nn.Module) -> None:
        bare = unwrapped(module)
        self._buffers: set[str] = set()
        self._found: dict[str, tuple[Any, str]] = {}
        for prefix, part in module.named_modules(remove_duplicate=False):
            own = [*part._parameters, *(name for name in part._buffers if name not in part._non_persistent_buffers_set)]
            for name in own:
                container: MutableMapping[str, Any] = part._parameters if name in part._parameters else part._buffers
                if container[name] is None:
                    continue
                whole = bare(f"{prefix}.{name}" if prefix else name)
                self._found[whole] = (container, name)
                if container is part._buffers:
                    self._buffers.add(whole)
            if type(part).get_extra_state is not torch.nn.Module.get_extra_state:
                key = f"{prefix}._extra_state" if prefix else "_extra_state"
                self._found[bare(key)] = (_ExtraState(part), "_extra_state")
        saved = {bare(name): value for name, value in module.state_dict().items()}
        for name, value in saved.items():
            is_own = name in self._found and isinstance(self._found[name][0], _ExtraState)
            if name not in self._found or not (is_own or _is_same(value, self[name])):
                raise failure(
                    "unsupported",
                    f"`{name}` of the module's state_dict() is not one of its parameters and buffers; give the state "
                    "itself, as a dict",
                )
        for name in self._found.keys() - saved.keys():  # A hook has left them out.
            del self._found[name]

    def may_change(self, name: str) -> bool:
        """In the forward pass, as the averages of a normalisation do."""
        return name in self._buffers

    def __getitem__(self, name: str) -> Any:
        container, place = self._found[name]
        return container[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _is_same(saved: Any, own: Any) -> bool:
    if is_distributed(own):
        return is_distributed(saved) and saved._local_tensor.data_ptr() == own._local_tensor.data_ptr()
    return isinstance(saved, torch.Tensor) and not is_distributed(saved) and saved.data_ptr() == own.data_ptr()


class _ExtraState:
    """Of a module, which makes it anew each time."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module

    def __getitem__(self, _: str) -> Any:
        return self._module.get_extra_state()


class _Group(Mapping[str, Any]):
    """A group of an optimizer, with the names of its parameters."""

    def __init__(self, group: Mapping[str, Any], names: Mapping[int, str], all_names: list[str] | None) -> None:
        self._group, self._names, self._all_names = group, names, all_names

    def __getitem__(self, key: str) -> Any:
        if key != "params":
            return self._group[key]
        if self._all_names is not None:
            return self._all_names
        return [self._names[id(parameter)] for parameter in self._group["params"]]

    def may_change(self, _: str) -> bool:
        """When a scheduler makes its step, whose learning rates may be tensors."""
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


class _States(Mapping[str, Any]):
    """The states of parameters by their names."""

    def __init__(self, optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> None:
        self._optimizer, self._names = optimizer, names

    def __getitem__(self, name: str) -> Any:
        return next(state for known, state in self.items() if known == name)

    def items(self) -> Any:
        return [(self._names[id(parameter)], state) for parameter, state in self._optimizer.state.items()]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items())

    def __len__(self) -> int:
        return len(self._optimizer.state)


def optimizer_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, all_names: list[list[str]] | None
) -> dict[str, Any]:
    """The state of an optimizer by names of parameters: `state` and `param_groups`, which stay the optimizer's own.

    `all_names` are those of each group where other ranks have further parameters, such as stages of a pipeline.
    """
    bare = unwrapped(model)
    names = {id(parameter): bare(name) for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise failure("usage", "the optimizer has a parameter that the model does not have")
    groups = []
    for number, group in enumerate(optimizer.param_groups):
        known = all_names[number] if all_names is not None and number < len(all_names) else None
        groups.append(_Group(group, names, known))
    return {"state": _States(optimizer, names), "param_groups": groups}


def joined_names(by_rank: list[list[list[str]]]) -> list[list[str]] | None:
    """The names in each group over all ranks, in their order; nothing if all ranks have the same."""
    if all(groups == by_rank[0] for groups in by_rank):
        return None
    joined: list[dict[str, None]] = [{} for _ in range(max(map(len, by_rank)))]
    for groups in by_rank:
        for known, names in zip(joined, groups, strict=False):
            known |= dict.fromkeys(names)
    return [list(names) for names in joined]
