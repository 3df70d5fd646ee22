"""The files that a rank of the running engine loads, in memory: of the plan for the engine's own strategy."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from .. import _ucp
from .archive import Archive, ReadyMade, tensors_in
from .compare import pairs
from .errors import LoadError


class PlannedFiles:
    """Opened first, so that their form can be compared; then tensors of the engine are put in the places of theirs;
    then everything is read."""

    def __init__(self, plan: _ucp.LoadPlan) -> None:
        self.plan = plan
        self.files = {Path(path).name: (index, size) for index, path, size in plan.files_of(plan.rank)}
        self.records: dict[int, dict[int, int]] = {}  # By file, by where they begin.
        self.bytes: dict[int, int] = {}  # By record.
        for record, file, begin, size in plan.records_of(plan.rank):
            self.records.setdefault(file, {})[begin] = record
            self.bytes[record] = size
        self.of_storage: dict[int, int] = {}  # Records, by the storage that stands for them.
        self.room: dict[int, torch.Tensor] = {}  # The engine's own memory for records that need no other.
        self.opened: list[Archive] = []

    def open(self, name: str) -> Any:
        """Returns the object that `torch.load` would give, without the values, which are read later."""
        if name not in self.files:
            raise LoadError(f"the checkpoint has no `{name}` for this rank of the engine, which it loads")
        index, size = self.files[name]
        archive = Archive(ReadyMade(self.plan.blobs_of(index), size), self.records.get(index, {}))
        content = archive.content()
        self.opened.append(archive)
        for record, storage in archive.memory.items():
            if storage.nbytes() != self.bytes[record]:
                have, want = storage.nbytes(), self.bytes[record]
                raise LoadError(f"a tensor of `{name}` has {have} bytes, and its record {want}")
            self.of_storage[storage._cdata] = record
        return content

    def place(self, content: Any, held: Any) -> list[str]:
        """Lets tensors of the engine stand for those of the files where bytes are the same, so that there is no second
        copy; returns where."""
        users: dict[int, dict[int, torch.Tensor]] = {}  # Each once, under however many names it is there.
        for tensor in tensors_in(content):
            users.setdefault(tensor.untyped_storage()._cdata, {})[id(tensor)] = tensor
        placed = []
        taken = sorted(map(stretch_of, self.room.values()))
        for where, served, engines in pairs(content, held, ""):
            own, storage = engines.detach(), served.untyped_storage()
            record = self.of_storage.get(storage._cdata)
            if record is None or record in self.room or not is_room_for(own, served):
                continue
            if shares_bytes(stretch_of(own), taken):  # Buffers can be views of one another.
                continue
            self.room[record] = own
            insort(taken, stretch_of(own))
            placed.append(where)
            for user in users[storage._cdata].values():
                begin = own.storage_offset() + user.storage_offset()
                user.set_(own.untyped_storage(), begin, user.size(), user.stride())
        return placed

    def memory_for(self, contents: Iterable[Any]) -> list[tuple[int, int, int]]:
        """(record, address, bytes) of all that is to be read: what tensors of the contents stand in."""
        wanted = {record: own.data_ptr() for record, own in self.room.items()}
        for content in contents:
            for tensor in tensors_in(content):
                record = self.of_storage.get(tensor.untyped_storage()._cdata)
                if record is not None and record not in wanted:
                    wanted[record] = tensor.untyped_storage().data_ptr()
        return [
            (record, address, self.bytes[record]) for record, address in sorted(wanted.items()) if self.bytes[record]
        ]


def stretch_of(own: torch.Tensor) -> tuple[int, int]:
    """Where the bytes of a contiguous tensor begin and end."""
    return own.data_ptr(), own.data_ptr() + own.nbytes


def shares_bytes(stretch: tuple[int, int], taken: list[tuple[int, int]]) -> bool:
    """Whether a stretch meets one of these, which do not meet each other and are in order."""
    begin, end = stretch
    next_one = bisect_left(taken, stretch)
    return any(other < end and begin < last for other, last in taken[max(0, next_one - 1) : next_one + 1])


def is_room_for(own: torch.Tensor, served: torch.Tensor) -> bool:
    """Whether all of a file's storage is one tensor, which is like the engine's."""
    return (
        own.dtype == served.dtype
        and own.device.type == "cpu"
        and own.is_contiguous()
        and own.shape == served.shape
        and served.is_contiguous()
        and served.nbytes == served.untyped_storage().nbytes() > 0
    )
