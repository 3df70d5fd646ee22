"""load.py FOLDER --work FOLDER2: `ucprun load` of a safetensors folder beside what others load with, from page cache.

All fill memory that is there and touched. Every round runs each of them once, in an order that moves on; what is
printed are medians of the rounds' own ratios to `ucprun load`, and of the part of the reading rate that it reached,
measured in the same run with the same threads. FOLDER2 gets the same tensors as one file of torch.save and as a folder
of torch.distributed.checkpoint, once.

FOLDER can be made by `ucprun convert … --to safetensors`, or by `ucprun synth SPEC FOLDER --to safetensors …`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def make_peers(folder: Path, work: Path) -> None:
    """The same tensors in the others' forms."""
    import torch
    import torch.distributed.checkpoint as dcp
    from safetensors import safe_open

    if (work / "dcp" / ".metadata").exists():
        return
    tensors = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            tensors.update({name: file.get_tensor(name) for name in names})
    work.mkdir(parents=True, exist_ok=True)
    torch.save(tensors, work / "model.pt")
    dcp.save(tensors, storage_writer=dcp.FileSystemWriter(work / "dcp"), no_dist=True)


def output_of(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with status {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ucprun", default=str(ROOT / "build" / "release" / "bin" / "ucprun"))
    options = parser.parse_args()
    make_peers(options.folder, options.work)

    threads = ["--threads", str(options.threads)]
    ours = [options.ucprun, "load", str(options.folder), "--to", "safetensors", "--ceiling", "--json", *threads]
    peer = [sys.executable, str(HERE / "load_peer.py")]
    commands = {
        "ucprun load": ours,
        "ucprun load --check": [*ours, "--check"],
        "safetensors, safe_open": [*peer, "safetensors", str(options.folder)],
        "torch.load(mmap=True)": [*peer, "torch", str(options.work / "model.pt")],
        "torch.distributed.checkpoint": [*peer, "dcp", str(options.work / "dcp")],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    of_ceiling = []
    for number in range(options.rounds):
        names = list(commands)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            text = output_of(commands[name])
            if not name.startswith("ucprun"):
                seconds[name].append(float(text))
                continue
            rank = json.loads(text)["ranks"][0]
            seconds[name].append(rank["seconds"])
            if name == "ucprun load":
                of_ceiling.append(rank["of_ceiling"])
    for name, times in seconds.items():
        ratios = [one / own for one, own in zip(times, seconds["ucprun load"], strict=True)]
        print(f"{name:<30} {statistics.median(times):>8.3f} s   {statistics.median(ratios):>6.2f} x")
    low, high = min(of_ceiling), max(of_ceiling)
    print(f"of reading alone: {statistics.median(of_ceiling):.0%} ({low:.0%} to {high:.0%}), {options.threads} threads")


if __name__ == "__main__":
    main()
