"""compare.py CHECKPOINT --work FOLDER: conversions of a checkpoint beside `cp -r` and the tools that people use.

Every round runs each of them once, in an order that moves on, since a machine's speed also does. The script prints the
medians of the rounds' own ratios to a copy of the source (`cp -r`; on a disk with a sync), so that a slow moment counts
on both sides. Outputs go to FOLDER, which is on the file system to be measured, as is CHECKPOINT, and are removed.

Tools that are not installed are left out, and said so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Contender:
    """Something that reads the checkpoint and makes `out`."""

    name: str
    command: list[str]
    prepare: Callable[[Path], None] = lambda out: None
    starts: list[str] | None = None  # A command that only loads the program, whose time is shown apart.
    says_seconds: bool = False  # It prints what counts, without its preparations.
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    memory: int = 0
    bytes_out: int = 0


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run(command: list[str], says_seconds: bool = False) -> tuple[float, float, int]:
    """Wall time, processor time and peak memory of the largest process."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaint:
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=output, stderr=complaint, env=environment()) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - begin
        output.seek(0)
        complaint.seek(0)
        if process.returncode != 0:
            words = complaint.read().decode()[-2000:]
            sys.exit(f"{' '.join(command)}: ended with status {process.returncode}\n{words}")
        if says_seconds:
            seconds = float(output.read().split()[-1])
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def environment() -> dict[str, str]:
    return os.environ | {"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}


def forget_cache() -> None:
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("1")


def contenders(arguments: argparse.Namespace, checkpoint: Path, out: Path) -> list[Contender]:
    sync = "" if is_in_memory(out) else f" && sync -f {out}"
    ucprun = str(arguments.bin / "ucprun")
    tag = checkpoint / (checkpoint / "latest").read_text().strip()
    of_optimizer = sorted(str(path) for path in tag.glob("*optim_states.pt"))
    others = sorted(str(path) for path in tag.glob("*.pt") if str(path) not in of_optimizer)
    spec = ["--spec", arguments.spec] if arguments.spec else []
    for setting in arguments.set:
        spec += ["--set", setting]
    threads = str(len(os.sched_getaffinity(0)))
    racers = [
        Contender("cp -r, the source", ["sh", "-c", f"cp -r {checkpoint} {out}{sync}"]),
        Contender("ucprun, universal", [ucprun, "convert", str(checkpoint), str(out), "--to", "universal", *spec]),
        Contender(
            "its passes, bare",
            [str(arguments.bin / "bare_loop"), str(out), threads, *of_optimizer, "--read", *others],
            prepare=lambda folder: folder.mkdir(),
        ),
        Contender(
            "ucprun, safetensors",
            [ucprun, "convert", str(checkpoint), str(out), "--to", "safetensors:dtype=fp32,names=memory", *spec],
        ),
    ]
    for target in arguments.to:
        racers.append(
            Contender(f"ucprun, {target}", [ucprun, "convert", str(checkpoint), str(out), "--to", target, *spec])
        )
    python = arguments.engine
    if not arguments.peers or not python.exists():
        print("DeepSpeed's own tools: not run")
        return racers
    racers.append(
        Contender(
            f"ds_to_universal, {arguments.workers} workers",
            [
                str(python), "-m", "deepspeed.checkpoint.ds_to_universal", "--input_folder", str(tag),
                "--output_folder", str(out), "--num_extract_workers", str(arguments.workers),
                "--num_merge_workers", str(arguments.workers), "--inject_missing_state",
            ],
            starts=[str(python), "-c", "import deepspeed.checkpoint.ds_to_universal"],
        )
    )  # fmt: skip
    racers.append(
        Contender(
            "PyTorch DCP, its save() alone",
            [str(python), str(ROOT / "tests/bench/dcp_save.py"), str(checkpoint), str(out)],
            says_seconds=True,
        )
    )
    if not spec:  # It does not know tensor parallelism.
        racers.append(
            Contender(
                "zero_to_fp32",
                [
                    str(python), "-m", "deepspeed.utils.zero_to_fp32", str(checkpoint), str(out),
                    "--safe_serialization", "--max_shard_size", "5GB",
                ],
                starts=[str(python), "-c", "import deepspeed.utils.zero_to_fp32"],
            )
        )  # fmt: skip
    return racers


def is_in_memory(folder: Path) -> bool:
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(folder.parent)], capture_output=True, text=True, check=True)
    return kind.stdout.strip() in ("tmpfs", "ramfs")


def race(arguments: argparse.Namespace, racers: list[Contender], out: Path) -> None:
    for number in range(arguments.rounds):
        first = number % len(racers)
        for racer in racers[first:] + racers[:first]:
            shutil.rmtree(out, ignore_errors=True)
            racer.prepare(out)
            if arguments.cold:
                forget_cache()
            elif not is_in_memory(out):
                subprocess.run(["sync"], check=True)
            seconds, processor, memory = run(racer.command, racer.says_seconds)
            racer.seconds.append(seconds)
            racer.processor.append(processor)
            racer.memory = max(racer.memory, memory)
            racer.bytes_out = size_of(out)
    shutil.rmtree(out, ignore_errors=True)


def report(racers: list[Contender], bytes_in: int) -> None:
    copy = racers[0]
    print(f"{'':<30} {'GB written':>10} {'seconds':>8} {'of cp -r':>8} {'processor':>9} {'memory MB':>9}")
    for racer in racers:
        ratio = statistics.median(mine / theirs for mine, theirs in zip(racer.seconds, copy.seconds, strict=True))
        print(
            f"{racer.name:<30} {racer.bytes_out / 1e9:>10.2f} {statistics.median(racer.seconds):>8.2f} "
            f"{ratio:>8.2f} {statistics.median(racer.processor):>9.2f} {racer.memory / 1e6:>9.0f}"
        )
        if racer.starts is not None:
            print(f"{'  of which it starts up in':<30} {'':>10} {run(racer.starts)[0]:>8.2f}")
    print(f"source: {bytes_in / 1e9:.2f} GB; {len(copy.seconds)} rounds; {len(os.sched_getaffinity(0))} processors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="a folder on the file system to be measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="forget cached files before each run (needs root)")
    parser.add_argument("--spec", help="how tensors are cut, where the checkpoint does not say")
    parser.add_argument("--set", action="append", default=[], help="a value for the spec; may be repeated")
    parser.add_argument("--to", action="append", default=[], help="a further target to convert to; may be repeated")
    parser.add_argument("--workers", type=int, default=2, help="of ds_to_universal")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave DeepSpeed's tools out")
    parser.add_argument("--bin", type=Path, default=os.environ.get("UCP_BIN", ROOT / "build/release/bin"))
    parser.add_argument("--engine", type=Path, default=ROOT / "build/engine-venv/bin/python")
    arguments = parser.parse_args()
    checkpoint = arguments.checkpoint.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    out = arguments.work.resolve() / "out"
    racers = contenders(arguments, checkpoint, out)
    race(arguments, racers, out)
    report(racers, size_of(checkpoint))


if __name__ == "__main__":
    main()
