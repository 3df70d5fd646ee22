"""The state of a job as `ucp.Saver` saves it: a nested dict, flattened as torch.distributed.checkpoint flattens one.

A dict is gone through once. Later saves look whether each of its containers still holds the same objects, at the same
addresses: with tens of thousands of tensors that takes milliseconds.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ucp_checkpoint._failure import failure
from ucp_checkpoint._module import unwrapped
from ucp_checkpoint._target import is_distributed

if TYPE_CHECKING:
    from ucp_checkpoint import _ucp

Path = tuple["str | int", ...]


@dataclass(slots=True)
class Leaf:
    """An entry of the flattened dict, and where it is found again."""

    key: str
    path: Path
    container: Any  # container[place] is the entry.
    place: Any
    value: Any
    local: torch.Tensor | None = None  # The part of a tensor that this rank has.
    address: int = 0


def _holds_entries(items: list[Any]) -> bool:
    """Whether the list is gone through: torch.distributed.checkpoint keeps lists of plain values whole."""
    for item in items:
        if isinstance(item, (torch.Tensor, Mapping)) or (isinstance(item, list) and _holds_entries(item)):
            return True
    return False


class SavedDict:
    """A nested dict of tensors and values. Its containers are the job's own, and may change between saves."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self.leaves: list[Leaf] = []
        self._sizes: list[tuple[Any, int]] = []  # Of containers.
        self._keys: set[str] = set()
        self._add((), root)

    def _add(self, path: Path, container: Any) -> None:
        self._sizes.append((container, len(container)))
        entries: Iterator[tuple[Any, Any]]
        entries = iter(container.items()) if isinstance(container, Mapping) else iter(enumerate(container))
        for place, value in entries:
            inner: Path = (*path, place if isinstance(place, int) and isinstance(container, list) else str(place))
            if isinstance(value, Mapping) or (isinstance(value, list) and _holds_entries(value)):
                self._add(inner, value)
                continue
            key = ".".join(map(str, inner))
            if key in self._keys:
                raise failure("usage", f"two entries of the state have the key `{key}`")
            self._keys.add(key)
            leaf = Leaf(key, inner, container, place, value)
            if isinstance(value, torch.Tensor):
                leaf.local = local_of(key, value)
                leaf.address = leaf.local.data_ptr()
            self.leaves.append(leaf)

    def is_as_before(self) -> bool:
        """Whether all tensors are where they were, and no entry has come or gone."""
        for container, size in self._sizes:
            if len(container) != size:
                return False
        for leaf in self.leaves:
            try:
                value = leaf.container[leaf.place]
            except (KeyError, IndexError):
                return False
            if leaf.local is None:
                if isinstance(value, (torch.Tensor, Mapping)) or (isinstance(value, list) and _holds_entries(value)):
                    return False
            elif value is not leaf.value or leaf.local.data_ptr() != leaf.address:
                return False
            elif is_distributed(value) and value._local_tensor.data_ptr() != leaf.address:
                return False
        return True

    def values(self) -> dict[str, Any]:
        """The values as they are now, by key."""
        return {leaf.key: leaf.container[leaf.place] for leaf in self.leaves if leaf.local is None}


def local_of(key: str, value: Any) -> torch.Tensor:
    """Returns this rank's part; refuses tensors that have no memory of their own numbers."""
    if value.is_nested or value.layout is not torch.strided or value.is_quantized:
        kind = "nested" if value.is_nested else "quantized" if value.is_quantized else str(value.layout)
        raise failure("unsupported", f"`{key}` is {kind}; only dense tensors are saved")
    local: torch.Tensor = value.detach().to_local() if is_distributed(value) else value.detach()
    if local.device.type == "meta":
        raise failure("usage", f"`{key}` is on the meta device and has no numbers")
    if local.is_neg() or local.is_conj():
        raise failure("unsupported", f"`{key}` is a view that negates or conjugates what its memory holds")
    return local


@dataclass
class Description:
    """The description of a SavedDict for the extension module."""

    entries: list[_ucp.HeldEntry]
    memory: list[list[_ucp.BoxMemory]]
    boxes: list[list[torch.Tensor]]  # The same, as tensors.


def describe(state: SavedDict) -> Description:
    """The entries of this rank, their boxes, and where they lie."""
    described = Description([], [], [])
    for leaf in state.leaves:
        if leaf.local is None:
            described.entries.append((leaf.key, leaf.path, None, (), []))
            described.memory.append([])
            described.boxes.append([])
            continue
        dtype = str(leaf.local.dtype).removeprefix("torch.")
        boxes = list(_boxes_of(leaf.key, leaf.value, leaf.local))
        described.entries.append((leaf.key, leaf.path, dtype, tuple(leaf.value.shape), [place for place, _ in boxes]))
        described.boxes.append([box for _, box in boxes])
        described.memory.append([_memory_of(box) for _, box in boxes])
    return described


def _memory_of(box: torch.Tensor) -> _ucp.BoxMemory:
    address = box.data_ptr() if box.device.type == "cpu" else 0
    return (address, box.element_size(), tuple(box.shape), box.stride())


Place = tuple[tuple[int, ...], tuple[int, ...]]  # The offsets of a box in the tensor, and its sizes.


def _boxes_of(key: str, value: Any, local: torch.Tensor) -> Iterator[tuple[Place, torch.Tensor]]:
    if not is_distributed(value):
        yield ((0,) * local.dim(), tuple(local.shape)), local
        return
    if value.device_mesh.get_coordinate() is None:
        return  # Other ranks hold it.
    from ucp_checkpoint._placements import positions_of

    runs = positions_of(key, value, tuple(local.shape))
    for chosen in itertools.product(*(list(_with_places(of_dim)) for of_dim in runs)):
        box = local
        for dim, (at, begin, end) in enumerate(chosen):
            box = box.narrow(dim, at, end - begin)
        yield (tuple(begin for _, begin, _ in chosen), tuple(end - begin for _, begin, end in chosen)), box


def _with_places(runs: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Each run, and where it begins in the local tensor."""
    at = 0
    for begin, end in runs:
        yield at, begin, end
        at += end - begin


def pickled(values: Mapping[str, Any]) -> bytes:
    """An archive of torch.save."""
    buffer = io.BytesIO()
    for key, value in values.items():
        _refuse_unknown(key, value)
    torch.save(dict(values), buffer)
    return buffer.getvalue()


def _refuse_unknown(key: str, value: Any) -> None:
    if isinstance(value, (type(None), bool, int, float, str, bytes)):
        return
    try:
        pickle.dumps(value)
    except Exception as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise failure("usage", f"`{key}` of the state cannot be pickled: {words}") from None


class ModuleTensors(Mapping[str, Any]):
    """The tensors of a module's state_dict() by their bare names, found in the module each time."""

    def __init__(self, module: torch.nn.Module) -> None:
        bare = unwrapped(module)
        self._found: dict[str, tuple[Any, str]] = {}
        for prefix, part in module.named_modules(remove_duplicate=False):
            own = [*part._parameters, *(name for name in part._buffers if name not in part._non_persistent_buffers_set)]
            for name in own:
                container: MutableMapping[str, Any] = part._parameters if name in part._parameters else part._buffers
                if container[name] is not None:
                    self._found[bare(f"{prefix}.{name}" if prefix else name)] = (container, name)
            if type(part).get_extra_state is not torch.nn.Module.get_extra_state:
                key = f"{prefix}._extra_state" if prefix else "_extra_state"
                self._found[bare(key)] = (_ExtraState(part), "_extra_state")
        saved = {bare(name): value for name, value in module.state_dict().items()}
        for name, value in saved.items():
            is_value = not isinstance(value, torch.Tensor) and name.endswith("_extra_state")
            if name not in self._found or not (is_value or _is_same(value, self[name])):
                raise failure(
                    "unsupported",
                    f"`{name}` of the module's state_dict() is not one of its parameters and buffers; give the state "
                    "itself, as a dict",
                )
        for name in self._found.keys() - saved.keys():  # A hook has left them out.
            del self._found[name]

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

    def __init__(self, group: Mapping[str, Any], names: Mapping[int, str]) -> None:
        self._group, self._names = group, names

    def __getitem__(self, key: str) -> Any:
        if key != "params":
            return self._group[key]
        return [self._names[id(parameter)] for parameter in self._group["params"]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)


class _States(Mapping[str, Any]):
    """The states of parameters by their names."""

    def __init__(self, states: Mapping[Any, Any], names: Mapping[int, str]) -> None:
        self._states, self._names = states, names

    def __getitem__(self, name: str) -> Any:
        return next(state for parameter, state in self._states.items() if self._names[id(parameter)] == name)

    def items(self) -> Any:
        return [(self._names[id(parameter)], state) for parameter, state in self._states.items()]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items())

    def __len__(self) -> int:
        return len(self._states)


def optimizer_state(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state of an optimizer by names of parameters: `state` and `param_groups`, which stay the optimizer's own."""
    bare = unwrapped(model)
    names = {id(parameter): bare(name) for name, parameter in model.named_parameters()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise failure("usage", "the optimizer has a parameter that the model does not have")
    groups = [_Group(group, names) for group in optimizer.param_groups]
    return {"state": _States(optimizer.state, names), "param_groups": groups}
