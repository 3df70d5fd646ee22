"""memory_interference.py [--rate 800] [--turns 8] [--write]: Gemini's figure 16, measured.

Two machines are namespaces of this system, joined by links that `tc` keeps to `--rate` Mbit/s; it needs root. A job of
two ranks trains a model that FSDP2 shards over both: its messages are real, and it sleeps where a GPU would compute.
Blocks of iterations without versions, and with versions in each way to send copies, take turns in this one job. Prints
how much longer iterations are: the median, over the turns, of the ratio of a block to the block without versions. With
--write the table goes into docs/memory-tier.md, and the picture beside it is drawn (needs matplotlib). Run it with the
tests' environment and PYTHONPATH of the built package.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
DOCS = TESTS.parent / "docs"
sys.path.insert(0, str(TESTS / "python"))

import namespaces  # noqa: E402

BEGIN, END = "<!-- table of memory_interference.py -->\n", "<!-- end of interference -->\n"
LAYERS, WIDTH = 4, 512
SECONDS_OF_LAYER = 0.06  # Forward, and as long backward.
WARM, COUNTED = 30, 6  # Iterations; 20 of the former are watched for the timetable.
NEVER = 1 << 30
SECONDS_OF_JOB = 1800
# By name: the mode of the tier's traffic, whether each version is waited for, and how many chunks are on their way.
WAYS = {
    "none": ("off", False, 2),
    "blocking": ("off", True, 2),
    "at once": ("off", False, 2),
    "at once, one chunk at a time": ("off", False, 1),
    "paced": ("paced", False, 2),
    "timetable": ("timetable", False, 2),
}
PAPER = {"blocking": "+10.1 %", "at once, one chunk at a time": "+3.5 %", "timetable": "0"}


def model_and_optimizer() -> tuple[Any, Any]:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    mesh = init_device_mesh("cpu", (2,))
    for layer in model:
        layer.register_forward_pre_hook(lambda *_: time.sleep(SECONDS_OF_LAYER))
        layer.register_full_backward_pre_hook(lambda *_: time.sleep(SECONDS_OF_LAYER))
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.Adam(model.parameters(), lr=1e-4, foreach=True)


def train_step(model: Any, optimizer: Any, step: int) -> float:
    import torch

    batch = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(step))
    loss = model(batch.requires_grad_()).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())


def order(turn: int) -> list[str]:
    """The ways of a turn: each follows the block without versions in some turn."""
    first, *others = WAYS
    begin = turn % len(others)
    return [first, *others[begin:], *others[:begin]]


def measure(rank: int, root: Path, turns: int) -> dict[str, Any]:
    """One rank: for each way and turn, seconds of an iteration; and the versions of each iteration."""
    import torch.distributed as dist

    import ucp_checkpoint as ucp
    from ucp_checkpoint import _streams

    model, optimizer = model_and_optimizer()
    train_step(model, optimizer, 0)
    how = {"job": "bench", "directory": root / "ab"[rank], "machine": "ab"[rank], "every": 1, "traffic": "timetable"}
    tier = ucp.memory.Tier(model, optimizer, **how)
    traffic = tier._copies.traffic

    def iterate(waits: bool) -> None:
        train_step(model, optimizer, 0)
        tier.step(tier._calls)
        while waits and not tier._copies.is_settled():
            time.sleep(0.001)

    def block(way: str) -> tuple[float, int]:
        """In each of the iterations that count a version may be on its way."""
        tier._every, tier._is_late = NEVER if way == "none" else 1, False
        traffic._mode, waits, _streams._ON_THEIR_WAY = WAYS[way]
        traffic._quiet = 0  # It does not give way to iterations of other blocks.
        iterate(waits)
        began, begun = time.monotonic(), tier.report()["versions"]
        for _ in range(COUNTED):
            iterate(waits)
        seconds, versions = time.monotonic() - began, tier.report()["versions"] - begun
        while not tier._copies.is_settled():
            time.sleep(0.001)
        return seconds / COUNTED, versions

    modes = ["watching"]
    while "watching" in modes:
        for _ in range(WARM):
            iterate(False)
        modes = [""] * dist.get_world_size()
        dist.all_gather_object(modes, traffic.report()["mode"])
    found: dict[str, Any] = {"traffic": traffic.report(), "modes": modes}
    if modes == ["timetable"] * len(modes):  # Else the machine is too busy.
        found["blocks"] = [{way: block(way) for way in order(turn)} for turn in range(turns)]
    tier.close()
    return found


def one(rank: int, root: Path, turns: int) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{root}/store", rank=rank, world_size=2)
    print("FIGURES " + json.dumps(measure(rank, root, turns)), flush=True)
    os._exit(0)


def shape(machine: namespaces.Machine, rate: int) -> None:
    """The rate at which it sends. The bucket is small against a chunk, and a queue is sent within 50 ms."""
    words = ["tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", f"{rate}mbit", "burst", "64kb"]
    subprocess.run([*machine.enter, *words, "latency", "50ms"], check=True)


def job(there: dict[str, namespaces.Machine], root: Path, turns: int) -> dict[str, Any]:
    """The figures of the first rank; both iterate alike."""
    command = [sys.executable, "-W", "ignore", __file__, "--turns", str(turns), "--one"]
    ranks = [
        subprocess.Popen([*there[name].enter, *command, str(rank), str(root)], stdout=subprocess.PIPE, text=True)
        for rank, name in enumerate("ab")
    ]
    try:
        outputs = [rank.communicate(timeout=SECONDS_OF_JOB)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    (found,) = [line for line in outputs[0].splitlines() if line.startswith("FIGURES ")]
    told: dict[str, Any] = json.loads(found.removeprefix("FIGURES "))
    return told


def rows(blocks: list[dict[str, tuple[float, int]]]) -> list[tuple[str, float, float, float]]:
    """Of each way: the median iteration in seconds, how much longer that is, and iterations for each version."""
    made = []
    for way in WAYS:
        longer = median(turn[way][0] / turn["none"][0] for turn in blocks) - 1
        versions = sum(turn[way][1] for turn in blocks)
        made.append((way, median(turn[way][0] for turn in blocks), longer, len(blocks) * COUNTED / max(1, versions)))
    return made


def table(shown: list[tuple[str, float, float, float]]) -> str:
    lines = ["| copies | iteration, seconds | longer by | a version each | the paper |", "|---|---|---|---|---|"]
    for way, length, longer, often in shown:
        said = "| |" if way == "none" else f"| {100 * longer:+.1f} % | {often:.1f} iterations |"
        lines.append(f"| {way} | {length:.3f} {said} {PAPER.get(way, '')} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def draw(shown: list[tuple[str, float, float, float]], path: Path) -> None:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "ucp"  # The same picture at each run.
    figure, axes = plt.subplots(figsize=(7, 3))
    ways = [way for way, *_ in shown if way != "none"]
    places = range(len(ways))
    percents = [100 * longer for way, _, longer, _ in shown if way != "none"]
    bars = axes.barh([place - 0.2 for place in places], percents, 0.38, color="#4c72b0", label="measured here")
    axes.bar_label(bars, [f"{percent:+.1f} %" for percent in percents], padding=3)
    papers = [float(PAPER[way].strip("+ %")) if way in PAPER else 0.0 for way in ways]
    others = axes.barh([place + 0.2 for place in places], papers, 0.38, color="#c0c0c0", label="the paper")
    axes.bar_label(others, [PAPER.get(way, "not in the paper") for way in ways], padding=3)
    axes.set(xlabel="how much longer an iteration is, %", yticks=list(places), yticklabels=ways)
    axes.margins(x=0.2)
    axes.invert_yaxis()
    axes.legend(loc="lower right")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="What copies cost the iterations of a job.")
    parser.add_argument("--rate", type=int, default=800, help="Mbit/s of each machine's link")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--write", action="store_true", help="write the table and the picture into docs")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(int(options.one[0]), Path(options.one[1]), options.turns)
    with tempfile.TemporaryDirectory() as folder, namespaces.machines("ab", Path(folder)) as there:
        for machine in there.values():
            shape(machine, options.rate)
        found = job(there, Path(folder), options.turns)
    print(found["traffic"], found["modes"])
    if "blocks" not in found:
        sys.exit("the iterations without copies are too unsteady for a timetable: run it on a machine that is idle")
    for turn in found["blocks"]:
        print("  ".join(f"{way} {seconds:.3f}" for way, (seconds, _) in turn.items()))
    shown = rows(found["blocks"])
    made = table(shown)
    print(made, end="")
    if options.write:
        page = DOCS / "memory-tier.md"
        before, rest = page.read_text().split(BEGIN)
        page.write_text(before + BEGIN + made + END + rest.split(END)[1])
        draw(shown, DOCS / "memory-tier" / "interference.svg")


if __name__ == "__main__":
    main()
