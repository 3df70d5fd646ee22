"""loading.py WORK [--write]: figure 11 of the paper, loads from a universal folder beside loads of native files.

A made-up GPT is loaded into jobs of 1 to 8 data-parallel ranks: from the universal folder and from the files that such
a job saves, with ranks that read shared bytes once for all of them (`mpirun -n N ucprun load`), and with as many
processes that know nothing of each other (`ucprun load --rank`), which turns sharing off. WORK is a folder on the
storage to measure, such as /dev/shm/work; what it holds is removed. UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import page
from bars import Bar, draw
from synthetic import MPI, json_of, make, options_of

from continuation import COLOURS

NAME = "11"
SIZES = {"layers": 4, "hidden": 512, "heads": 8, "ffn": 2048, "vocab": 32000, "seq": 1024}
RANKS = (1, 2, 4, 8)


@dataclass
class Way:
    """A job of so many ranks loads; of each round the seconds of its slowest rank. `read` is what all ranks read."""

    ranks: int
    source: str
    shares: bool
    read: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        if self.ranks == 1:
            return self.source
        return f"{self.source}, {'shared' if self.shares else 'each by itself'}"


def reports(command: list[str], way: Way) -> list[dict[str, Any]]:
    """Of one run of MPI, or of as many processes as there are ranks."""
    environment = os.environ | MPI
    prefix = ["mpirun", "-n", str(way.ranks)] if way.shares else []
    words = [[]] if way.shares else [["--rank", str(rank)] for rank in range(way.ranks)]
    processes = [
        subprocess.Popen([*prefix, *command, *more], env=environment, stdout=subprocess.PIPE, text=True)
        for more in words
    ]
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode != 0 for process in processes):
        sys.exit(f"{' '.join(prefix + command)}: ended with an error")
    return [json_of(output) for output in outputs]


def measure(work: Path, rounds: int, sizes: dict[str, int]) -> dict[str, Any]:
    """All rounds; each runs all ways in turn."""
    ucprun = str(Path(os.environ["UCP_BIN"]) / "ucprun")
    make(work / "source", "tp=2,pp=2,dp=2,zero=1,dtype=bf16", sizes)
    convert = [ucprun, "convert", str(work / "source")]
    options = options_of(sizes)
    universal = work / "universal"
    subprocess.run([*convert, str(universal), "--to", "universal", *options, "--quiet"], check=True)
    found = []
    for ranks in RANKS:
        native, to = work / f"native{ranks}", f"deepspeed:dp={ranks},zero=1,dtype=bf16"
        subprocess.run([*convert, str(native), "--to", to, *options, "--quiet"], check=True)
        for source, folder in (("native", native), ("universal", universal)):
            command = [ucprun, "load", str(folder), "--to", to, *options, "--threads", "1", "--json"]
            found += [(Way(ranks, source, shares), command) for shares in (True, False)[: 1 + (ranks > 1)]]
    for _ in range(rounds):
        for way, command in found:
            said = reports(command, way)
            way.read = sum(report["bytes_read_by_all"] for report in said)
            way.seconds.append(round(max(rank["seconds"] for report in said for rank in report["ranks"]), 4))
    return {"measured": page.today(), "ways": [asdict(way) for way, _ in found]}


def text_of(data: dict[str, Any]) -> str:
    """The part of the page."""
    rows = [["ranks", "loaded from", "bytes read by all", "of the shared read", "seconds of the slowest rank",
             "of native, shared"]]  # fmt: skip
    found = [Way(**way) for way in data["ways"]]
    for way in found:
        shared = next(w for w in found if (w.ranks, w.source, w.shares) == (way.ranks, way.source, True))
        native = next(w for w in found if (w.ranks, w.source, w.shares) == (way.ranks, "native", True))
        times = statistics.median(a / b for a, b in zip(way.seconds, native.seconds, strict=True))
        rows.append([str(way.ranks), str(way), f"{way.read / 1e6:,.0f} MB", f"{way.read / shared.read:.2f}",
                     f"{way.median:.2f}", f"{times:.2f}"])  # fmt: skip
    about = page.wrapped(
        f"{data['measured']}; files in memory (tmpfs), one thread for each rank, medians of {len(found[0].seconds)} "
        "rounds, other programs running."
    )
    return "\n".join([about, "", page.table(rows), "![11: bytes and seconds of each load](paper/11.svg)\n"])


def picture(data: dict[str, Any]) -> str:
    """For each number of ranks the bytes that all read."""
    groups: dict[str, list[Bar]] = {}
    for way in (Way(**way) for way in data["ways"]):
        colour = COLOURS[0 if way.shares else 1]
        words = f"{way.read / 1e6:,.0f} MB, {way.median:.2f} s"
        title = f"Bytes that {way.ranks} rank{'s' * (way.ranks > 1)} read, and seconds of the slowest"
        groups.setdefault(title, []).append(Bar(str(way), way.read, words, colour))
    return draw(groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--write", action="store_true", help="write the table and the picture into docs")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    try:
        data = measure(arguments.work, arguments.rounds, SIZES)
    finally:
        shutil.rmtree(arguments.work)
    print(text_of(data))
    if arguments.write:
        page.keep(NAME, data, picture(data))
        page.write("loading.py", text_of(data))


if __name__ == "__main__":
    main()
