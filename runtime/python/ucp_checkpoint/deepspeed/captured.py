"""Lets the engine's own save write its files to memory, without names in any file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .stand_in import StandIn, standing_in


class Captured(StandIn):
    """A file is memory (memfd) that is gone with this process, and a link to it where the file would be, which the
    processes of this machine can follow."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: list[int] = []

    def save(self, state_dict: Any, path: str) -> None:
        """As torch.save writes it."""
        try:
            memory = os.memfd_create("ucp-file-of-engine", os.MFD_CLOEXEC)
            self._memory.append(memory)
            os.makedirs(os.path.dirname(path), exist_ok=True)  # The engine makes it where rank 0 is.
            torch.save(state_dict, f"/proc/self/fd/{memory}")
            os.symlink(f"/proc/{os.getpid()}/fd/{memory}", path)
        except Exception as error:
            self.problem = self.problem or error

    def forget(self) -> None:
        """The memory of all files is free then."""
        while self._memory:
            os.close(self._memory.pop())


@contextmanager
def captured(engine: Any) -> Iterator[Captured]:
    """While this lasts, the engine saves to memory; that memory lasts as long."""
    files = Captured()
    try:
        with standing_in(engine, files):
            yield files
    finally:
        files.forget()
