"""plan.py [--quick]: how long planning takes at sizes that nobody has on one machine, and how much memory.

Each case is `ucpc plan SPEC --from STRATEGY --to STRATEGY`: no files, only what their headers would say. The program
itself says how long it planned and proved the plan; processor time, wall time and memory are the operating system's.
On a machine that is busy with other work processor time is what counts. Then the same conversion at 1, 2, 4, 8 times as
many layers, and beside it DeepSpeed's `plan_transfer` on the same parameters and degrees, if DeepSpeed is there
(build/engine-venv/bin/python). UCP_BIN names the folder of the programs.

With --quick the cases alone, and an exit status of 1 if one takes over 3 times what it should, or too much memory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("UCP_BIN", ROOT / "build" / "release" / "bin")) / "ucpc"
GIB = 1 << 30

GPT = {"hidden": 25600, "heads": 160, "ffn": 102400, "vocab": 51200, "seq": 2048}
MIXTURE = {"layers": 52, "hidden": 4096, "heads": 32, "kv_heads": 8, "head": 128, "ffn": 14336, "experts": 128,
           "vocab": 32000}  # fmt: skip
TWELVE = "+".join(["11"] * 8 + ["10"] * 4)  # 128 layers on 12 stages.


@dataclass(frozen=True)
class Case:
    """A conversion, and what it should take: seconds, memory, the plan's file."""

    shows: str
    spec: str  # Below specs.
    sizes: dict[str, int]
    source: str
    target: str
    seconds: float = 5
    memory: int = GIB
    plan_bytes: int = 50_000_000


CASES = [
    Case("1T, ZeRO-1, every degree changed", "megatron_deepspeed_gpt", {"layers": 128, **GPT},
         "deepspeed:tp=8,pp=16,dp=8,zero=1", f"deepspeed:tp=4,pp={TWELVE},dp=16,zero=1"),
    Case("1T, ZeRO-3 on 1,024 to ZeRO-3 on 768", "megatron_deepspeed_gpt", {"layers": 128, **GPT},
         "deepspeed:dp=1024,zero=3", "deepspeed:dp=768,zero=3"),
    Case("1T, ZeRO-3 on 1,024 to ZeRO-1 on 768", "megatron_deepspeed_gpt", {"layers": 128, **GPT},
         "deepspeed:dp=1024,zero=3", f"deepspeed:tp=8,pp={TWELVE},dp=8,zero=1"),
    Case("1T, ZeRO-1 on 768 to ZeRO-3 on 1,024", "megatron_deepspeed_gpt", {"layers": 128, **GPT},
         f"deepspeed:tp=8,pp={TWELVE},dp=8,zero=1", "deepspeed:dp=1024,zero=3"),
    Case("20,335 tensors, ZeRO-3 on 2,048 to 1,536", "mixtral_per_expert", MIXTURE,
         "deepspeed:dp=2048,zero=3", "deepspeed:dp=1536,zero=3", seconds=10),
    Case("one matrix, 512 of columns to 512 of rows", "../tests/bench/columns", {},
         "deepspeed:tp=512", "dcp:fsdp=512", seconds=2, plan_bytes=60_000_000),
]  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Of one run of the program."""

    tensors: int
    planning: float
    verifying: float
    processor: float
    wall: float
    memory: int
    plan_bytes: int


def measure(case: Case) -> Measured:
    spec = ROOT / "specs" / f"{case.spec}.ucp"
    command = [str(PROGRAM), "plan", str(spec), "--from", case.source, "--to", case.target, "--json"]
    for name, value in case.sizes.items():
        command += ["--set", f"{name}={value}"]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        report = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begin
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with status {process.returncode}")
    return Measured(report["tensors"], report["planning_seconds"], report["verifying_seconds"],
                    usage.ru_utime + usage.ru_stime, wall,
                    usage.ru_maxrss * 1024, report["plan_bytes"])  # fmt: skip


def row(name: str, got: Measured) -> str:
    return (f"{name:<44} {got.tensors:>7,} {got.planning:>7.2f} {got.verifying:>7.2f} {got.processor:>7.2f} "
            f"{got.wall:>7.2f} {got.memory / 1e6:>8,.0f} {got.plan_bytes / 1e6:>7.2f}")  # fmt: skip


HEADER = f"{'':<44} {'tensors':>7} {'plan s':>7} {'proof s':>7} {'cpu s':>7} {'wall s':>7} {'MB':>8} {'file MB':>7}"


def run_cases(slack: float) -> bool:
    """Whether all are as they should be."""
    print(HEADER)
    good = True
    for case in CASES:
        got = measure(case)
        print(row(case.shows, got), flush=True)
        for what, value, limit in [("seconds", got.processor, case.seconds * slack), ("bytes of memory", got.memory,
                                   case.memory), ("bytes of plan", got.plan_bytes, case.plan_bytes)]:  # fmt: skip
            if value > limit:
                good = False
                print(f"  {value:,.1f} {what}, and it should be {limit:,.1f} at most")
    return good


def run_growth() -> None:
    print(f"\n{'the same, ZeRO-3 to ZeRO-1, by layers':<44}")
    for layers in (16, 32, 64, 128, 256):
        stages = "+".join([str(-(-layers // 12))] * (layers % 12) + [str(layers // 12)] * (12 - layers % 12))
        case = Case("", "megatron_deepspeed_gpt", {"layers": layers, **GPT}, "deepspeed:dp=1024,zero=3",
                    f"deepspeed:tp=8,pp={stages},dp=8,zero=1")  # fmt: skip
        print(row(f"  {layers} layers", measure(case)), flush=True)


# Each shape of the GPT, and how many parameters of it a layer has.
SHAPES = {
    (3 * 25600, 25600): 1, (25600, 25600): 1, (4 * 25600, 25600): 1, (25600, 4 * 25600): 1,
    (25600,): 6, (3 * 25600,): 1, (4 * 25600,): 1,
}  # fmt: skip


def run_beside_deepspeed(layers: int) -> None:
    """DeepSpeed plans one parameter at a time. Of equal ones one is planned, and counted as often as there are some."""
    try:
        from deepspeed.checkpoint.affine import contiguous_split_map
        from deepspeed.checkpoint.affine_transfer import AffineTransferError, plan_transfer
    except ImportError:
        print("\nplan_transfer: DeepSpeed is not there; run this with build/engine-venv/bin/python")
        return

    def flat(elements: int, ranks: int) -> object:
        """A parameter as stage 3 cuts it."""
        width = -(-elements // ranks)
        return contiguous_split_map(
            [elements], [max(0, min(width, elements - rank * width)) for rank in range(ranks)], 0
        )

    print(f"\n{'ZeRO-3 to ZeRO-3, every parameter':<44} {'ours s':>9} {'plan_transfer s':>16} {'ratio':>8}")
    for source, target in [(64, 48), (256, 192), (512, 384), (1024, 768)]:
        case = Case("", "megatron_deepspeed_gpt", {"layers": layers, **GPT}, f"deepspeed:dp={source},zero=3",
                    f"deepspeed:dp={target},zero=3")  # fmt: skip
        ours = measure(case)
        seconds = 0.0
        theirs = ""
        for shape, count in SHAPES.items():
            elements = shape[0] * (shape[1] if len(shape) > 1 else 1)
            begin = time.perf_counter()
            try:
                plan_transfer(flat(elements, target), flat(elements, source))
            except AffineTransferError as refusal:
                theirs = f"refused: {refusal}"
                break
            seconds += (time.perf_counter() - begin) * count * layers
        own = ours.planning + ours.verifying
        end = theirs or f"{seconds:>16.1f} {seconds / own:>7.0f}x"
        print(f"  {f'{source} ranks to {target}':<42} {own:>9.2f} {end}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.machine()}, {cores} processors, load {os.getloadavg()[0]:.1f}")
    if options.quick:
        return 0 if run_cases(slack=3) else 1
    good = run_cases(slack=1)
    run_growth()
    run_beside_deepspeed(layers=128)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
