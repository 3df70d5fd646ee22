"""Lets the engine's own save write its files to memory, without names in any file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from deepspeed.runtime.checkpoint_engine.checkpoint_engine import CheckpointEngine


class Captured(CheckpointEngine):  # type: ignore[misc]  # DeepSpeed has no types.
    """Stands in for the engine's checkpoint engine. A file is memory (memfd) that is gone with this process, and a link
    to it where the file would be, which the processes of this machine can follow."""

    def __init__(self) -> None:
        super().__init__()
        self._memory: list[int] = []
        self.problem: Exception | None = None  # The first. The engine goes on, since others wait in its collectives.

    def create(self, info: Any) -> None:
        """Nothing: the folder is there."""

    def save(self, state_dict: Any, path: str) -> None:
        """As torch.save writes it."""
        try:
            memory = os.memfd_create("ucp-file-of-engine", os.MFD_CLOEXEC)
            self._memory.append(memory)
            torch.save(state_dict, f"/proc/self/fd/{memory}")
            os.symlink(f"/proc/{os.getpid()}/fd/{memory}", path)
        except Exception as error:
            self.problem = self.problem or error

    def load(self, path: str, map_location: Any = None) -> Any:
        """Not while the engine saves."""
        raise NotImplementedError

    def commit(self, info: Any) -> bool:
        """Nothing: what counts is the folder that is made of these files."""
        return True

    def forget(self) -> None:
        """The memory of all files is free then."""
        while self._memory:
            os.close(self._memory.pop())


@contextmanager
def captured(engine: Any) -> Iterator[Captured]:
    """While this lasts, the engine saves to memory; that memory lasts as long."""
    own, files = engine.checkpoint_engine, Captured()
    engine.checkpoint_engine = files
    engine._copy_recovery_script = lambda _: None
    try:
        yield files
    finally:
        engine.checkpoint_engine = own
        del engine._copy_recovery_script
        files.forget()
