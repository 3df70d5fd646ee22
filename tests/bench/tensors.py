"""tensors.py FOLDER [--gigabytes N] [--rounds N] [--case NAME] [--cold]: what a tensor costs beside its bytes, in time.

The same bytes are converted and loaded twice: once in 103 tensors, once in 20,335 (a mixture of experts): N gigabytes
with the optimizer, and then N of weights alone. Every round runs each of them once, in turn. The script prints for each
medians: wall seconds of both, the rounds' own ratios, and what each tensor more costs in wall time and in processor
time; and the ratio of the least times, which says more where other programs or the machine's host come between.
`cp -r` of the folder that a conversion wrote pays for the same files.

With --case those cases alone whose names have the word in them; with --cold, which needs root, nothing of the files is
in memory when a run begins.

FOLDER needs room for four times as many gigabytes (three without copies), is best in memory (/dev/shm), and is left
empty. UCP_BIN names the folder of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from compare import ROOT, forget_cache, run

PROGRAM = Path(os.environ.get("UCP_BIN", ROOT / "build/release/bin")) / "ucprun"
SPEC = str(ROOT / "specs" / "mixtral_per_expert.ucp")


@dataclass(frozen=True)
class Shape:
    """One of the two models. The width of its experts makes it as large as wanted."""

    layers: int
    experts: int
    hidden: int

    @property
    def tensors(self) -> int:
        return 3 + self.layers * (7 + 3 * self.experts)

    def settings(self, elements: float) -> list[str]:
        kv_heads, heads, head, vocab = 2, 4, self.hidden // 8, 1024
        fixed = 2 * vocab * self.hidden + self.layers * self.hidden * head * (2 * heads + 2 * kv_heads)
        ffn = max(1, round((elements - fixed) / (self.layers * self.experts * 3 * self.hidden)))
        sizes = {"layers": self.layers, "experts": self.experts, "hidden": self.hidden, "ffn": ffn, "heads": heads,
                 "kv_heads": kv_heads, "head": head, "vocab": vocab}  # fmt: skip
        return [f"--set={name}={value}" for name, value in sizes.items()]


SHAPES = (Shape(layers=10, experts=1, hidden=256), Shape(layers=52, experts=128, hidden=128))
QUICK = (Shape(layers=1, experts=1, hidden=32), Shape(layers=2, experts=4, hidden=32))  # Whether it runs at all.


@dataclass
class Case:
    """Something that is done to both."""

    name: str
    command: Callable[[Path, Path], list[str]]  # Of the source's folder and the folder for what comes out.
    copies: bool = False  # The work is a copy of the result, which is removed.
    walls: dict[Shape, list[float]] = field(default_factory=lambda: defaultdict(list))
    processors: dict[Shape, list[float]] = field(default_factory=lambda: defaultdict(list))


def convert(target: str) -> Callable[[Path, Path], list[str]]:
    return lambda source, out: [str(PROGRAM), "convert", str(source), str(out), "--to", target]


def copy(source: Path, out: Path) -> list[str]:
    del source
    return ["cp", "-r", str(out), f"{out}-copy"]


@dataclass(frozen=True)
class Source:
    """The strategy of both sources, and the work that is done on them."""

    target: str
    bytes_of_element: int
    cases: list[Case]


SOURCES = (
    # A weight in bf16, a master and two moments in fp32.
    Source("deepspeed:dp=2,zero=1,dtype=bf16", 14, [
        Case("ZeRO-1, 2 ranks to 3", convert("deepspeed:dp=3,zero=1")),
        Case("  cp -r of that", copy, copies=True),
        Case("universal", convert("universal")),
        Case("  cp -r of that", copy, copies=True),
    ]),
    # Each rank has a little of every tensor.
    Source("deepspeed:dp=64,zero=3,dtype=bf16", 14, [
        Case("ZeRO-3, 64 ranks to 48", convert("deepspeed:dp=48,zero=3")),
    ]),
    Source("safetensors:dtype=bf16", 2, [
        Case("safetensors to safetensors", convert("safetensors")),
        Case("  cp -r of that", copy, copies=True),
        Case("load of safetensors", lambda source, _: [str(PROGRAM), "load", str(source), "--to", "safetensors"]),
    ]),
)  # fmt: skip


def measure(case: Case, shape: Shape, source: Path, out: Path, cold: bool) -> None:
    if not case.copies:
        shutil.rmtree(out, ignore_errors=True)
    if cold:
        forget_cache()
    wall, processor, _ = run(case.command(source, out))
    shutil.rmtree(f"{out}-copy", ignore_errors=True)
    case.walls[shape].append(wall)
    case.processors[shape].append(processor)


def show(case: Case, few: Shape, many: Shape) -> None:
    def median_of(seconds: dict[Shape, list[float]], what: Callable[[float, float], float]) -> float:
        return statistics.median(what(a, b) for a, b in zip(seconds[many], seconds[few], strict=True))

    def cost(seconds: dict[Shape, list[float]]) -> float:
        return median_of(seconds, lambda a, b: (a - b) / (many.tensors - few.tensors)) * 1e6

    of_few, of_many = (statistics.median(case.walls[shape]) for shape in (few, many))
    ratio = median_of(case.walls, lambda a, b: a / b)
    of_least = min(case.walls[many]) / min(case.walls[few])
    print(f"{case.name:<28} {of_few:>9.3f} {of_many:>9.3f} {ratio:>7.2f} {of_least:>9.2f} {cost(case.walls):>9.1f} "
          f"{cost(case.processors):>9.1f}", flush=True)  # fmt: skip


def make(source: Source, shape: Shape, gigabytes: float, folder: Path) -> None:
    settings = shape.settings(gigabytes * 1e9 / source.bytes_of_element)
    subprocess.run([str(PROGRAM), "synth", SPEC, str(folder), "--to", source.target, *settings],
                   check=True, capture_output=True)  # fmt: skip


def run_all(source: Source, shapes: tuple[Shape, Shape], options: argparse.Namespace) -> None:
    work = options.folder / "tensors"
    work.mkdir(parents=True)
    folders = {shape: work / str(shape.tensors) for shape in shapes}
    try:
        for shape, folder in folders.items():
            make(source, shape, options.gigabytes, folder)
        for number in range(options.rounds):
            for shape in shapes if number % 2 == 0 else reversed(shapes):
                for case in source.cases:
                    measure(case, shape, folders[shape], work / "out", options.cold)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=4, help="of each source")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", default="", metavar="NAME", help="only those whose names have this in them")
    parser.add_argument("--cold", action="store_true", help="forget cached files before each run (needs root)")
    parser.add_argument("--quick", action="store_true", help="a few tensors, to see that it runs")
    options = parser.parse_args()
    few, many = shapes = QUICK if options.quick else SHAPES
    sources = [
        replace(source, cases=cases)
        for source in SOURCES
        if (cases := [case for case in source.cases if options.case in case.name])
    ]
    for source in sources:
        run_all(source, shapes, options)
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(json.dumps({"gigabytes": options.gigabytes, "processors": cores, "load": round(load, 1)}))
    print(f"{'':<28} {few.tensors:>9,} {many.tensors:>9,} {'ratio':>7} {'of least':>9} {'µs each':>9} {'cpu µs':>9}")
    for source in sources:
        for case in source.cases:
            show(case, few, many)


if __name__ == "__main__":
    main()
