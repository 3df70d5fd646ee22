"""dcp_hugging_face.py MODEL OUT [--ranks N] [--consolidate]: ranks save a model by PyTorch's HuggingFaceStorageWriter.

MODEL is a safetensors file, of which each of N gloo ranks has its rows in memory. They save sharded files to OUT, and
with --consolidate the first rank puts them together, as `enable_consolidation` does: the sharded files are then in
`OUT/sharded`. Prints the seconds from when all ranks are ready to when the last is done.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch
import torch.distributed as dist
from safetensors import safe_open
from torch.distributed import checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard


def rows_of(model: Path, rank: int, ranks: int) -> dict[str, DTensor]:
    """The rows of each tensor that FSDP gives to a rank."""
    mesh = init_device_mesh("cpu", (ranks,))
    held = {}
    with safe_open(model, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118
            part = file.get_slice(name)
            shape = torch.Size(part.get_shape())
            share = -(-shape[0] // ranks)
            begin, end = min(rank * share, shape[0]), min((rank + 1) * share, shape[0])
            stride = tuple(torch.empty(shape, device="meta").stride())
            held[name] = DTensor.from_local(
                part[begin:end].clone(), mesh, [Shard(0)], run_check=False, shape=shape, stride=stride
            )
    return held


def live(rank: int, arguments: argparse.Namespace, store: str) -> None:
    """The life of a rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}/store", rank=rank, world_size=arguments.ranks)
    held = rows_of(arguments.model, rank, arguments.ranks)
    writer = dcp.HuggingFaceStorageWriter(
        str(arguments.out),
        fqn_to_index_mapping=dict.fromkeys(held, 1),
        save_distributed=True,
        enable_consolidation=arguments.consolidate,
        thread_count_consolidation=len(os.sched_getaffinity(0)),
    )
    dist.barrier()
    begin = time.perf_counter()
    dcp.save(held, storage_writer=writer)
    dist.barrier()
    if rank == 0:
        print(time.perf_counter() - begin, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--consolidate", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        children = []
        for rank in range(arguments.ranks):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    live(rank, arguments, store)
                    status = 0
                except BaseException:  # A fork must not return into its parent's code.
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            children.append(child)
        if any([os.waitpid(child, 0)[1] for child in children]):
            sys.exit("a rank failed")


if __name__ == "__main__":
    main()
