"""The entries that `ucp.torch.StorageReader` serves: a nested dict, as frameworks give one to `dcp.load`.

Its leaves are values, or say which state of which tensor the engine reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from ucp_checkpoint import _ucp
from ucp_checkpoint._failure import failure
from ucp_checkpoint._objects import Maker


@dataclass(frozen=True)
class Style:
    """How a framework names what it saves."""

    model: tuple[str, ...]  # The keys that lead to the weights,
    optimizer: tuple[str, ...]  # and to the optimizer.
    is_flat: bool = False  # The optimizer as StateDictOptions(flatten_optimizer_state_dict=True) makes it.


STYLES = {
    "titan": Style((), ("optimizer",), is_flat=True),
    "plain": Style(("model",), ("optimizer",)),
    "accelerate": Style(("model",), ("optimizer",)),
    "app": Style(("app", "model"), ("app", "optim")),
    "lightning": Style(("state_dict",), ("optimizer_0",)),
}


@dataclass(frozen=True)
class Stored:
    """A state of a tensor, which the engine reads."""

    tensor: str
    state: str
    dtype: torch.dtype
    shape: tuple[int, ...]


class Kept:
    """A setting of an optimizer that the checkpoint lacks: the job's own value stays."""


KEPT = Kept()


@dataclass
class Served:
    """All of it."""

    nested: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


class _LargeTensor(Exception):
    """A tensor beside the model's, which would have to be read from the files."""


@cache
def _settings() -> frozenset[str]:
    """The names of all settings of PyTorch's optimizers, and of those that schedulers add."""
    names = {"initial_lr", "decoupled_weight_decay"}
    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer):
            names |= set(inspect.signature(kind.__init__).parameters) - {"self", "params", "args", "kwargs", "defaults"}
    return frozenset(names)


def _dtype_of(tensor: str, name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise failure("unsupported", f"tensor `{tensor}` is {name}, which PyTorch {torch.__version__} lacks")
    return found


class _Serving:
    """Makes the dict."""

    def __init__(self, description: _ucp.Description, style: Style) -> None:
        self._description = description
        self._style = style
        self._storages: dict[str, torch.UntypedStorage] = {}
        self._maker = Maker(self._storage_of)
        self._names: dict[str, list[str]] = {}  # All names of each tensor, by its first.
        self._states: dict[str, dict[str, Stored]] = {}  # Of the optimizer.
        self.served = Served()

    def run(self) -> Served:
        """All of it."""
        weights = self._at(self._style.model)
        for name, second_names, shape, states in self._description.tensors:
            dtypes = {state: _dtype_of(name, dtype) for state, dtype in states}
            stored = {state: Stored(name, state, dtype, tuple(shape)) for state, dtype in dtypes.items()}
            master = stored.pop("fp32", None)
            weight = stored.pop("weight", master)
            self._names[name] = [name, *second_names]
            self._states[name] = stored
            if weight is None:
                continue
            dtype = weight.dtype if master is None else master.dtype  # A weight is made of its master.
            for each in self._names[name]:
                self._put(weights, each, Stored(name, "weight", dtype, weight.shape))
        if self._description.groups:
            self._at(self._style.optimizer).update(self._flat() if self._style.is_flat else self._grouped())
        elif why := self._description.absent_optimizer:
            self.served.remarks.append(why)
        self._add_entries(weights)
        for state in self._description.loose_states:
            self.served.remarks.append(
                f"`{state}` of the optimizer is not one number for each element, and is not served"
            )
        return self.served

    def _at(self, keys: tuple[str, ...]) -> dict[str, Any]:
        place = self.served.nested
        for key in keys:
            place = place.setdefault(key, {})
        return place

    def _put(self, place: dict[str, Any], key: str, value: object) -> None:
        if key in place:
            raise failure(
                "unsupported", f"the checkpoint has two things that are called `{key}` here; choose another style="
            )
        place[key] = value

    def _storage_of(self, key: str) -> torch.UntypedStorage:
        if not key.isdecimal():
            raise _LargeTensor
        if key not in self._storages:
            content = bytearray(self._description.storages[int(key)])
            flat = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
            self._storages[key] = flat.untyped_storage()
        return self._storages[key]

    def _settings_of(self, group: int) -> dict[str, Any]:
        made: Any = self._description.hyper_parameters(group, self._maker)
        settings: dict[str, Any] = {str(name): value for name, value in made.items()}
        return settings | {name: KEPT for name in _settings() if name not in settings}

    def _states_of(self, parameter: str, step: torch.Tensor | None) -> dict[str, Any]:
        states: dict[str, Any] = dict(self._states.get(parameter, {}))
        if states and step is not None:
            states["step"] = step
        return states

    def _groups(self) -> Iterator[tuple[dict[str, Any], dict[str, dict[str, Any]]]]:
        """The settings of each group, and the states of its parameters by all their names."""
        for number, (parameters, step) in enumerate(self._description.groups):
            counter = None if step is None else torch.tensor(step, dtype=torch.float32)
            states = {
                name: self._states_of(parameter, counter)
                for parameter in parameters
                for name in self._names.get(parameter, [parameter])
            }
            yield self._settings_of(number), states

    def _flat(self) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for settings, of_parameter in self._groups():
            for parameter, states in of_parameter.items():
                for state, value in states.items():
                    self._put(flat, f"state.{parameter}.{state}", value)
                for name, value in settings.items():
                    self._put(flat, f"param_groups.{parameter}.{name}", value)
        return flat

    def _grouped(self) -> dict[str, Any]:
        groups: list[dict[str, Any]] = []
        states_of_all: dict[str, dict[str, Any]] = {}
        for settings, of_parameter in self._groups():
            states_of_all |= {parameter: states for parameter, states in of_parameter.items() if states}
            groups.append(settings | {"params": list(of_parameter)})
        return {"state": states_of_all, "param_groups": groups}

    def _add_entries(self, weights: dict[str, Any]) -> None:
        for number, (name, is_of_module) in enumerate(self._description.entries):
            try:
                value = self._description.entry(number, self._maker)
            except _LargeTensor:
                self.served.remarks.append(f"`{name}` holds tensors that the model does not have, and is not served")
            except _ucp.Error as error:
                self.served.remarks.append(f"`{name}` is not served: {error}")
            else:
                self._put(weights if is_of_module else self.served.nested, name, value)


def serve(description: _ucp.Description, style: str) -> Served:
    """With the names that the style gives."""
    return _Serving(description, STYLES[style]).run()
