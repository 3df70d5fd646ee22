"""A file of a native checkpoint that is nowhere but in a plan: its ready-made bytes, and memory for its tensors."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator
from typing import Any

import torch

from .. import _ucp
from .._objects import Maker

State = dict[str, Any]  # The content of a file.

LOCAL_HEADER = struct.Struct("<26xHH")  # Of an entry in a zip: lengths of its name and of what stands behind it.


class ReadyMade(io.RawIOBase):
    """The bytes that a plan has ready, at their places; zeros between them."""

    def __init__(self, pieces: list[tuple[int, bytes]], size: int) -> None:
        self.pieces, self.size, self.at = pieces, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        begin, end = self.at, min(self.at + len(view), self.size)
        view[: max(0, end - begin)] = bytes(max(0, end - begin))
        for place, content in self.pieces:
            first, last = max(place, begin), min(place + len(content), end)
            if first < last:
                view[first - begin : last - begin] = content[first - place : last - place]
        self.at = max(begin, end)
        return max(0, end - begin)


class Archive:
    """The object that `torch.load` would make of the file. Its tensors have memory, but no values before they are read.

    Its objects are built from data, and nothing is unpickled by Python.
    """

    def __init__(self, ready: ReadyMade, records: dict[int, int]) -> None:
        """`records` are the plan's, by where they begin in the file."""
        self.archive = zipfile.ZipFile(ready)
        self.ready = ready
        self.records = records
        self.memory: dict[int, torch.UntypedStorage] = {}  # By record.
        (self.folder,) = (
            name.removesuffix("/data.pkl") for name in self.archive.namelist() if name.endswith("/data.pkl")
        )
        self.storages: dict[str, torch.UntypedStorage] = {}

    def content(self) -> Any:
        """The object in the file."""
        return _ucp.read_pickle(self.archive.read(f"{self.folder}/data.pkl"), Maker(self.storage))

    def storage(self, key: str) -> torch.UntypedStorage:
        """The memory of a storage; ready-made ones have their values."""
        if key not in self.storages:
            entry = self.archive.getinfo(f"{self.folder}/data/{key}")
            record = self.records.get(self.begin(entry))
            if record is None:
                values = bytearray(self.archive.read(entry))
                made = (
                    torch.frombuffer(values, dtype=torch.uint8).untyped_storage() if values else torch.UntypedStorage(0)
                )
            else:
                made = self.memory[record] = torch.UntypedStorage(entry.file_size)
            self.storages[key] = made
        return self.storages[key]

    def begin(self, entry: zipfile.ZipInfo) -> int:
        """Where the bytes of an entry begin."""
        self.ready.seek(entry.header_offset)
        name, extra = LOCAL_HEADER.unpack(self.ready.read(LOCAL_HEADER.size))
        return entry.header_offset + LOCAL_HEADER.size + int(name) + int(extra)


def tensors_in(content: Any) -> Iterator[torch.Tensor]:
    """All tensors of an object, at any depth of dicts and lists."""
    if isinstance(content, torch.Tensor):
        yield content
    elif isinstance(content, dict):
        for value in content.values():
            yield from tensors_in(value)
    elif isinstance(content, list | tuple):
        for value in content:
            yield from tensors_in(value)
