"""load_peer.py WAY PATH: how others load, followed by a copy of every tensor into memory that is there and touched.

WAY is `safetensors` (safe_open on each file of a folder), `safetensors-gpu` (the same onto a device, which is a third
argument, and which makes the tensors itself), `torch` (torch.load(mmap=True) of a file) or `dcp`
(torch.distributed.checkpoint.load, which fills the tensors that it is given). Prints how many seconds loading took.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

Tensors = dict[str, torch.Tensor]


def touched_like(tensors: Tensors) -> Tensors:
    """What is to be filled."""
    return {name: torch.full(tensor.shape, 1, dtype=tensor.dtype) for name, tensor in tensors.items()}


def with_safetensors(folder: Path) -> tuple[Tensors, Callable[[Tensors], None]]:
    from safetensors import safe_open

    paths = sorted(folder.glob("*.safetensors"))

    def each(visit: Callable[[str, torch.Tensor], None]) -> None:
        for path in paths:
            with safe_open(path, framework="pt") as file:
                names = file.keys()
                for name in names:
                    visit(name, file.get_tensor(name))

    wanted: Tensors = {}
    each(lambda name, tensor: wanted.update({name: torch.full(tensor.shape, 1, dtype=tensor.dtype)}))

    def load(into: Tensors) -> None:
        each(lambda name, tensor: into[name].copy_(tensor))

    return wanted, load


def with_torch(path: Path) -> tuple[Tensors, Callable[[Tensors], None]]:
    wanted = touched_like(torch.load(path, mmap=True))

    def load(into: Tensors) -> None:
        for name, tensor in torch.load(path, mmap=True).items():
            into[name].copy_(tensor)

    return wanted, load


def with_dcp(folder: Path) -> tuple[Tensors, Callable[[Tensors], None]]:
    import torch.distributed.checkpoint as dcp

    entries = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    wanted = {name: torch.full(tuple(entry.size), 1, dtype=entry.properties.dtype) for name, entry in entries.items()}

    def load(into: Tensors) -> None:
        dcp.load(into, storage_reader=dcp.FileSystemReader(folder), no_dist=True)

    return wanted, load


def onto_gpu(folder: Path) -> tuple[Tensors, Callable[[Tensors], None]]:
    from safetensors import safe_open

    device = sys.argv[3]
    torch.empty(1, device=device)  # What is slow once only.

    def load(into: Tensors) -> None:
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="pt", device=device) as file:
                names = file.keys()
                for name in names:
                    into[name] = file.get_tensor(name)
        torch.cuda.synchronize(device)

    return {}, load


WAYS = {"safetensors": with_safetensors, "safetensors-gpu": onto_gpu, "torch": with_torch, "dcp": with_dcp}


def main() -> None:
    wanted, load = WAYS[sys.argv[1]](Path(sys.argv[2]))
    begin = time.perf_counter()
    load(wanted)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
