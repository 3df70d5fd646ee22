"""load_peer.py WAY PATH [--fresh] [--dtype DTYPE]: a load in Python, into memory that is there and touched.

WAY is `ucp` (ucp.load_into, of a folder; `ucp-verify` with verify=True), or what others load with, followed by a copy
of every tensor: `safetensors` (safe_open on each file of a folder), `torch` (torch.load(mmap=True) of a file) or `dcp`
(torch.distributed.checkpoint.load, which fills the tensors that it is given). With --fresh nothing has touched the
memory before, and its pages come with the load. With --dtype every tensor is cast to it. Prints how many seconds
loading took, and how many of the processors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

Tensors = dict[str, torch.Tensor]
Shapes = dict[str, tuple[torch.Size, torch.dtype]]


def shapes_of(tensors: Tensors) -> Shapes:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def visit_safetensors(folder: Path, visit: Callable[[str, torch.Tensor], None]) -> None:
    from safetensors import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            for name in names:
                visit(name, file.get_tensor(name))


def in_folder(folder: Path) -> Shapes:
    found: Shapes = {}
    visit_safetensors(folder, lambda name, tensor: found.update({name: (tensor.shape, tensor.dtype)}))
    return found


def with_ucp(folder: Path, into: Tensors, verify: bool = False) -> None:
    import ucp_checkpoint as ucp

    ucp.load_into(into, folder, verify=verify)


def with_safetensors(folder: Path, into: Tensors) -> None:
    def copy(name: str, tensor: torch.Tensor) -> None:
        into[name].copy_(tensor)

    visit_safetensors(folder, copy)


def with_torch(path: Path, into: Tensors) -> None:
    for name, tensor in torch.load(path, mmap=True).items():
        into[name].copy_(tensor)


def in_dcp(folder: Path) -> Shapes:
    import torch.distributed.checkpoint as dcp

    entries = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    return {name: (torch.Size(entry.size), entry.properties.dtype) for name, entry in entries.items()}


def with_dcp(folder: Path, into: Tensors) -> None:
    import torch.distributed.checkpoint as dcp

    dcp.load(into, storage_reader=dcp.FileSystemReader(folder), no_dist=True)


WAYS: dict[str, tuple[Callable[[Path], Shapes], Callable[[Path, Tensors], None]]] = {
    "ucp": (in_folder, with_ucp),
    "ucp-verify": (in_folder, lambda folder, into: with_ucp(folder, into, verify=True)),
    "safetensors": (in_folder, with_safetensors),
    "torch": (lambda path: shapes_of(torch.load(path, mmap=True)), with_torch),
    "dcp": (in_dcp, with_dcp),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("path", type=Path)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--dtype")
    options = parser.parse_args()
    shapes, load = WAYS[options.way]
    into: Tensors = {}
    for name, (shape, stored) in shapes(options.path).items():
        dtype = getattr(torch, options.dtype) if options.dtype else stored
        into[name] = torch.empty(shape, dtype=dtype) if options.fresh else torch.full(shape, 1, dtype=dtype)
    if options.way.startswith("ucp"):
        import ucp_checkpoint as ucp  # As the others' packages, which are imported by now.

        assert ucp.load_into is not None
    begin, processor_begin = time.perf_counter(), time.process_time()
    load(options.path, into)
    print(time.perf_counter() - begin, time.process_time() - processor_begin)


if __name__ == "__main__":
    main()
