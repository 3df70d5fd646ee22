"""The state of a job as `ucp.Saver` saves it: a nested dict, flattened as torch.distributed.checkpoint flattens one.

A dict is gone through once. Later saves look whether each of its containers still holds the same objects, at the same
addresses: with tens of thousands of tensors that takes milliseconds.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from ucp_checkpoint import _arguments
from ucp_checkpoint._failure import failure
from ucp_checkpoint._target import dtype_name, is_distributed

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
    is_distributed: bool = False
    address: int = 0
    copy: torch.Tensor | None = None  # Of the local tensor, where that may change before it is staged.


def _holds_entries(items: list[Any]) -> bool:
    """Whether the list is gone through: torch.distributed.checkpoint keeps lists of plain values whole."""
    for item in items:
        if isinstance(item, (torch.Tensor, Mapping)) or (isinstance(item, list) and _holds_entries(item)):
            return True
    return False


def _is_container(value: Any) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and _holds_entries(value))


def _items(container: Any) -> Iterator[tuple[Any, Any]]:
    return iter(container.items()) if isinstance(container, Mapping) else iter(enumerate(container))


class SavedDict:
    """A nested dict of tensors and values. Its containers are the job's own, and may change between saves.

    A container whose `may_change(place)` is true of an entry has a tensor there that changes at other times than the
    optimizer's steps: a copy of it is saved.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.leaves: list[Leaf] = []
        self.has_copies = False
        self._containers: list[tuple[Any, list[Any]]] = []  # With their entries: leaves, and other containers.
        self._keys: set[str] = set()
        try:
            self._add((), root)
        except RecursionError:
            raise failure("usage", "the state is nested too deeply, or contains itself") from None

    def _add(self, path: Path, container: Any) -> None:
        entries: list[Any] = []
        self._containers.append((container, entries))
        may_change = getattr(container, "may_change", None)
        for place, value in _items(container):
            inner: Path = (*path, place if isinstance(place, int) and isinstance(container, list) else str(place))
            if _is_container(value):
                entries.append(value)
                self._add(inner, value)
                continue
            leaf = self._leaf(inner, container, place, value)
            if leaf.local is not None and may_change is not None and may_change(place):
                leaf.copy = leaf.local.clone()
                self.has_copies = True
            entries.append(leaf)

    def _leaf(self, path: Path, container: Any, place: Any, value: Any) -> Leaf:
        key = _arguments.text("a key of the state", ".".join(map(str, path)))
        if key in self._keys:
            raise failure("usage", f"two entries of the state have the key `{key}`")
        self._keys.add(key)
        leaf = Leaf(key, path, container, place, value)
        if isinstance(value, torch.Tensor):
            leaf.local = local_of(key, value)
            leaf.is_distributed = is_distributed(value)
            leaf.address = leaf.local.data_ptr()
        self.leaves.append(leaf)
        return leaf

    def is_as_before(self) -> bool:
        """Whether all tensors are where they were, and no entry has come, gone or moved."""
        for container, known in self._containers:
            if len(container) != len(known):
                return False
            for (place, value), entry in zip(_items(container), known, strict=True):
                if entry.__class__ is not Leaf:
                    if value is not entry:
                        return False
                elif entry.place != place:
                    return False
                elif entry.local is None:
                    if isinstance(value, torch.Tensor) or _is_container(value):
                        return False
                else:
                    if value is not entry.value:
                        return False
                    if entry.is_distributed:
                        value = value._local_tensor
                    if value.data_ptr() != entry.address:  # It may have been given other memory.
                        return False
        return True

    def copy_again(self) -> None:
        """Tensors that may change before they are staged."""
        for leaf in self.leaves:
            if leaf.copy is not None and leaf.local is not None:
                leaf.copy.copy_(leaf.local)

    def values(self) -> dict[str, Any]:
        """The values as they are now, by key."""
        return {leaf.key: leaf.container[leaf.place] for leaf in self.leaves if leaf.local is None}


_DTYPES = {
    *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
}  # fmt: skip


def local_of(key: str, value: Any) -> torch.Tensor:
    """Returns this rank's part; refuses tensors that have no memory of their own numbers."""
    if value.is_nested or value.layout is not torch.strided or value.is_quantized:
        kind = "nested" if value.is_nested else "quantized" if value.is_quantized else str(value.layout)
        raise failure("unsupported", f"`{key}` is {kind}; only dense tensors are saved")
    if is_lazy(value):
        raise failure("usage", f"`{key}` has no shape before the module's first forward")
    local: torch.Tensor = (value._local_tensor if is_distributed(value) else value).detach()
    if local.device.type == "meta":
        raise failure("usage", f"`{key}` is on the meta device and has no numbers")
    if not _has_memory(local):
        kind = type(value).__name__
        said = f"`{key}` is a {kind} without memory of its own numbers; save the tensors that have them"
        raise failure("unsupported", said)
    if type(local) is not torch.Tensor:
        local = local.as_subclass(torch.Tensor)
    if local.is_neg() or local.is_conj():
        raise failure("unsupported", f"`{key}` is a view that negates or conjugates what its memory holds")
    if dtype_name(local.dtype) not in _DTYPES:
        raise failure("unsupported", f"`{key}` has numbers of the unknown kind {dtype_name(local.dtype)}")
    return local


def _has_memory(local: torch.Tensor) -> bool:
    """Wrappers of other tensors have none, and neither have tensors whose storage was made empty."""
    try:
        return local.numel() == 0 or local.data_ptr() != 0
    except RuntimeError:
        return False


Place = tuple[tuple[int, ...], tuple[int, ...]]  # The offsets of a box in the tensor, and its sizes.


@dataclass
class Description:
    """The description of a SavedDict for the extension module."""

    entries: list[_ucp.HeldEntry]
    memory: list[list[_ucp.BoxMemory]]
    boxes: list[list[torch.Tensor]]  # The same, as tensors.
    is_on_devices: bool = False  # Some of them.

    def add_value(self, key: str, path: Path) -> None:
        """An entry that is a value."""
        self.entries.append((key, path, None, (), []))
        self.memory.append([])
        self.boxes.append([])

    def add_tensor(
        self, key: str, path: Path, dtype: str, shape: Iterable[int], boxes: list[tuple[Place, torch.Tensor]]
    ) -> None:
        """An entry that is a tensor, of which this rank holds these boxes."""
        self.entries.append((key, path, dtype, tuple(shape), [place for place, _ in boxes]))
        self.boxes.append([box for _, box in boxes])
        self.is_on_devices |= any(box.device.type != "cpu" for _, box in boxes)
        self.memory.append([_memory_of(box) for _, box in boxes])

    def __add__(self, other: Description) -> Description:
        return Description(self.entries + other.entries, self.memory + other.memory, self.boxes + other.boxes,
                           self.is_on_devices or other.is_on_devices)  # fmt: skip


def describe(state: SavedDict) -> Description:
    """The entries of this rank, their boxes, and where they lie."""
    described = Description([], [], [])
    for leaf in state.leaves:
        if leaf.local is None:
            described.add_value(leaf.key, leaf.path)
            continue
        boxes = list(_boxes_of(leaf.key, leaf.value, leaf.local if leaf.copy is None else leaf.copy))
        described.add_tensor(leaf.key, leaf.path, dtype_name(leaf.local.dtype), leaf.value.shape, boxes)
    return described


def _memory_of(box: torch.Tensor) -> _ucp.BoxMemory:
    address = box.data_ptr() if box.device.type == "cpu" else 0
    return (address, box.element_size(), tuple(box.shape), box.stride())


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
    try:
        torch.save(dict(values), buffer)
    except Exception:
        for key, value in values.items():
            _refuse_unknown(key, value)
        raise
    return buffer.getvalue()


def _refuse_unknown(key: str, value: Any) -> None:
    if isinstance(value, (type(None), bool, int, float, str, bytes)):
        return
    try:
        torch.save(value, io.BytesIO())
    except Exception as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise failure("usage", f"`{key}` of the state cannot be pickled: {words}") from None
