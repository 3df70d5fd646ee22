"""A job of several processes with a gloo group, as torchrun starts one; and one of its processes, if this is run.

The work of a process is a function of this folder's modules: it gets its rank and further arguments, and the value it
returns comes back as JSON.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = 240


def start(
    work: Callable[..., Any], ranks: int, store: Path, enter: Sequence[list[str]] = (), **arguments: Any
) -> list[subprocess.Popen[str]]:
    """The processes, by rank. They meet at a file. `enter` has the words before the command of each."""
    name = f"{work.__module__}:{work.__name__}"
    return [
        subprocess.Popen(
            [
                *(enter[rank] if enter else []),
                sys.executable,
                __file__,
                name,
                str(rank),
                str(ranks),
                str(store),
                json.dumps(arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "UCP_TEST_RANKS": str(ranks)},
        )
        for rank in range(ranks)
    ]


def results(processes: list[subprocess.Popen[str]]) -> list[Any]:
    """The value that each returned; nothing for one that was killed. None may hang or fail."""
    told: list[Any] = []
    failed = ""
    end = time.monotonic() + SECONDS
    for process in processes:
        try:
            output, errors = process.communicate(timeout=max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            for other in processes:
                other.kill()
            raise
        if process.returncode < 0:
            told.append(None)
            continue
        failed += errors if process.returncode != 0 else ""
        told.append(json.loads(output.splitlines()[-1]) if process.returncode == 0 else None)
    assert not failed, failed
    return told


def run(
    work: Callable[..., Any], ranks: int, folder: Path, enter: Sequence[list[str]] = (), **arguments: Any
) -> list[Any]:
    """The value that each rank returned."""
    return results(start(work, ranks, folder / "store", enter, **arguments))


def main(name: str, rank: int, ranks: int, store: str, arguments: str) -> None:
    """One process of the job."""
    import torch
    import torch.distributed as dist

    faulthandler.dump_traceback_later(SECONDS - 20)  # Where it hangs.
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    module, function = name.split(":")
    told = getattr(importlib.import_module(module), function)(rank, **json.loads(arguments))
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    os._exit(0)  # A group that has lost a rank cannot be taken down.


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
