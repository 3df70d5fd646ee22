"""The engine's part of `ucp.torch.StorageReader`: boxes of tensors, read into what a planner of PyTorch gives."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ucp_checkpoint import _ucp
from ucp_checkpoint._agree import agree
from ucp_checkpoint._arrays import device_name, settle
from ucp_checkpoint._target import has_memory
from ucp_checkpoint._work import Work

if TYPE_CHECKING:
    from ucp_checkpoint._ranks import Group
    from ucp_checkpoint._served import Stored

_CAST = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # By the engine, with one rounding.


@dataclass
class Wanted:
    """A box of a stored state, and where it goes."""

    stored: Stored
    begin: tuple[int, ...]
    lengths: tuple[int, ...]
    target: torch.Tensor

    @property
    def holds(self) -> list[list[tuple[int, int]]]:
        """The positions of each dimension."""
        return [
            [(first, first + length)] if length > 0 else []
            for first, length in zip(self.begin, self.lengths, strict=True)
        ]

    @property
    def dtype(self) -> torch.dtype:
        """In which the engine delivers it."""
        can_cast = self.stored.dtype in _CAST and self.target.dtype in _CAST
        return self.target.dtype if can_cast else self.stored.dtype


def _is_filled_directly(target: torch.Tensor, dtype: torch.dtype) -> bool:
    if target.dtype is not dtype or target.device.type not in ("cpu", "cuda") or not has_memory(target):
        return False
    return target.is_contiguous() and not target.is_neg() and not target.is_conj()


class Reading:
    """Everything that one rank wants, each part read once: a tensor may have several names in a job."""

    def __init__(self, wanted: list[Wanted]) -> None:
        self._held: list[_ucp.Held] = []
        self._memory: list[torch.Tensor] = []
        self._copies: list[tuple[torch.Tensor, int]] = []
        self._targets = [entry.target for entry in wanted]
        numbers: dict[tuple[Any, ...], int] = {}
        for entry in wanted:
            if entry.target.numel() == 0:
                continue
            stored, dtype = entry.stored, entry.dtype
            key = (stored.tensor, stored.state, entry.begin, entry.lengths, dtype)
            number = numbers.get(key)
            is_direct = number is None and _is_filled_directly(entry.target, dtype)
            if number is None:
                number = numbers[key] = len(self._held)
                name = str(dtype).removeprefix("torch.")
                self._held.append((stored.tensor, stored.state, name, stored.shape, entry.holds, []))
                self._memory.append(entry.target if is_direct else torch.empty(entry.lengths, dtype=dtype))
            if not is_direct:
                self._copies.append((entry.target, number))

    def run(
        self, source: _ucp.Source, verify: bool, work: Work, ranks: Group | None
    ) -> tuple[dict[str, Any], list[str]]:
        """The report of the load, and sentences about it. All ranks of a group call this."""
        in_group = ranks.ranks if ranks is not None else None
        with ranks or nullcontext():
            plan = _ucp.compile_held(source, self._held, False, [], verify, in_group, work.threads, parts=True)
            problem = None
            try:
                places, devices = self._places(plan.records)
                settle(devices.values())
            except _ucp.Error as error:
                problem = error
            agree(ranks, problem)
            report = work.load(plan.load, places, verify, in_group, devices)
        for target, number in self._copies:
            target.copy_(self._memory[number])
        for target in self._targets:
            if not target.is_inference():
                torch.autograd.graph.increment_version(target)
        return report, list(plan.load.remarks)

    def _places(self, records: list[int | None]) -> tuple[list[tuple[int, int, int]], dict[int, str]]:
        places, devices = [], {}
        for memory, record in zip(self._memory, records, strict=True):
            assert record is not None  # Nothing without elements is asked for.
            places.append((record, memory.data_ptr(), memory.nbytes))
            if (device := device_name(memory.device)) is not None:
                devices[record] = device
        return places, devices
