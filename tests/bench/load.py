"""load.py FOLDER --work FOLDER2: loading a safetensors folder beside what others load with, from page cache.

Under three conditions: into memory that is there and touched; into fresh memory, whose pages come with the load; and
with a cast of every tensor (bfloat16 to float32, all else to bfloat16), which DCP does not do. `ucprun load` is the
program's own memory and clock; `ucp` is the Python package, as the others are. Those with --check (verify=True) compare
checksums, where the files have some, and copies.

Every round runs each of them once, in an order that moves on; what is printed are medians of the rounds' own ratios to
`ucp`, in time and in processor time, and of the part of the reading rate that `ucprun load` reached, measured in the
same run with the same threads. --only WAY … leaves out the others, which take long where tensors are many and small.
FOLDER2 gets the same tensors as one file of torch.save and as a folder of torch.distributed.checkpoint, once.

FOLDER can be made by `ucprun convert … --to safetensors`, or by `ucprun synth SPEC FOLDER --to safetensors …`. The
package is that of the build, or the one of --package.
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


def output_of(command: list[str], package: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(package)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with status {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def other_dtype(folder: Path) -> str:
    """The dtype that the tensors are cast to."""
    from safetensors import safe_open

    with safe_open(min(folder.glob("*.safetensors")), framework="pt") as file:
        names = list(file.keys())
        stored = file.get_slice(names[0]).get_dtype()
    return "float32" if stored == "BF16" else "bfloat16"


def commands_of(options: argparse.Namespace) -> dict[str, dict[str, list[str]]]:
    """By condition and name."""
    ours = [options.ucprun, "load", str(options.folder), "--to", "safetensors", "--json", "--threads",
            str(options.threads)]  # fmt: skip
    python = [sys.executable, str(HERE / "load_peer.py")]
    ways = {
        "ucp": [*python, "ucp", str(options.folder)],
        "ucp, verify=True": [*python, "ucp-verify", str(options.folder)],
        "safetensors, safe_open": [*python, "safetensors", str(options.folder)],
        "torch.load(mmap=True)": [*python, "torch", str(options.work / "model.pt")],
        "torch.distributed.checkpoint": [*python, "dcp", str(options.work / "dcp")],
    }
    cast = ["--dtype", other_dtype(options.folder)]
    return {
        "touched": {"ucprun load": [*ours, "--ceiling"], "ucprun load --check": [*ours, "--check"], **ways},
        "fresh": {name: [*command, "--fresh"] for name, command in ways.items()},
        f"cast to {cast[1]}": {name: [*command, *cast] for name, command in ways.items() if "dcp" not in command},
    }


def median_ratio(times: list[float], of_ucp: list[float]) -> float:
    return statistics.median(one / own for one, own in zip(times, of_ucp, strict=True))


def race(commands: dict[str, list[str]], options: argparse.Namespace) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    processor: dict[str, list[float]] = {name: [] for name in commands if not name.startswith("ucprun")}
    of_ceiling = []
    for number in range(options.rounds):
        names = list(commands)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            text = output_of(commands[name], options.package)
            if not name.startswith("ucprun"):
                wall, own = map(float, text.split())
                seconds[name].append(wall)
                processor[name].append(own)
                continue
            rank = json.loads(text)["ranks"][0]
            seconds[name].append(rank["seconds"])
            if "--ceiling" in commands[name]:
                of_ceiling.append(rank["of_ceiling"])
    for name, times in seconds.items():
        line = f"  {name:<30} {statistics.median(times):>8.3f} s   {median_ratio(times, seconds['ucp']):>6.2f} x"
        if name in processor:
            of_ucp = median_ratio(processor[name], processor["ucp"])
            line += f"   processor {statistics.median(processor[name]):>8.3f} s   {of_ucp:>6.2f} x"
        print(line, flush=True)
    if of_ceiling:
        low, high = min(of_ceiling), max(of_ceiling)
        print(f"  ucprun load, of reading alone: {statistics.median(of_ceiling):.0%} ({low:.0%} to {high:.0%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ucprun", default=str(ROOT / "build" / "release" / "bin" / "ucprun"))
    parser.add_argument("--package", type=Path, default=ROOT / "build" / "release" / "python")
    parser.add_argument("--only", nargs="+", default=[""], metavar="WAY", help="how their names begin, beside `ucp`")
    options = parser.parse_args()
    if options.only == [""]:
        make_peers(options.folder, options.work)
    for condition, commands in commands_of(options).items():
        print(f"{condition}, {options.threads} threads:", flush=True)
        asked = {name: way for name, way in commands.items() if name == "ucp" or name.startswith(tuple(options.only))}
        race(asked, options)


if __name__ == "__main__":
    main()
