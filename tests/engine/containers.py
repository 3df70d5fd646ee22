"""The content of a file by PyTorch's data-only mode, in the words in which print_archives.cpp prints our reading of it.

Only torch decides here; every file is loaded in a child process, since hostile files can end it.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import warnings
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

LARGEST_TENSOR = 16 << 20  # Bytes: what print_archives reads.
MEMORY = 8 << 30  # Of a child: address space, most of it PyTorch's own.


class Printer:
    """One object is printed once, then as {"again": its number}; plain values and () are always printed."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []  # Ids stay distinct while the objects live.

    def print(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            if -(2**63) <= value < 2**63:
                return {"int": str(value)}
            return {
                "long": value.to_bytes(
                    (value.bit_length() if value >= 0 else (~value).bit_length()) // 8 + 1, "little", signed=True
                ).hex()
            }
        if kind is float:
            return {"double": struct.pack(">d", value).hex()}
        if kind is str:
            return {"text": value.encode("utf-8", "surrogatepass").hex()}
        if kind is bytes:
            return {"bytes": value.hex()}
        if kind is torch.dtype:
            return {"dtype": str(value).removeprefix("torch.")}
        if kind is tuple and not value:
            return {"tuple": []}
        if id(value) in self.numbers:
            return {"again": self.numbers[id(value)]}
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)
        return self.print_once(value)

    def print_once(self, value: Any) -> Any:
        kind = type(value)
        if kind is list:
            return {"list": [self.print(item) for item in value]}
        if kind is tuple:
            return {"tuple": [self.print(item) for item in value]}
        if kind is dict:
            return {"dict": self.entries(value)}
        if kind is OrderedDict:
            printed = {"ordered": self.entries(value)}
            return printed | ({"attributes": self.entries(vars(value))} if vars(value) else {})
        if kind is torch.Size:
            return {"size": list(value)}
        if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_quantized:
            return self.tensor(value)
        return {"object": kind.__name__}

    def entries(self, mapping: dict[Any, Any]) -> list[Any]:
        return [[self.print(key), self.print(value)] for key, value in mapping.items()]

    @staticmethod
    def tensor(value: torch.Tensor) -> dict[str, Any]:
        printed = {
            "tensor": str(value.dtype).removeprefix("torch."),
            "sizes": list(value.shape),
            "parameter": isinstance(value, torch.nn.Parameter),
            "requires_grad": value.requires_grad,
        }
        if value.numel() * value.element_size() <= LARGEST_TENSOR and value.device.type == "cpu":
            data = value.detach().resolve_conj().resolve_neg().flatten().clone(memory_format=torch.contiguous_format)
            printed["crc32"] = zlib.crc32(bytes(data.untyped_storage()))
        return printed


def load(path: Path) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # Whatever torch raises is a refusal.
        return {"refused": f"{type(error).__name__}: {error}"[:300]}
    try:
        return {"read": Printer().print(value)}
    except RecursionError:
        return {"endless": True}


def load_all(paths: list[Path]) -> list[dict[str, Any]]:
    """In children of this process, each going on where the one before it came to an end."""
    results: list[dict[str, Any]] = []
    while len(results) < len(paths):
        results += load_in_child(paths[len(results) :])
        if len(results) < len(paths):
            results.append({"crashed": True})
    return results


def load_in_child(paths: list[Path]) -> list[dict[str, Any]]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with os.fdopen(writing, "w") as pipe:
                for path in paths:
                    pipe.write(json.dumps(load(path)) + "\n")
                    pipe.flush()
        finally:
            os._exit(0)  # A fork must not return into its parent's code.
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = pipe.readlines()
    os.waitpid(child, 0)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def is_equal(theirs: Any, ours: Any) -> bool:
    """Whether ours says what theirs says. Parts that we keep opaque, or do not read for their size, fit anything."""
    if isinstance(ours, dict) and "opaque" in ours:
        return True
    if isinstance(ours, dict) and "unread" in ours and isinstance(theirs, dict):
        return all(theirs.get(key) == ours[key] for key in ("tensor", "sizes", "parameter", "requires_grad"))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs.keys() == ours.keys() and all(is_equal(theirs[key], ours[key]) for key in theirs)
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(map(is_equal, theirs, ours))
    return type(theirs) is type(ours) and theirs == ours


if __name__ == "__main__":
    for name, result in zip(sys.argv[1:], load_all([Path(name) for name in sys.argv[1:]]), strict=True):
        print(name, json.dumps(result)[:2000])
