"""dcp_reshard.py --work FOLDER: loads of a Distributed Checkpoint into a job of as many ranks, cut otherwise.

Ranks of gloo save float32 weights as rows (dimension 0) with `dcp.save`, and load them as rows and as columns: with
`ucp.load_into`, with `dcp.load` and PyTorch's FileSystemReader, and with `dcp.load` and `ucp.torch.StorageReader`. Each
round runs every way once, in an order that moves on, from page cache into memory that is there and touched. Printed
are the median time of the slowest rank, the median of the rounds' own ratios to `ucp.load_into`, and the bytes that all
ranks together asked the system for, as parts of the bytes of the weights.

The package is that of the build, or the one of --package.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WAYS = ("ucp.load_into", "dcp.load", "dcp.load, ucp's reader")


def bytes_asked_for() -> int:
    """By this process, of the system."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(dict(line.split(": ") for line in file)["rchar"])


def timed(load: Callable[[], object]) -> tuple[float, int]:
    """From when all ranks begin until all have ended; and the bytes of this rank."""
    import torch.distributed as dist

    dist.barrier()
    asked, start = bytes_asked_for(), time.perf_counter()
    load()
    dist.barrier()
    return time.perf_counter() - start, bytes_asked_for() - asked


def rank_of_job(options: argparse.Namespace) -> None:
    """One rank; the first one writes what it measured."""
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{options.store}", rank=options.rank, world_size=options.ranks)
    mesh = init_device_mesh("cpu", (options.ranks,))
    rows, columns = options.shape

    def tensors(dim: int, value: float) -> dict[str, Any]:
        local = [rows, columns]
        local[dim] //= options.ranks
        parts = {f"layers.{i}.weight": torch.full(local, value) for i in range(options.tensors)}
        return {name: DTensor.from_local(part, mesh, [Shard(dim)]) for name, part in parts.items()}

    folder = options.work / f"rows_{options.ranks}"
    dcp.save(tensors(0, float(options.rank)), storage_writer=dcp.FileSystemWriter(folder, sync_files=False))
    import ucp_checkpoint as ucp

    found: dict[str, dict[str, list[tuple[float, int]]]] = {}
    for dim, name in enumerate(("rows to rows", "rows to columns")):
        into = tensors(dim, -1.0)
        ways = {
            WAYS[0]: lambda into=into: ucp.load_into(into, folder),
            WAYS[1]: lambda into=into: dcp.load(into, storage_reader=dcp.FileSystemReader(folder)),
            WAYS[2]: lambda into=into: dcp.load(into, storage_reader=ucp.torch.StorageReader(folder)),
        }
        found[name] = {way: [] for way in WAYS}
        for round_ in range(options.rounds):
            for place in range(len(WAYS)):
                way = WAYS[(place + round_) % len(WAYS)]
                seconds, asked = timed(ways[way])
                counted: list[Any] = [None] * options.ranks
                dist.all_gather_object(counted, asked)
                found[name][way].append((seconds, sum(counted)))
    if options.rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    os._exit(0)


def report(found: dict[str, dict[str, list[tuple[float, int]]]], size: int) -> None:
    for kind, ways in found.items():
        print(f"  {kind}:")
        own = [seconds for seconds, _ in ways[WAYS[0]]]
        for way, runs in ways.items():
            ratio = statistics.median(seconds / ours for (seconds, _), ours in zip(runs, own, strict=True))
            asked = statistics.median(asked for _, asked in runs) / size
            seconds = statistics.median(seconds for seconds, _ in runs)
            print(f"    {way:<24} {seconds:>8.3f} s  {ratio:>6.2f} x   {asked:.2f} of the bytes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--shape", type=int, nargs=2, default=[4096, 4096])
    parser.add_argument("--tensors", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--package", type=Path, default=ROOT / "build" / "release" / "python")
    parser.add_argument("--ranks", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks > 0:
        rank_of_job(options)
    options.work.mkdir(parents=True, exist_ok=True)
    size = 4 * options.tensors * options.shape[0] * options.shape[1]
    for ranks in (2, 4):
        store = options.work / "store"
        store.unlink(missing_ok=True)
        command = [sys.executable, __file__, *sys.argv[1:], "--ranks", str(ranks), "--store", str(store)]
        environment = os.environ | {"PYTHONPATH": str(options.package), "OMP_NUM_THREADS": "1"}
        processes = [
            subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True, env=environment)
            for rank in range(ranks)
        ]
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            sys.exit(1)
        print(f"{ranks} ranks, {size / 2**20:.0f} MiB:", flush=True)
        report(json.loads(outputs[0].splitlines()[-1]), size)


if __name__ == "__main__":
    main()
