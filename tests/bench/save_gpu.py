"""save_gpu.py WORK: a state in a GPU's memory, saved by `ucp.Saver` and by what else there is, beside a training loop.

The state has the shapes of a Llama's layers with hidden 4096: weights in bfloat16, and masters and two moments in
float32, as many layers as `--gigabytes` allows. Each way runs in a process of its own, in turn, a number of rounds;
there it saves twice, and the second save is measured. Between the call and the end of a save the GPU multiplies
matrices in steps of some milliseconds.

    made      seconds to make the saver, once: memory is taken and pinned
    call      seconds that the call of save() takes
    staged    seconds from the call until the state may change
    GB/s      bytes of the state by the time until staged
    ceiling   the same rate, of that of plain copies to pinned memory in the same process
    durable   seconds from the call until the checkpoint is complete
    steps     the median of a step while the state is staged, of that of a step alone

One copy into fresh pinned memory by one process and its rate are printed as `pin`. It needs a GPU; `--device cpu`
tries the script.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LAYER = {"q": (4096, 4096), "k": (1024, 4096), "v": (1024, 4096), "o": (4096, 4096), "gate": (14336, 4096),
         "up": (14336, 4096), "down": (4096, 14336), "norm_in": (4096,), "norm_out": (4096,)}  # fmt: skip
TINY = {"q": (64, 64), "norm": (64,)}
Ends = tuple[Callable[[], Any], Callable[[], Any]]


def state_of(gigabytes: float, device: str) -> dict[str, Any]:
    import torch

    shapes = LAYER if gigabytes > 1 else TINY
    state: dict[str, Any] = {}
    size = 0
    for layer in range(1000):
        for name, shape in shapes.items():
            for kind, dtype in (("weight", torch.bfloat16), ("master", torch.float32), ("exp_avg", torch.float32),
                                ("exp_avg_sq", torch.float32)):  # fmt: skip
                state[f"{kind}.{layer}.{name}"] = torch.randn(shape, device=device).to(dtype)
                size += state[f"{kind}.{layer}.{name}"].nbytes
        if size * (layer + 2) / (layer + 1) > gigabytes * 1e9:
            break
    return state


class Savers:
    """How each saves: a call that returns what waits for staging, and what waits for the end."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def ucp(self, **settings: Any) -> Callable[[Path], Ends]:
        import ucp_checkpoint

        saver = ucp_checkpoint.Saver({"model": self.state}, to="dcp", no_dist=True, **settings)

        def save(path: Path) -> Ends:
            saving = saver.save(path)
            return saving.staged.result, saving.result

        return save

    def ucp_half_bus(self) -> Callable[[Path], Ends]:
        return self.ucp(bus_share=0.5)

    def ucp_at_once(self) -> Callable[[Path], Ends]:
        import ucp_checkpoint

        def save(path: Path) -> Ends:
            ucp_checkpoint.save({"model": self.state}, path, to="dcp", no_dist=True)
            return (lambda: None), (lambda: None)

        return save

    def dcp_at_once(self) -> Callable[[Path], Ends]:
        import torch.distributed.checkpoint as dcp

        def save(path: Path) -> Ends:
            dcp.save({"model": self.state}, checkpoint_id=path, no_dist=True)
            return (lambda: None), (lambda: None)

        return save

    def _asynchronous(self, kind: str, pinned: bool) -> Callable[[Path], Ends]:
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29412"}
        dist.init_process_group("gloo", rank=0, world_size=1)
        options = StagingOptions(
            use_pinned_memory=pinned, use_shared_memory=True, use_async_staging=pinned, use_non_blocking_copy=pinned
        )
        how = AsyncCheckpointerType.THREAD if kind == "thread" else AsyncCheckpointerType.PROCESS
        stager = DefaultStager(options) if pinned else None

        def save(path: Path) -> Ends:
            begun: Any = dcp.async_save(
                {"model": self.state}, checkpoint_id=path, async_checkpointer_type=how, async_stager=stager
            )
            if hasattr(begun, "staging_completion"):
                return begun.staging_completion.result, begun.upload_completion.result
            return (lambda: None), begun.result

        return save

    def dcp_thread(self) -> Callable[[Path], Ends]:
        return self._asynchronous("thread", pinned=False)

    def dcp_thread_pinned(self) -> Callable[[Path], Ends]:
        return self._asynchronous("thread", pinned=True)

    def dcp_process_pinned(self) -> Callable[[Path], Ends]:
        return self._asynchronous("process", pinned=True)


NAMES = {
    "ucp": "ucp.Saver",
    "ucp_half_bus": "ucp.Saver, bus_share=0.5",
    "ucp_at_once": "ucp.save",
    "dcp_thread": "dcp.async_save, thread",
    "dcp_thread_pinned": "the same, kept pinned stager",
    "dcp_process_pinned": "process, kept pinned stager",
    "dcp_at_once": "dcp.save",
}


class Steps:
    """A loop of products of matrices on a thread: how long each took, and when."""

    def __init__(self, device: str) -> None:
        import torch

        size = 8192 if device != "cpu" else 64
        self._matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)
        self._event = torch.cuda.Event(blocking=True) if device != "cpu" else None
        self._ends = False
        self.times: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        import torch

        while not self._ends:
            begin = time.perf_counter()
            for _ in range(4):
                torch.mm(self._matrix, self._matrix)
            if self._event is not None:
                self._event.record()
                self._event.synchronize()
            self.times.append((begin, time.perf_counter() - begin))

    def __enter__(self) -> Steps:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self._thread.join()

    def median(self, begin: float = 0, end: float = 1e18) -> float:
        return statistics.median([took for at, took in self.times if begin <= at < end] or [float("nan")])


def settle(device: str) -> None:
    import torch

    if device != "cpu":
        torch.cuda.synchronize()


def ceiling_of(state: dict[str, Any], device: str) -> tuple[float, float]:
    """Seconds in which all bytes come to pinned memory, and the rate at which memory is pinned."""
    import torch

    largest = max(state.values(), key=lambda tensor: tensor.nbytes).reshape(-1).view(torch.uint8)
    begin = time.perf_counter()
    pinned = torch.empty(largest.nbytes, dtype=torch.uint8, pin_memory=device != "cpu")
    pin_rate = largest.nbytes / (time.perf_counter() - begin)
    times = []
    for _ in range(5):
        settle(device)
        begin = time.perf_counter()
        for _ in range(8):
            pinned.copy_(largest, non_blocking=True)
        settle(device)
        times.append((time.perf_counter() - begin) / 8 / largest.nbytes)
    return min(times) * sum(tensor.nbytes for tensor in state.values()), pin_rate


def check(path: Path, state: dict[str, Any]) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    names = list(state)[:40] + list(state)[-5:]
    found = {"model": {name: torch.zeros_like(state[name], device="cpu") for name in names}}
    dcp.load(found, checkpoint_id=path, no_dist=True)
    for name in names:
        assert torch.equal(found["model"][name], state[name].cpu()), name


def one(name: str, work: Path, gigabytes: float, device: str) -> dict[str, float]:
    """The figures of one way, in this process."""
    state = state_of(gigabytes, device)
    size = sum(tensor.nbytes for tensor in state.values())
    ceiling, pin_rate = ceiling_of(state, device)
    begin = time.perf_counter()
    save = getattr(Savers(state), name)()
    figures = {"made": time.perf_counter() - begin, "bytes": size, "tensors": len(state), "pin_rate": pin_rate}
    figures["ceiling_rate"] = size / ceiling
    for number in range(2):
        path = work / f"step-{number}"
        settle(device)
        with Steps(device) as steps:
            time.sleep(0.3)
            begin = time.perf_counter()
            staged, ended = save(path)
            figures["call"] = time.perf_counter() - begin
            staged()
            figures["staged"] = time.perf_counter() - begin
            ended()
            figures["durable"] = time.perf_counter() - begin
        at_staged = begin + figures["staged"]
        figures["steps"] = steps.median(begin, at_staged) / steps.median(0, begin)
        figures["rate"] = size / figures["staged"]
        figures["of_ceiling"] = ceiling / figures["staged"]
        if number == 0:
            check(path, state)
        shutil.rmtree(path)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="a folder on the storage to measure")
    parser.add_argument("--gigabytes", type=float, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--savers", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--package", type=Path, default=ROOT / "build/release/python")
    parser.add_argument("--one", choices=list(NAMES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        found = one(arguments.one, arguments.work, arguments.gigabytes, arguments.device)
        print("FIGURES " + json.dumps(found), flush=True)
        os._exit(0)  # PyTorch's processes need not be waited for.
    arguments.work.mkdir(parents=True, exist_ok=True)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in arguments.savers}
    for _ in range(arguments.rounds):
        for name in arguments.savers:
            command = [arguments.python, __file__, str(arguments.work), "--one", name, "--device", arguments.device]
            command += ["--gigabytes", str(arguments.gigabytes)]
            environment = {**os.environ, "PYTHONPATH": str(arguments.package), "PYTHONWARNINGS": "ignore"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if line.startswith("FIGURES ")]
            if lines:
                rounds[name].append(json.loads(lines[-1].removeprefix("FIGURES ")))
                print(name, {key: round(value, 4) for key, value in rounds[name][-1].items()}, file=sys.stderr)
            else:
                print(f"{name} failed: {done.stderr.strip()[-2000:]}", file=sys.stderr)
    every = [figures for of_name in rounds.values() for figures in of_name]
    if not every:
        sys.exit(1)
    middle = {key: statistics.median(figures[key] for figures in every) for key in ("ceiling_rate", "pin_rate")}
    print(f"{every[0]['tensors']:.0f} tensors, {every[0]['bytes'] / 1e9:.2f} GB, {arguments.work}, medians of "
          f"{arguments.rounds}; to pinned memory {middle['ceiling_rate'] / 1e9:.1f} GB/s; memory is pinned at "
          f"{middle['pin_rate'] / 1e9:.1f} GB/s")  # fmt: skip
    keys = ("made", "call", "staged", "rate", "of_ceiling", "durable", "steps")
    titles = ("made", "call", "staged", "GB/s", "ceiling", "durable", "steps")
    print(f"{'':30}" + "".join(f"{title:>11}" for title in titles))
    for name, of_name in rounds.items():
        if not of_name:
            continue
        medians = {key: statistics.median(figures[key] for figures in of_name) for key in keys}
        medians["rate"] /= 1e9
        print(f"{NAMES[name]:30}" + "".join(f"{medians[key]:11.4f}" for key in keys))


if __name__ == "__main__":
    main()
