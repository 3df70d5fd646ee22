"""growth.py [--picture FILE] [--quick]: how planning grows with tensors and with ranks.

Three rows of conversions, each of one kind and growing: by tensors (a mixture of experts), by the ranks of ZeRO-3, and
by the ranks of a job that changes every degree. The measure is the processor time of the whole program, proof of the
plan and its file included, by all threads together. Behind each row stands by which power of its size it grew, over the
last factor of four: 1 is linear.

With --picture, a drawing of them (needs matplotlib); with --quick, the smallest of each row once. UCP_BIN names the
folder of the programs.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from plan import GPT, MIXTURE, Case, measure

ROUNDS = 3  # The least of which counts: what else the machine does only adds.


def stages(layers: int, count: int) -> str:
    """Layers on so many stages, as evenly as can be."""
    return "+".join([str(layers // count + 1)] * (layers % count) + [str(layers // count)] * (count - layers % count))


def by_tensors() -> list[Case]:
    sizes = [(1, 1), (1, 16), (2, 32), (4, 64), (8, 96), (16, 112), (32, 128), (52, 128)]
    return [
        Case("", "mixtral_per_expert", {**MIXTURE, "layers": layers, "experts": experts}, "deepspeed:dp=64,zero=3",
             "deepspeed:dp=48,zero=3")
        for layers, experts in sizes
    ]  # fmt: skip


def by_zero_ranks() -> list[tuple[int, Case]]:
    return [
        (ranks, Case("", "megatron_deepspeed_gpt", {"layers": 128, **GPT}, f"deepspeed:dp={ranks},zero=3",
                     f"deepspeed:dp={ranks * 3 // 4},zero=3"))
        for ranks in (64, 128, 256, 512, 1024, 2048, 4096)
    ]  # fmt: skip


def by_every_degree() -> list[tuple[int, Case]]:
    degrees = [(4, 4, 4), (4, 8, 4), (8, 8, 4), (8, 16, 4), (8, 16, 8), (8, 16, 16), (8, 16, 32)]
    return [
        (tp * pp * dp, Case("", "megatron_deepspeed_gpt", {"layers": 128, **GPT},
                            f"deepspeed:tp={tp},pp={pp},dp={dp},zero=1",
                            f"deepspeed:tp={tp // 2},pp={stages(128, pp * 3 // 4)},dp={2 * dp},zero=1"))
        for tp, pp, dp in degrees
    ]  # fmt: skip


Row = list[tuple[int, float]]  # Size and seconds.


def show(name: str, row: Row) -> None:
    print(f"{name}:")
    for size, seconds in row:
        print(f"  {size:>7,} {seconds:>8.3f} s")
    end, last = row[-1]
    begin, first = next((size, seconds) for size, seconds in row if size * 4 >= end or size == row[-2][0])
    print(f"  grew by the power of {math.log(last / first) / math.log(end / begin):.2f}", flush=True)


def draw(rows: dict[str, Row], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(rows), figsize=(12, 3.8), constrained_layout=True)
    for axis, (name, row) in zip(axes, rows.items(), strict=True):
        sizes = [size for size, _ in row]
        seconds = [second for _, second in row]
        axis.loglog(sizes, seconds, "o-", color="#1f6feb", label="measured")
        axis.loglog(sizes, [seconds[-1] * size / sizes[-1] for size in sizes], "--", color="#999999", label="linear")
        axis.set_xlabel(name)
        axis.set_ylabel("processor seconds")
        axis.grid(True, which="both", linewidth=0.3)
        axis.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()

    def least(case: Case) -> tuple[int, float]:
        runs = [measure(case) for _ in range(1 if options.quick else ROUNDS)]
        return runs[0].tensors, min(run.processor for run in runs)

    shown = slice(2 if options.quick else None)
    rows: dict[str, Row] = {}
    name = "tensors, ZeRO-3 on 64 ranks to 48"
    rows[name] = [least(case) for case in by_tensors()[shown]]
    show(name, rows[name])
    for name, cases in [("ranks of ZeRO-3 to 3/4 of them", by_zero_ranks()),
                        ("ranks, every degree changed", by_every_degree())]:  # fmt: skip
        rows[name] = [(ranks, least(case)[1]) for ranks, case in cases[shown]]
        show(name, rows[name])
    if options.picture is not None:
        draw(rows, options.picture)


if __name__ == "__main__":
    main()
