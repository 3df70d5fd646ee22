"""conversion.py WORK [--write]: figure 10 of the paper on one machine, sequential against parallel conversion.

A made-up GPT at PP 2 x TP 2 x DP 2 becomes a universal folder: by `ds_to_universal` with one worker and with two, by
`ucprun` with one thread and with two, and by ranks of MPI of which each has a bandwidth of its own, as nodes have. WORK
is a folder on the storage to measure, such as /dev/shm/work; what it holds is removed. Run it with the Python of
build/engine-venv; UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import page
from bars import Bar, draw
from synthetic import MPI, json_of, make, options_of

from continuation import COLOURS

NAME = "10"
SIZES = {"layers": 4, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 32000, "seq": 1024}
RANKS = (1, 2, 4, 8)


@dataclass
class Way:
    """A way to convert, and its rounds: seconds, and those of processors."""

    group: str
    name: str
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


CONVERTERS, SCALING = "converters", "ranks"
TITLES = {CONVERTERS: "Seconds of the whole process", SCALING: "Seconds that elements move, each rank with {rate}/s"}


def ways(source: Path, out: Path, rate: str, sizes: dict[str, int]) -> list[tuple[Way, list[str]]]:
    """With their commands."""
    ucprun = str(Path(os.environ["UCP_BIN"]) / "ucprun")
    tag = source / (source / "latest").read_text().strip()
    theirs = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", str(tag),
              "--output_folder", str(out), "--inject_missing_state"]  # fmt: skip
    ours = [ucprun, "convert", str(source), str(out), "--to", "universal", *options_of(sizes), "--json"]
    start = [sys.executable, "-c", "import deepspeed.checkpoint.ds_to_universal"]
    found = [(Way(CONVERTERS, "ds_to_universal, its start alone"), start)]
    for count in (1, 2):
        name = f"ds_to_universal, {count} worker" + "s" * (count > 1)
        counts = ["--num_extract_workers", str(count), "--num_merge_workers", str(count)]
        found.append((Way(CONVERTERS, name), [*theirs, *counts]))
    for count in (1, 2):
        name = f"ucprun, {count} thread" + "s" * (count > 1)
        found.append((Way(CONVERTERS, name), [*ours, "--threads", str(count)]))
    for count in RANKS:
        name = f"ucprun, {count} rank" + "s" * (count > 1)
        limited = [*ours, "--threads", "1", "--max-bandwidth", rate]
        found.append((Way(SCALING, name), ["mpirun", "-n", str(count), *limited]))
    return found


def run(way: Way, command: list[str], out: Path) -> None:
    """Once; of ranks, the time that they move elements counts, since a start of MPI is not what grows."""
    shutil.rmtree(out, ignore_errors=True)
    environment = os.environ | MPI | {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    before, begin = os.times(), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - begin, os.times()
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with status {done.returncode}\n{done.stderr[-2000:]}")
    if way.group == SCALING:
        seconds = next(phase["seconds"] for phase in json_of(done.stdout)["phases"] if phase["phase"] == "move")
    way.seconds.append(round(seconds, 3))
    spent = (after.children_user + after.children_system) - (before.children_user + before.children_system)
    way.processor.append(round(spent, 2))


def ratio(way: Way, other: Way) -> float:
    """The median of the rounds' own ratios."""
    return statistics.median(a / b for a, b in zip(way.seconds, other.seconds, strict=True))


def compared(found: list[Way], way: Way) -> float:
    """How many times as long as this way the first real one of its group takes."""
    return ratio(next(first for first in found if first.group == way.group and "start" not in first.name), way)


def measure(work: Path, rounds: int, rate: str, sizes: dict[str, int]) -> dict[str, Any]:
    """All rounds; each runs all ways in turn."""
    source, out = work / "source", work / "out"
    size = make(source, "tp=2,pp=2,dp=2,zero=1,dtype=bf16", sizes)
    found = ways(source, out, rate, sizes)
    for _ in range(rounds):
        for way, command in found:
            run(way, command, out)
    measured = f"{page.today()}, {page.versions(('torch', 'deepspeed'))}"
    return {"measured": measured, "bytes": size, "rate": rate, "ways": [asdict(way) for way, _ in found]}


def text_of(data: dict[str, Any]) -> str:
    """The part of the page."""
    found = [Way(**way) for way in data["ways"]]
    rows = [["conversion", "seconds", "times as fast as the first of its kind", "processor seconds"]]
    for way in found:
        times = "" if "start" in way.name else f"{compared(found, way):.1f}"
        rows.append([way.name.replace("ds_to_universal", "`ds_to_universal`").replace("ucprun", "`ucprun`"),
                     f"{statistics.median(way.seconds):.2f}", times,
                     f"{statistics.median(way.processor):.1f}"])  # fmt: skip
    about = page.wrapped(
        f"{data['measured']}; {data['bytes'] / 1e6:.0f} MB in memory (tmpfs), medians of "
        f"{len(found[0].seconds)} rounds, other programs running. A rank has {data['rate']}/s."
    )
    return "\n".join([about, "", page.table(rows), "![10: seconds of each conversion](paper/10.svg)\n"])


def picture(data: dict[str, Any]) -> str:
    """A bar for each way."""
    found = [Way(**way) for way in data["ways"]]
    groups: dict[str, list[Bar]] = {}
    for way in found:
        seconds = statistics.median(way.seconds)
        words = f"{seconds:.2f} s" if "start" in way.name else f"{seconds:.2f} s, {compared(found, way):.1f}x"
        colour = COLOURS[1 if "ds_to" in way.name else 0]
        groups.setdefault(TITLES[way.group].format(**data), []).append(Bar(way.name, seconds, words, colour))
    return draw(groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--write", action="store_true", help="write the table and the picture into docs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", default="100MB", help="the bytes that a rank reads and writes in a second")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    try:
        data = measure(arguments.work, arguments.rounds, arguments.rate, SIZES)
    finally:
        shutil.rmtree(arguments.work)
    print(text_of(data))
    if arguments.write:
        page.keep(NAME, data, picture(data))
        page.write("conversion.py", text_of(data))


if __name__ == "__main__":
    main()
