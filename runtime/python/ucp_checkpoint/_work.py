"""How much of the machine a load takes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ucp_checkpoint import _arguments, _ucp
from ucp_checkpoint._failure import failure

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS |= {f"{_letter}b": 1000**_power, f"{_letter}ib": 1024**_power}


@dataclass(frozen=True)
class Work:
    """The threads and the memory that a load may use."""

    threads: int
    memory_bytes: int
    device_memory_bytes: int

    def load(
        self,
        plan: _ucp.LoadPlan,
        memory: list[tuple[int, int, int]],
        verify: bool,
        ranks: _ucp.Ranks | None,
        devices: Mapping[int, str],
    ) -> dict[str, Any]:
        """As `_ucp.load`."""
        how = (self.threads, self.memory_bytes, verify, ranks)
        return _ucp.load(plan, memory, *how, devices, self.device_memory_bytes)


def byte_count(memory: int | str, name: str = "memory") -> int:
    """A number of bytes, or a text such as "256MiB" or "4GB"."""
    number = memory if isinstance(memory, int) and not isinstance(memory, bool) else 0
    if isinstance(memory, str):
        match = re.fullmatch(r"(\d{1,19})\s*([a-z]*)", memory.lower())
        number = int(match[1]) * _UNITS.get(match[2], 0) if match is not None else 0
    if not 0 < number < 2**63:
        raise failure(
            "usage",
            f'{name} takes a number of bytes or a size such as "256MiB" or "4GB", not {_arguments.shown(memory)}',
        )
    return number


def thread_count(threads: int | None) -> int:
    """By default one for each processor this process may use, shared with the job's other processes on this machine."""
    if threads is None:
        processors = len(os.sched_getaffinity(0))
        here = os.environ.get("LOCAL_WORLD_SIZE", "1")
        return max(1, processors // max(1, int(here) if here.isdigit() else 1))
    return _arguments.whole("threads", threads, 1, 256)
