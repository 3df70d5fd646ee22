"""memory_engine.py [--megabytes 512] [--rounds 7] [--write]: the pause of a DeepSpeed engine for a version.

One process with an engine of ZeRO stage 1. Prints medians: the pause until the state may change again, beside a bare
copy of as many bytes by two threads into warm memory, and beside engine.save_checkpoint() into /dev/shm, in turn in
each round; and a restart beside DeepSpeed's own load, with the pauses for the first versions after it. With --write the
table goes into docs/memory-tier.md. Run it with the tests' environment and PYTHONPATH of the built package.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
BEGIN, END = "<!-- table of memory_engine.py -->\n", "<!-- end of engine -->\n"
PAUSES = ("first", "second", "third")
BYTES_OF_PARAMETER = 14  # bfloat16, and float32 three times.


def engine_of(megabytes: int) -> Any:
    """One that has made a step."""
    import deepspeed
    import torch

    count = max(1, (megabytes << 20) // BYTES_OF_PARAMETER // 1024**2)
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(count)))
    config = {
        "train_batch_size": 1,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    engine.backward(engine(torch.ones(1, 1024, dtype=torch.bfloat16)).float().sum())
    engine.step()
    return engine


def seconds_of(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def measure(root: Path, megabytes: int, rounds: int) -> dict[str, list[float]]:
    import numpy

    from ucp_checkpoint.deepspeed import memory_tier

    engine = engine_of(megabytes)
    how: dict[str, Any] = {"job": "bench", "directory": root, "every": 1}
    tier = memory_tier(engine, **how)
    names = ("copy", "pause", "captured", "engine", "restart", "load", *PAUSES)
    times: dict[str, list[float]] = {name: [] for name in names}

    def keep(step: int) -> None:
        began = time.monotonic()
        tier.step(step)
        times["captured"].append(time.monotonic() - began)
        tier._kept.saving.staged.result()

    keep(0)
    held = int(tier._kept.saver.plan["bytes_to_write"])
    source, target = (numpy.full(held, value, dtype=numpy.uint8) for value in (1, 2))
    halves = [slice(0, held // 2), slice(held // 2, held)]
    with ThreadPoolExecutor(2) as threads:
        for step in range(1, rounds + 1):
            tier._kept.saving.result()
            times["copy"].append(
                seconds_of(lambda: list(threads.map(lambda part: numpy.copyto(target[part], source[part]), halves)))
            )
            times["pause"].append(seconds_of(lambda now=step: keep(now)))
            tier._kept.saving.result()
            times["engine"].append(seconds_of(lambda: engine.save_checkpoint(str(root / "engine"), tag="one")))
    for _ in range(rounds):
        tier.close(keep=True)
        times["load"].append(seconds_of(lambda: engine.load_checkpoint(str(root / "engine"), tag="one")))
        began = time.monotonic()
        tier = memory_tier(engine, **how)
        times["restart"].append(time.monotonic() - began)
        for step, pause in enumerate(PAUSES, tier.first_step):
            times[pause].append(seconds_of(lambda now=step: keep(now)))
            tier._kept.saving.result()
    tier.close()
    times["bytes"] = [held]
    return times


def table(times: dict[str, list[float]]) -> str:
    seconds = {name: median(some) for name, some in times.items()}
    rows = [
        ("bare copy by two threads", "copy", ""),
        ("pause for a version", "pause", "copy"),
        ("of this, until step() returns", "captured", "copy"),
        ("engine.save_checkpoint() into /dev/shm", "engine", "pause"),
        ("engine.load_checkpoint() from there", "load", ""),
        ("memory_tier() that restores", "restart", "load"),
        ("pause for the first version after that", "first", "third"),
        ("… for the second", "second", "third"),
        ("… for the third", "third", ""),
    ]
    named = {"copy": "the bare copy", "pause": "the pause", "load": "the engine's load", "third": "the third"}
    lines = [f"| {times['bytes'][0] / 2**20:.0f} MiB of state | seconds | against |", "|---|---|---|"]
    for label, name, other in rows:
        ratio = f"{seconds[name] / seconds[other]:.2f} x {named[other]}" if other else ""
        lines.append(f"| {label} | {seconds[name]:.3f} | {ratio} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    root = Path(tempfile.mkdtemp(prefix="ucp-bench-", dir="/dev/shm"))
    try:
        import deepspeed

        # Else DeepSpeed compiles one, which a process alone does not use.
        importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # type: ignore[attr-defined]
        deepspeed.init_distributed("gloo", init_method=f"file://{root}/store", rank=0, world_size=1,
                                   auto_mpi_discovery=False, verbose=False)  # fmt: skip
        made = table(measure(root, given.megabytes, given.rounds))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print(made)
    if given.write:
        page = DOCS / "memory-tier.md"
        text = page.read_text()
        begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
        page.write_text(text[:begin] + made + text[end:])


if __name__ == "__main__":
    main()
