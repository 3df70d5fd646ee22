"""memory_copies.py [--megabytes 128] [--rounds 5] [--write]: copies of versions in memory, and recovery, measured.

Two processes are two machines with a half of a model each (FSDP2), and a folder each in /dev/shm. Prints medians: the
copies beside a bare exchange of as many bytes over gloo, and recovery beside a copy of as many bytes in memory, in turn
in each round. With --write the table goes into docs/memory-tier.md. Run it with the tests' environment and PYTHONPATH
of the built package.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- table of memory_copies.py -->\n", "<!-- end of copies -->\n"
CHUNK = 8 << 20
Times = dict[str, list[float]]


@contextmanager
def timed(owner: Any, name: str, times: list[float]) -> Iterator[None]:
    """Notes how long each call of a method takes."""
    method: Callable[..., Any] = getattr(owner, name)

    def noted(*arguments: Any) -> Any:
        began = time.monotonic()
        done = method(*arguments)
        times.append(time.monotonic() - began)
        return done

    setattr(owner, name, noted)
    yield
    setattr(owner, name, method)


def bare_exchange(rank: int, content: Any, into: Any) -> float:
    """Both send all of it to the other, two chunks on their way in each direction."""
    import torch.distributed as dist

    dist.barrier()
    began = time.monotonic()
    underway: list[Any] = []
    for place in range(0, content.numel(), CHUNK):
        chunk = slice(place, place + CHUNK)
        underway.append((dist.isend(content[chunk], 1 - rank), dist.irecv(into[chunk], 1 - rank)))
        if len(underway) == 2:
            for work in underway.pop(0):
                work.wait()
    for pair in underway:
        for work in pair:
            work.wait()
    return time.monotonic() - began


def half_of_model(megabytes: int) -> Any:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 64 * megabytes, bias=False) for _ in range(8)))
    return fully_shard(model, mesh=init_device_mesh("cpu", (2,)))


def keep_versions(rank: int, model: Any, megabytes: int, rounds: int, how: dict[str, Any]) -> Times:
    import torch

    import ucp_checkpoint as ucp
    from ucp_checkpoint import _streams

    times: Times = {"bare": [], "sent": [], "committed": []}
    content, into = (torch.full((megabytes << 20,), number, dtype=torch.uint8) for number in (rank, 2))
    with timed(_streams.Streams, "exchange", times["sent"]):
        tier = ucp.memory.Tier(model, **how)
        for step in range(rounds + 1):  # The first one maps memory for the first time.
            times["bare"].append(bare_exchange(rank, content, into))
            tier.step(step)
            tier._kept.saving.result()
            began = time.monotonic()
            while not tier._copies.is_settled():
                time.sleep(0.001)
            times["committed"].append(time.monotonic() - began)
        tier.close(keep=True)
    return {name: some[1:] for name, some in times.items()}


def recover(rank: int, model: Any, rounds: int, how: dict[str, Any]) -> Times:
    import torch.distributed as dist

    import ucp_checkpoint as ucp

    times: Times = {"copied": [], "own": [], "peer": []}
    folder = Path(how["directory"])
    for _ in range(rounds):
        for kind in ("own", "peer"):
            dist.barrier()
            if kind == "peer" and rank == 1:
                shutil.rmtree(folder)
            if kind == "own":
                began = time.monotonic()
                shutil.copytree(next(folder.glob(f"bench/parts/*/{rank}-of-2")), folder / "copy")
                times["copied"].append(time.monotonic() - began)
                shutil.rmtree(folder / "copy")
            dist.barrier()
            with timed(ucp.memory.Tier, "_restore", times[kind]):
                ucp.memory.Tier(model, **how).close(keep=True)
    return times


def one(rank: int, root: Path, megabytes: int, rounds: int) -> Times:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{root}/store", rank=rank, world_size=2)
    how = {"job": "bench", "directory": str(root / "ab"[rank]), "machine": "ab"[rank], "every": 1}
    model = half_of_model(megabytes)
    times = keep_versions(rank, model, megabytes, rounds, how)
    return times | recover(rank, model, rounds, how)


def table(times: list[Times], megabytes: int) -> str:
    """Of the slower machine of each round."""
    seconds = {name: median(map(max, zip(*(one[name] for one in times), strict=True))) for name in times[0]}
    rows = [
        ("bare exchange over gloo, both machines at once", "bare", "bare"),
        ("the files of a part to the other machine, and its to here", "sent", "bare"),
        ("from the own part to the commit, digests included", "committed", "bare"),
        ("a copy of a part in memory", "copied", "copied"),
        ("recovery, all parts on both machines", "own", "copied"),
        ("recovery, one machine is new and fetches both parts", "peer", "bare"),
    ]
    lines = [f"| {megabytes} MiB on each of two machines | seconds | against |", "|---|---|---|"]
    for label, name, other in rows:
        unit = "the bare exchange" if other == "bare" else "the copy"
        ratio = "" if name == other else f"{seconds[name] / seconds[other]:.2f} x {unit}"
        lines.append(f"| {label} | {seconds[name]:.3f} | {ratio} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Copies of versions in memory, and recovery.")
    parser.add_argument("--megabytes", type=int, default=128, help="the part of each machine")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write the table into docs")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        times = one(int(options.one[0]), Path(options.one[1]), options.megabytes, options.rounds)
        print("FIGURES " + json.dumps(times), flush=True)
        os._exit(0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        command = [sys.executable, __file__, "--megabytes", str(options.megabytes), "--rounds", str(options.rounds)]
        machines = [
            subprocess.Popen([*command, "--one", str(rank), root], stdout=subprocess.PIPE, text=True) for rank in (0, 1)
        ]
        outputs = [machine.communicate()[0] for machine in machines]
    found = [line for output in outputs for line in output.splitlines() if line.startswith("FIGURES ")]
    made = table([json.loads(line.removeprefix("FIGURES ")) for line in found], options.megabytes)
    print(made, end="")
    if options.write:
        page = DOCS / "memory-tier.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + made + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
