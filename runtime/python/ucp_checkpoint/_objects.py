"""The objects of a checkpoint, built from data: each name that may stand in a file has its own line here.

Nothing of a checkpoint is unpickled by Python. The extension module reads the pickle, refuses every object that is not
on the list of known ones (docs/security.md), and asks a `Maker` for the others.
"""

from __future__ import annotations

import argparse
import builtins
import enum
import importlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy
import torch

from ucp_checkpoint._failure import failure

TYPES = ("bool", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple")


class Maker:
    """Makes what is neither a number nor a text nor a plain container."""

    def __init__(self, storage_of: Callable[[str], torch.UntypedStorage]) -> None:
        """`storage_of` has the memory of a storage, by its key."""
        self.storage_of = storage_of

    def named(self, name: str) -> Any:
        """A type or a dtype that stands as a value."""
        module, _, word = name.rpartition(".")
        if module == "builtins" and word in TYPES:
            return getattr(builtins, word)
        if name == "collections.OrderedDict":
            return OrderedDict
        if name == "numpy.ndarray":
            return numpy.ndarray
        found = getattr(torch, word, None) if module == "torch" else None
        if isinstance(found, torch.dtype | torch.qscheme):
            return found
        return class_of(name)

    def storage(self, key: str, dtype: str, untyped: bool) -> torch.UntypedStorage | torch.storage.TypedStorage:
        """A storage by itself."""
        memory = self.storage_of(key)
        if untyped:
            return memory
        return torch.storage.TypedStorage(wrap_storage=memory, dtype=getattr(torch, dtype), _internal=True)

    def tensor(
        self,
        key: str,
        dtype: str,
        offset: int,
        sizes: list[int],
        strides: list[int],
        requires_grad: bool,
        is_parameter: bool,
        attributes: dict[str, Any] | None,
    ) -> torch.Tensor:
        """A view of a storage; offset and strides are in elements."""
        made = torch.empty(0, dtype=getattr(torch, dtype)).set_(self.storage_of(key), offset, sizes, strides)
        if is_parameter:
            made = torch.nn.Parameter(made, requires_grad=requires_grad)
        else:
            made.requires_grad = requires_grad
        for name, value in (attributes or {}).items():
            setattr(made, name, value)
        return made

    def call(self, name: str, arguments: tuple[Any, ...], items: list[Any], entries: dict[Any, Any], state: Any) -> Any:
        """An object that a pickle makes by calling what it names; its form is known to be its framework's."""
        make = MAKERS.get(name)
        if make is not None:
            return make(arguments, items, entries, state)
        kind = class_of(name)
        if isinstance(kind, enum.EnumMeta):
            return kind(*arguments)
        made: Any = object.__new__(kind)
        vars(made).update(state or {})
        return made


def class_of(name: str) -> type:
    """Of a framework's class that is on the list; ucp.Error if this installation does not have it."""
    module, _, word = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), word)
    except (ImportError, AttributeError) as error:
        raise failure(
            "usage", f"the checkpoint holds objects of `{name}`, which is not installed here: {error}"
        ) from error
    if not isinstance(found, type):
        raise failure("usage", f"the checkpoint holds objects of `{name}`, which is not a class here")
    return found


def ordered(_arguments: Any, _items: Any, entries: dict[Any, Any], state: Any) -> OrderedDict[Any, Any]:
    made: OrderedDict[Any, Any] = OrderedDict(entries)
    vars(made).update(state or {})
    return made


def default(arguments: tuple[Any, ...], _items: Any, entries: dict[Any, Any], _state: Any) -> defaultdict[Any, Any]:
    made: defaultdict[Any, Any] = defaultdict(*arguments)
    made.update(entries)
    return made


def queue(arguments: tuple[Any, ...], items: list[Any], _entries: Any, _state: Any) -> deque[Any]:
    made: deque[Any] = deque(*arguments)
    made.extend(items)
    return made


def raw(content: bytes | str) -> bytes:
    """Python 2 had one type for both."""
    return content.encode("latin-1") if isinstance(content, str) else content


def array_type(arguments: tuple[Any, ...], _items: Any, _entries: Any, state: Any) -> numpy.dtype[Any]:
    made: Any = numpy.dtype(*arguments)
    if state is not None:
        made.__setstate__(state)
    typed: numpy.dtype[Any] = made
    return typed


def array(_arguments: Any, _items: Any, _entries: Any, state: Any) -> numpy.ndarray[Any, Any]:
    made: numpy.ndarray[Any, Any] = numpy.ndarray((0,), dtype="b")
    made.__setstate__((*state[:4], raw(state[4])))
    return made


def plain(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a maker of objects that are made of their arguments alone."""
    return lambda arguments, _items, _entries, _state: make(*arguments)


MAKERS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "argparse.Namespace": lambda _arguments, _items, _entries, state: argparse.Namespace(**(state or {})),
    "builtins.bytearray": plain(bytearray),
    "builtins.bytes": plain(bytes),
    "builtins.complex": plain(complex),
    "builtins.frozenset": plain(frozenset),
    "builtins.getattr": plain(lambda kind, member: kind[member]),  # Of an enum.
    "builtins.range": plain(range),
    "builtins.set": plain(set),
    "builtins.slice": plain(slice),
    "builtins.xrange": plain(range),
    "collections.Counter": plain(Counter),
    "collections.OrderedDict": ordered,
    "collections.defaultdict": default,
    "collections.deque": queue,
    "numpy._core.multiarray._reconstruct": array,
    "numpy._core.multiarray.scalar": plain(lambda kind, content: numpy.frombuffer(raw(content), kind)[0]),
    "numpy._core.numeric._frombuffer": plain(
        lambda content, kind, shape, order: numpy.frombuffer(content, kind).reshape(shape, order=order)
    ),
    "numpy.dtype": array_type,
    "torch.Size": plain(torch.Size),
    "torch.device": plain(torch.device),
    "torch.serialization._get_layout": plain(lambda name: getattr(torch, name.removeprefix("torch."))),
}
