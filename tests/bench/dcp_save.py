"""dcp_save.py CHECKPOINT OUT: saves the tensors of a DeepSpeed checkpoint by PyTorch's distributed checkpoint, from one
process, and prints how many seconds the saving took. The tensors are mapped files, as cheap to read as can be."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp


def tensors_in(value: Any, name: str, found: dict[str, torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found[name] = value
    elif isinstance(value, dict):
        for key, item in value.items():
            tensors_in(item, f"{name}.{key}", found)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            tensors_in(item, f"{name}.{number}", found)


def main() -> None:
    checkpoint, out = Path(sys.argv[1]), sys.argv[2]
    tag = checkpoint / (checkpoint / "latest").read_text().strip()
    found: dict[str, torch.Tensor] = {}
    for path in sorted(tag.glob("*.pt")):
        # DeepSpeed's own files hold objects of its classes; this one was made for the benchmark.
        tensors_in(torch.load(path, mmap=True, weights_only=False), path.stem, found)
    writer = dcp.FileSystemWriter(out, thread_count=len(os.sched_getaffinity(0)))
    begin = time.perf_counter()
    dcp.save(found, storage_writer=writer, no_dist=True)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
