"""two_builds.py BEFORE AFTER --work FOLDER: what a change did to the speed of every kind of run.

BEFORE and AFTER are two `ucprun` programs, such as those of two work trees. Both run the same jobs in turn on the same
synthetic checkpoint (1.5 GB in FOLDER, best on a file system in memory), the first of a round by turns. It prints the
medians of five rounds: the seconds of BEFORE, and the ratio of AFTER to BEFORE.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

SPEC = Path(__file__).parents[2] / "specs" / "megatron_deepspeed_gpt.ucp"
SIZES = ["layers=6", "hidden=1024", "heads=16", "vocab=32000", "seq=512"]
SAME = "deepspeed:tp=2,pp=1,dp=2,zero=1"


def jobs_of(work: Path) -> dict[str, list[str]]:
    """The arguments of each job, by its name; `out` is made by it."""
    source, whole, out = str(work / "source"), str(work / "whole"), str(work / "out")
    return {
        "convert to universal": ["convert", source, out, "--to", "universal"],
        "convert to the same ranks": ["convert", source, out, "--to", SAME],
        "load as it is stored": ["load", source, "--to", SAME, "--rank", "0"],
        "load for other ranks": ["load", source, "--to", "deepspeed:tp=1,dp=2,zero=1", "--rank", "0"],
        "verify": ["verify", whole],
        "verify --synth": ["verify", source, "--synth"],
        "diff": ["diff", source, whole, "--read-all"],
    }


def run(program: Path, arguments: list[str]) -> float:
    """Seconds."""
    begin = time.perf_counter()
    result = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"{program} {' '.join(arguments)}: ended with status {result.returncode}\n{result.stderr[-2000:]}")
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/dev/shm/ucp-two-builds"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", help="a size of the model, of all of them")
    options = parser.parse_args()
    options.work.mkdir(parents=True)
    try:
        sizes = [word for size in options.set or SIZES for word in ("--set", size)]
        run(options.after, ["synth", str(SPEC), str(options.work / "source"), "--to", SAME, *sizes])
        run(options.after, ["convert", str(options.work / "source"), str(options.work / "whole"), "--to", "universal"])
        measure(options)
    finally:
        shutil.rmtree(options.work)


def measure(options: argparse.Namespace) -> None:
    jobs = jobs_of(options.work)
    before: dict[str, list[float]] = {name: [] for name in jobs}
    ratios: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(options.rounds):
        for name, arguments in jobs.items():
            order = [options.before, options.after]
            seconds = {}
            for program in order if number % 2 == 0 else reversed(order):
                shutil.rmtree(options.work / "out", ignore_errors=True)
                seconds[program] = run(program, arguments)
            before[name].append(seconds[options.before])
            ratios[name].append(seconds[options.after] / seconds[options.before])
    for name in jobs:
        print(f"{name:28}{statistics.median(before[name]):8.2f} s{statistics.median(ratios[name]):8.2f}")


if __name__ == "__main__":
    main()
