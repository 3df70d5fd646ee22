"""A job of several processes with a gloo group that are forks of this one, and so begin at once.

For work that does not compute gradients. The result of each process comes back as JSON.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

SECONDS = 60.0


def run(work: Callable[..., Any], ranks: int, folder: Path, **arguments: Any) -> list[Any]:
    """The result of each rank; nothing for one that was killed. None may hang or fail."""
    processes = []
    for rank in range(ranks):
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reading)
            _be(work, rank, ranks, folder, writing, arguments)
        os.close(writing)
        processes.append((process, reading))
    end = time.monotonic() + SECONDS
    told = [_told(reading, end) for _, reading in processes]
    for process, _ in processes:
        os.kill(process, signal.SIGKILL)  # It has ended, or hangs.
        os.waitpid(process, 0)
    for rank, text in enumerate(told):
        assert text is not None, f"rank {rank} hangs"
        assert not text.startswith("Traceback"), text
    return [json.loads(text) if text else None for text in told]


def _told(reading: int, end: float) -> str | None:
    """All that a process writes until it ends; nothing if it hangs."""
    text = b""
    try:
        while select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
            piece = os.read(reading, 1 << 16)
            text += piece
            if not piece:
                return text.decode()
        return None
    finally:
        os.close(reading)


def _be(
    work: Callable[..., Any], rank: int, ranks: int, folder: Path, writing: int, arguments: dict[str, Any]
) -> NoReturn:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
        text = json.dumps(work(rank, **arguments))
    except BaseException:
        text = traceback.format_exc()
    os.write(writing, text.encode())
    os._exit(0)  # A group that has lost a rank cannot be taken down.
