"""Files from machine to machine: over a gloo group of the ranks that speak for their machines.

A chunk goes from the memory that holds the file into the memory that will hold the copy. Each pair of machines has a
stream in each direction, with two chunks on their way.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore

from ucp_checkpoint._machines import Machines

CHUNK_BYTES = 8 << 20
_ON_THEIR_WAY = 2
_TAG = 20_230_000


@dataclass(frozen=True)
class Piece:
    """Bytes [begin, end) of a file, which is there with all its bytes, on both sides."""

    path: Path
    begin: int
    end: int


class Streams:
    """One object for each group of machines; its calls are made by one thread, on all machines alike."""

    def __init__(self, machines: Machines, purpose: str) -> None:
        """Meets the others, which gives the same purpose. Raises RuntimeError when one does not come."""
        store = PrefixStore(f"ucp/tier/{purpose}", machines.store())
        patience = timedelta(seconds=machines.timeout)
        self.mine, self.count = machines.mine, machines.count
        self._gloo: Any = dist.ProcessGroupGloo(store, self.mine, self.count, patience)

    def all_tell(self, mine: Any) -> list[Any]:
        """The word of each machine, by number. Raises RuntimeError when one is gone."""
        text = torch.frombuffer(bytearray(json.dumps(mine).encode()), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        self._gloo.allgather([sizes], [torch.tensor([text.numel()])]).wait()
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: text.numel()] = text
        all_texts = [torch.empty(longest, dtype=torch.uint8) for _ in range(self.count)]
        self._gloo.allgather([all_texts], [padded]).wait()
        return [json.loads(one[: int(size)].numpy().tobytes()) for one, size in zip(all_texts, sizes, strict=True)]

    def exchange(self, sending: dict[int, list[Piece]], receiving: dict[int, list[Piece]]) -> None:
        """By the other machine. Raises RuntimeError when one is gone, after the other streams have ended."""
        problems: list[BaseException] = []

        def carry(other: int, pieces: list[Piece], move: Callable[[list[torch.Tensor], int, int], Any]) -> None:
            try:
                _carry(other, pieces, move)
            except Exception as error:
                problems.append(error)

        threads = [
            threading.Thread(target=carry, args=(other, pieces, move), daemon=True)
            for streams, move in ((sending, self._gloo.send), (receiving, self._gloo.recv))
            for other, pieces in streams.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]


def _carry(other: int, pieces: list[Piece], move: Callable[[list[torch.Tensor], int, int], Any]) -> None:
    underway: deque[tuple[Any, torch.Tensor]] = deque()
    for piece in pieces:
        if piece.begin == piece.end:
            continue
        content = torch.from_file(str(piece.path), shared=True, size=piece.end, dtype=torch.uint8)
        for begin in range(piece.begin, piece.end, CHUNK_BYTES):
            chunk = content[begin : min(piece.end, begin + CHUNK_BYTES)]
            underway.append((move([chunk], other, _TAG), chunk))
            if len(underway) == _ON_THEIR_WAY:
                underway.popleft()[0].wait()
    for work, _ in underway:
        work.wait()


def reserve(path: Path, size: int) -> None:
    """All of a file's memory, so that a lack of it is an error here and no signal later (M7)."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if size > 0:
            os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)
