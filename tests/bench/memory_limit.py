"""memory_limit.py FOLDER [--gigabytes N] [--memory SIZE]: a checkpoint far larger than the memory that it is given.

Makes a synthetic ZeRO-1 checkpoint in FOLDER and converts it to a universal one with `--memory`, inside a control group
whose memory the kernel bounds to the same size: the process, and the page cache it uses, which the kernel takes back.
Were the program to need more, the kernel would kill it; that it does is shown first, with a bound that is too small.
Needs root and a file system with room for twice the size. Both versions of control groups are known.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("UCP_BIN", ROOT / "build" / "release" / "bin")) / "ucprun"
SPEC = ["megatron_deepspeed_gpt"]
FIXED = {"hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 32000, "seq": 1024}
BYTES_OF_LAYER = 14 * (12 * 2048 * 2048 + 13 * 2048)  # Weights in bf16, three states in fp32.
BYTES_OF_OTHERS = 14 * (32000 + 1024) * 2048  # The embeddings.


class ControlGroup:
    """A bound on the memory of the processes that are put into it."""

    def __init__(self, limit: int) -> None:
        first = Path("/sys/fs/cgroup/memory")  # Version 1 has a tree for memory alone.
        self.is_first = first.is_dir()
        self.folder = (first if self.is_first else Path("/sys/fs/cgroup")) / f"ucp-bench-{os.getpid()}"
        self.folder.mkdir()
        (self.folder / ("memory.limit_in_bytes" if self.is_first else "memory.max")).write_text(str(limit))

    def enter(self) -> None:
        """Called by the process itself, before it becomes the program."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self) -> int:
        return int((self.folder / ("memory.max_usage_in_bytes" if self.is_first else "memory.peak")).read_text())

    def remove(self) -> None:
        self.folder.rmdir()


def run(limit: int, arguments: list[str]) -> tuple[int, str, float, int]:
    """The exit status, what was printed, seconds, and the most memory of the group."""
    group = ControlGroup(limit)
    begin = time.perf_counter()
    result = subprocess.run([str(PROGRAM), *arguments], preexec_fn=group.enter, capture_output=True, text=True,
                            check=False)  # fmt: skip
    seconds = time.perf_counter() - begin
    peak = group.peak()
    group.remove()
    if result.returncode not in (0, -signal.SIGKILL):
        sys.exit(result.stderr)
    return result.returncode, result.stdout, seconds, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=16)
    parser.add_argument("--memory", type=int, default=256, help="in MiB, of the program and of the group")
    options = parser.parse_args()
    source, out = options.folder / "memory-source", options.folder / "memory-out"
    layers = max(1, round((options.gigabytes * 1e9 - BYTES_OF_OTHERS) / BYTES_OF_LAYER))
    settings = [f"--set={name}={value}" for name, value in {**FIXED, "layers": layers}.items()]
    limit = options.memory << 20
    if not source.exists():
        subprocess.run([str(PROGRAM), "synth", *SPEC, str(source), "--to", "deepspeed:tp=2,pp=1,dp=2,zero=1,dtype=bf16",
                        *settings], check=True)  # fmt: skip
    convert = ["convert", str(source), str(out), "--to", "universal", "--spec", *SPEC, "--set=heads=16",
               f"--set=layers={layers}", "--json", f"--memory={options.memory}MiB"]  # fmt: skip
    too_little = 8 << 20
    status, _, _, _ = run(too_little, convert)
    print(f"in a group of {too_little / 1e6:.0f} MB: {'killed' if status else 'NOT killed, so this shows nothing'}")
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run(["sync"], check=True)
    if os.access("/proc/sys/vm/drop_caches", os.W_OK):
        Path("/proc/sys/vm/drop_caches").write_text("1")
    status, printed, seconds, peak = run(limit, convert)
    if status != 0:
        sys.exit(f"killed in a group of {limit:,} bytes")
    report = json.loads(printed)
    read = report["bytes_copied"] + report["bytes_compared"] + report["bytes_checksummed"]
    print(f"in a group of {limit:,} bytes, --memory {options.memory}MiB, cold cache:")
    print(f"  read {read:,} bytes, wrote {report['bytes_written']:,}, in {seconds:.1f} s")
    print(f"  the program took {report['peak_memory_bytes']:,} bytes; the group, page cache and all, {peak:,}")
    shutil.rmtree(out)


if __name__ == "__main__":
    main()
