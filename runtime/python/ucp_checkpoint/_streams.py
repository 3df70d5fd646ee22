"""Files from machine to machine: over a gloo group of the ranks that speak for their machines.

A chunk goes from the memory that holds the file into the memory that will hold the copy. Each pair of machines has a
stream in each direction, with two chunks on their way. Both ends know where it is cut.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
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
Move = Callable[[list[torch.Tensor], int, int], Any]


@dataclass(frozen=True)
class Piece:
    """Bytes [begin, end) of a file, which is there with all its bytes, on both sides."""

    path: Path
    begin: int
    end: int


@dataclass(frozen=True)
class Cut:
    """The sizes of the chunks of a stream, in their order; and a function that waits until one may be sent."""

    sizes: Sequence[int] = ()
    wait: Callable[[int], None] = lambda number: None


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

    def exchange(
        self,
        sending: dict[int, list[Piece]],
        receiving: dict[int, list[Piece]],
        cuts: Mapping[int, Cut] | None = None,
        cuts_of_others: Mapping[int, Cut] | None = None,
    ) -> None:
        """By the other machine. Raises RuntimeError when one is gone, after the other streams have ended."""
        problems: list[BaseException] = []

        def carry(other: int, pieces: list[Piece], cut: Cut, move: Move) -> None:
            try:
                _carry(other, pieces, cut, move)
            except Exception as error:
                problems.append(error)

        threads = [
            threading.Thread(target=carry, args=(other, pieces, (of_all or {}).get(other, Cut()), move), daemon=True)
            for streams, of_all, move in (
                (sending, cuts, self._gloo.send),
                (receiving, cuts_of_others, self._gloo.recv),
            )
            for other, pieces in streams.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if problems:
            raise problems[0]

    def seconds_of(self, size: int, to: list[int], of: list[int]) -> float:
        """Of so many bytes to these machines and of these; all machines call it, and begin together."""
        self.all_tell("")
        began = time.monotonic()
        underway = [self._gloo.send([torch.zeros(size, dtype=torch.uint8)], other, _TAG) for other in to]
        underway += [self._gloo.recv([torch.zeros(size, dtype=torch.uint8)], other, _TAG) for other in of]
        for work in underway:
            work.wait()
        return time.monotonic() - began


def _carry(other: int, pieces: list[Piece], cut: Cut, move: Move) -> None:
    underway: deque[tuple[Any, torch.Tensor]] = deque()
    of_file: Piece | None = None
    content = torch.empty(0, dtype=torch.uint8)
    for number, piece, begin, end in ranges_of(pieces, cut.sizes):
        if piece is not of_file:
            of_file = piece
            content = torch.from_file(str(piece.path), shared=True, size=piece.end, dtype=torch.uint8)
        cut.wait(number)
        chunk = content[begin:end]
        underway.append((move([chunk], other, _TAG), chunk))
        if len(underway) == _ON_THEIR_WAY:
            underway.popleft()[0].wait()
    for work, _ in underway:
        work.wait()


def ranges_of(pieces: Sequence[Piece], sizes: Sequence[int]) -> Iterator[tuple[int, Piece, int, int]]:
    """Of the chunks: a number, and where in a file it begins and ends. A chunk that has bytes of several files has a
    range of each. Behind the sizes that are given, chunks have CHUNK_BYTES."""
    given = iter(sizes)
    number, left = 0, next(given, CHUNK_BYTES)
    for piece in pieces:
        begin = piece.begin
        while begin < piece.end:
            end = min(piece.end, begin + left)
            yield number, piece, begin, end
            left, begin = left - (end - begin), end
            if left == 0:
                number, left = number + 1, next(given, CHUNK_BYTES)


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
