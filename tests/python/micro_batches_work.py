"""The ranks of tests/python/test_micro_batches.py: replicas, of which some end while a global batch is computed.

`python micro_batches_work.py FOLDER CASES` runs each case in processes of its own, which share no memory. A case is
`{"ranks", "batch", "iterations", "dies": {rank: [iteration, "compute" or "reduce", count, "before" or "after"]}}`.
With `"stops": {rank: …}` that rank is stopped in the same way, and the others end as a program does: by themselves.
With `"misses": {rank: [iteration, count]}` that rank has no result of a message that others have got, as it happens
when a rank ends while it is under way.
Each rank that is left writes the gradients of each iteration to FOLDER/CASE-RANK-ITERATION.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # DistributedDataParallel imports it, in each process anew.
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ucp_checkpoint as ucp
from ucp_checkpoint import _micro_batches

WIDTH = 6
TOGETHER = 10
PATIENCE = 20


def model_of(kind: torch.dtype) -> torch.nn.Module:
    """Three layers, whose weights are small whole numbers."""
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))).to(kind)
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            numbers = torch.arange(parameter.numel(), dtype=kind).remainder(3 + place) - 1
            parameter.copy_(numbers.view_as(parameter))
    return model


def samples_of(index: int, iteration: int, kind: torch.dtype, is_whole: bool) -> torch.Tensor:
    """Of a micro-batch."""
    generator = torch.Generator().manual_seed(1000 * iteration + index)
    if is_whole:
        return torch.randint(-3, 4, (2, WIDTH), generator=generator).to(kind)
    return torch.randn(2, WIDTH, generator=generator, dtype=kind)


def kind_of(case: dict[str, Any]) -> torch.dtype:
    """Whole numbers are exact in float32."""
    return torch.float32 if case.get("whole", True) else torch.float64


class Death:
    """Ends or stops this process, or has it miss a message, at a call of a kind, which it counts."""

    def __init__(self, case: dict[str, Any], rank: str) -> None:
        self.dies, self.stops = case["dies"].get(rank), case.get("stops", {}).get(rank)
        self.missed = case.get("misses", {}).get(rank)
        self.iteration, self.counts = 0, {"compute": 0, "reduce": 0}

    def at(self, kind: str, side: str) -> None:
        """`before` or `after` the call."""
        now = [self.iteration, kind, self.counts[kind], side]
        if now in (self.dies, self.stops):
            os.kill(os.getpid(), signal.SIGKILL if now == self.dies else signal.SIGSTOP)
        is_missed = (kind, side, self.missed) == ("reduce", "after", [self.iteration, self.counts[kind]])
        self.counts[kind] += side == "after"
        if is_missed:
            raise _micro_batches._Lost

    def begin(self, iteration: int) -> None:
        """Counts anew."""
        self.iteration, self.counts = iteration, {"compute": 0, "reduce": 0}


def work(case: dict[str, Any], rank: int, port: int, folder: Path, name: str) -> None:
    """One rank of a case."""
    store = dist.TCPStore("127.0.0.1", port, None, False, timedelta(seconds=60))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=case["ranks"])
    _micro_batches._SEGMENT_BYTES = 150  # A segment for each parameter.
    death = Death(case, str(rank))
    carry_out = ucp.healing.MicroBatches._carry_out

    def counted(self: Any, *words: Any) -> None:
        death.at("reduce", "before")
        carry_out(self, *words)
        death.at("reduce", "after")

    ucp.healing.MicroBatches._carry_out = counted  # type: ignore[method-assign]
    model = DistributedDataParallel(model_of(kind_of(case)))
    batches = ucp.healing.MicroBatches(case["batch"], patience=PATIENCE)
    if case.get("anew"):  # The store still has what the ranks said of the first one.
        batches = ucp.healing.MicroBatches(case["batch"], patience=PATIENCE)
    for iteration in range(case["iterations"]):
        death.begin(iteration)

        def compute(index: int, iteration: int = iteration) -> None:
            death.at("compute", "before")
            with model.no_sync():
                model(samples_of(index, iteration, kind_of(case), case.get("whole", True))).sum().backward()
            death.at("compute", "after")

        batches.run(model.parameters(), compute)
        torch.save([parameter.grad for parameter in model.parameters()], folder / f"{name}-{rank}-{iteration}")
    (folder / f"{name}-{rank}-ranks").write_text(json.dumps(batches.ranks))


def start(folder: Path, name: str, case: dict[str, Any], listeners: list[socket.socket]) -> list[int]:
    """The processes of a case. A listener is added, which is to be that of its store."""
    listeners.append(socket.create_server(("127.0.0.1", 0)))
    port = int(listeners[-1].getsockname()[1])
    processes = []
    for rank in range(case["ranks"]):
        pid = os.fork()
        if pid == 0:
            try:
                work(case, rank, port, folder, name)
            except BaseException:
                (folder / f"{name}-{rank}-error").write_text(traceback.format_exc())
            if "stops" in case:
                sys.exit()
            os._exit(0)
        processes.append(pid)
    return processes


def serve(listener: socket.socket) -> Any:
    """The store of a case. It has a thread, and so is made behind all forks."""
    port = listener.getsockname()[1]
    return dist.TCPStore("127.0.0.1", port, None, True, timedelta(seconds=60), wait_for_workers=False,
                         master_listen_fd=listener.detach())  # fmt: skip


def wait(processes: list[int], listeners: list[socket.socket]) -> None:
    """Until all have ended, by themselves or not. Those that are stopped are killed behind the others."""
    stores = [serve(listener) for listener in listeners]
    stopped = [pid for pid in processes if os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])]
    for pid in stopped:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    del stores


def main() -> None:
    """All cases, a few at a time: most of the time they wait for a rank that is lost."""
    folder, cases = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    names = list(cases)
    for first in range(0, len(names), TOGETHER):
        listeners: list[socket.socket] = []
        some = [start(folder, name, cases[name], listeners) for name in names[first : first + TOGETHER]]
        wait([pid for processes in some for pid in processes], listeners)


if __name__ == "__main__":
    main()
