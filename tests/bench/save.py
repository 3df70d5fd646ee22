"""save.py WORK: a training loop with saves in it, by `ucp.Saver` and by what else there is.

Each saver runs in a process of its own, in turn, a number of rounds. There a loop of steps, each of which is some work
of Python and then a pause, as a GPU's work is for the processor, saves its state twice: once to begin with, and once
measured. The state is a dict of tensors that all change at each step, after what the saver needs has been staged.

    call      seconds that the call of save() takes
    staging   seconds that the caller waits for before it may change the state, the call included
    durable   seconds from the call until the checkpoint is complete
    processor seconds of all processes together until then, beyond those of as long a loop without a save
    slow-down seconds by which the steps until then took longer than the median of those without a save

The limit is a copy of all bytes into memory that is mapped already, and one thread that writes and syncs them.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of_tree() -> float:
    """Processor seconds of this process and those that it has started."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            words = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(entry)] = int(words[1])
        seconds[int(entry)] = sum(int(word) for word in words[11:15]) / TICKS
    own, total = os.getpid(), 0.0
    for pid, used in seconds.items():
        above = pid
        while above not in (own, 0, 1):
            above = parents.get(above, 0)
        total += used if above == own else 0
    return total


class Savers:
    """How each saves: a call that returns what waits for staging, and what waits for the end."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state
        self._limit: mmap.mmap | None = None

    def limit(self) -> Callable[[Path], tuple[Callable[[], Any], Callable[[], Any]]]:
        import ctypes
        import threading

        import torch

        size = sum(tensor.nbytes for tensor in self.state.values())
        memory = mmap.mmap(-1, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        segment = torch.frombuffer(memory, dtype=torch.uint8)

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            at = 0
            for tensor in self.state.values():
                ctypes.memmove(segment.data_ptr() + at, tensor.data_ptr(), tensor.nbytes)
                at += tensor.nbytes

            def write() -> None:
                path.mkdir()
                with open(path / "all", "wb", buffering=0) as file:
                    view = memoryview(memory)
                    for begin in range(0, size, 1 << 24):
                        file.write(view[begin : begin + (1 << 24)])
                    os.fsync(file.fileno())

            thread = threading.Thread(target=write)
            thread.start()
            return (lambda: None), thread.join

        return save

    def ucp(self) -> Callable[[Path], tuple[Callable[[], Any], Callable[[], Any]]]:
        import ucp_checkpoint

        saver = ucp_checkpoint.Saver({"model": self.state}, to="dcp", no_dist=True)

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            saving = saver.save(path)
            return saving.staged.result, saving.result

        return save

    def ucp_waves(self) -> Callable[[Path], tuple[Callable[[], Any], Callable[[], Any]]]:
        import ucp_checkpoint

        quarter = sum(tensor.nbytes for tensor in self.state.values()) // 4
        saver = ucp_checkpoint.Saver({"model": self.state}, to="dcp", no_dist=True, staging=quarter)

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            saving = saver.save(path)
            return saving.staged.result, saving.result

        return save

    def ucp_synchronous(self) -> Callable[[Path], tuple[Callable[[], Any], Callable[[], Any]]]:
        import ucp_checkpoint

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            ucp_checkpoint.save({"model": self.state}, path, to="dcp", no_dist=True)
            return (lambda: None), (lambda: None)

        return save

    def dcp_synchronous(self) -> Callable[[Path], tuple[Callable[[], Any], Callable[[], Any]]]:
        import torch.distributed.checkpoint as dcp

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            dcp.save({"model": self.state}, checkpoint_id=path, no_dist=True)
            return (lambda: None), (lambda: None)

        return save

    def torch_save(self) -> Callable[[Path], tuple[Callable[[], Any], Callable[[], Any]]]:
        import torch

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            path.mkdir()
            torch.save({"model": self.state}, path / "all.pt")
            return (lambda: None), (lambda: None)

        return save

    def _asynchronous(self, kind: str, kept: bool, staging: bool, writes: bool = False) -> Any:
        import torch.distributed as dist
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

        import ucp_checkpoint

        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29411"}
        dist.init_process_group("gloo", rank=0, world_size=1)
        options = StagingOptions(
            use_pinned_memory=False, use_shared_memory=True, use_async_staging=staging, use_non_blocking_copy=False
        )
        stager = DefaultStager(options) if kept else None
        how = AsyncCheckpointerType.THREAD if kind == "thread" else AsyncCheckpointerType.PROCESS

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            where = {"storage_writer": ucp_checkpoint.torch.StorageWriter(path)} if writes else {"checkpoint_id": path}
            begun: Any = dcp.async_save(
                {"model": self.state}, **where, async_checkpointer_type=how, async_stager=stager
            )
            if hasattr(begun, "staging_completion"):
                return begun.staging_completion.result, begun.upload_completion.result
            return (lambda: None), begun.result

        return save

    def ucp_in_dcp(self) -> Any:
        return self._asynchronous("thread", kept=True, staging=False, writes=True)

    def ucp_in_dcp_process(self) -> Any:
        return self._asynchronous("process", kept=True, staging=True, writes=True)

    def ucp_in_dcp_synchronous(self) -> Callable[[Path], tuple[Callable[[], Any], Callable[[], Any]]]:
        import torch.distributed.checkpoint as dcp

        import ucp_checkpoint

        def save(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
            dcp.save({"model": self.state}, storage_writer=ucp_checkpoint.torch.StorageWriter(path), no_dist=True)
            return (lambda: None), (lambda: None)

        return save

    def dcp_thread(self) -> Any:
        return self._asynchronous("thread", kept=False, staging=False)

    def dcp_thread_kept(self) -> Any:
        return self._asynchronous("thread", kept=True, staging=False)

    def dcp_process(self) -> Any:
        return self._asynchronous("process", kept=False, staging=False)

    def dcp_process_kept(self) -> Any:
        return self._asynchronous("process", kept=True, staging=True)


NAMES = {
    "limit": "limit",
    "ucp": "ucp.Saver",
    "ucp_waves": "ucp.Saver, memory for a quarter",
    "dcp_thread": "dcp.async_save, thread",
    "dcp_thread_kept": "the same, kept shared stager",
    "dcp_process": "dcp.async_save, process",
    "dcp_process_kept": "the same, kept, asynchronous staging",
    "ucp_in_dcp": "thread, kept, ucp.torch.StorageWriter",
    "ucp_in_dcp_process": "process, kept, the same writer",
    "ucp_synchronous": "ucp.save",
    "ucp_in_dcp_synchronous": "dcp.save, ucp.torch.StorageWriter",
    "dcp_synchronous": "dcp.save",
    "torch_save": "torch.save",
}


def a_step(launches: int = 200, pause: float = 0.1) -> None:
    value = 0
    for number in range(launches * 50):
        value = (value * 31 + number) % 1_000_003
    time.sleep(pause)


def one(name: str, work: Path, tensors: int, size: int) -> dict[str, float]:
    """The figures of one saver, in this process."""
    import torch

    torch.set_num_threads(1)
    state = {f"blocks.{number}.weight": torch.full((size // 4096, 1024), float(number)) for number in range(tensors)}
    save = getattr(Savers(state), name)()

    def run(number: int, plain: float, plain_cpu: float) -> dict[str, float]:
        path = work / f"step-{number}"
        cpu, begin = cpu_of_tree(), time.perf_counter()
        staged, ended = save(path)
        figures = {"call": time.perf_counter() - begin}
        staged()
        figures["staging"] = time.perf_counter() - begin
        for tensor in state.values():  # A step of an optimizer.
            tensor[0, 0] += 1
        import threading

        end: list[float] = []
        waiter = threading.Thread(target=lambda: (ended(), end.append(time.perf_counter())))
        waiter.start()
        steps = []
        while not end:
            at = time.perf_counter()
            a_step()
            steps.append(time.perf_counter() - at)
        waiter.join()
        figures["durable"] = end[0] - begin
        figures["processor"] = cpu_of_tree() - cpu - plain_cpu * len(steps)
        figures["slow-down"] = sum(steps) - plain * len(steps)
        shutil.rmtree(path)
        return figures

    cpu = cpu_of_tree()
    plain = []
    for _ in range(10):
        at = time.perf_counter()
        a_step()
        plain.append(time.perf_counter() - at)
    plain_cpu = (cpu_of_tree() - cpu) / len(plain)
    run(0, statistics.median(plain), plain_cpu)
    return run(1, statistics.median(plain), plain_cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="a folder on the storage to measure; its content is removed")
    parser.add_argument("--tensors", type=int, default=288)
    parser.add_argument("--size", type=int, default=3_750_000 // 4096 * 4096, help="bytes of each (default: 3.75 MB)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--savers", nargs="+", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--engine", type=Path, default=ROOT / "build/engine-venv/bin/python")
    parser.add_argument("--package", type=Path, default=ROOT / "build/release/python")
    parser.add_argument("--one", choices=list(NAMES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print("FIGURES " + json.dumps(one(arguments.one, arguments.work, arguments.tensors, arguments.size)))
        os._exit(0)  # PyTorch's processes need not be waited for.
    arguments.work.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in arguments.savers}
    for _ in range(arguments.rounds):
        for name in arguments.savers:
            command = [str(arguments.engine), __file__, str(arguments.work), "--one", name]
            command += ["--tensors", str(arguments.tensors), "--size", str(arguments.size)]
            environment = {**os.environ, "PYTHONPATH": str(arguments.package), "PYTHONWARNINGS": "ignore"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if line.startswith("FIGURES ")]
            if not lines:
                sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
            found[name].append(json.loads(lines[-1].removeprefix("FIGURES ")))
    keys = ("call", "staging", "durable", "processor", "slow-down")
    size = arguments.tensors * arguments.size / 1e9
    print(f"{arguments.tensors} tensors, {size:.2f} GB, {arguments.work}, medians of {arguments.rounds}, seconds")
    print(f"{'':38}" + "".join(f"{key:>11}" for key in keys) + "   durable of limit")
    limit = statistics.median(one["durable"] for one in found["limit"]) if "limit" in found else float("nan")
    for name, rounds in found.items():
        medians = [statistics.median(one[key] for one in rounds) for key in keys]
        print(f"{NAMES[name]:38}" + "".join(f"{value:11.3f}" for value in medians) + f"{medians[2] / limit:19.2f}")


if __name__ == "__main__":
    main()
